"""From a file of unknown make to columns of numbers, and back to files."""
