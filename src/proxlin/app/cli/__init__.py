"""The commands of the command line, one file each; `proxlin.app.cli.main` puts them together."""
