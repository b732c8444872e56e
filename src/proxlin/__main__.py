"""`python -m proxlin` is the command line."""

from proxlin.app.cli.main import main

main()
