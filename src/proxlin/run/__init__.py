"""One run of a method: minimize, the loop, its result, and what is kept on disk."""
