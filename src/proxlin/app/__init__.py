"""For a user's own table: reading and fitting it, and the command line."""
