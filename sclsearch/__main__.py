"""`python -m sclsearch` is the command line."""

from sclsearch.cli import main

main()
