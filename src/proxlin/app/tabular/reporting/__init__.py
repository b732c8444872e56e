"""What is said and drawn of a fit: errors, caveats, the page."""
