"""proxlin."""
