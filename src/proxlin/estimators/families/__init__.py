"""The models that are tried on a table, and the held-out rows that choose."""
