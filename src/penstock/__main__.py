"""`python -m penstock`."""

from penstock.cli import console

console()
