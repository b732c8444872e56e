"""The commands of the command line, one file each; `proxlin.cli` puts them together."""
