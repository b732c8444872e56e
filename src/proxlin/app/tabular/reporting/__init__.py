"""What is said and drawn of a fit and of odd rows: errors, caveats, the pages."""
