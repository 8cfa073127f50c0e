"""`python -m monoize`."""

from monoize.cli import main

main()
