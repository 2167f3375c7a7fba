"""Scratch tables: made to measure a catalog, and the only tables that are ever dropped."""

from __future__ import annotations

from penstock.core.errors import BugError

SCRATCH = "penstock_scratch_"
"""The prefix of the last part of a scratch table's name."""


def is_scratch(name: str) -> bool:
    """Return whether a table's name is that of a scratch table."""
    return name.rpartition(".")[2].startswith(SCRATCH)


def require_scratch(name: str) -> None:
    """Raise BugError (P705) for the name of any other table."""
    if not is_scratch(name):
        raise BugError(
            f"{name} was about to be dropped, and is not a scratch table",
            code="P705",
            hint="nothing was dropped; please report it",
        )
