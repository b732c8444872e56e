"""`python -m proxlin` is the command line."""

from proxlin.cli import main

main()
