"""The errors of pending stores that all of them share."""

from __future__ import annotations

from penstock.core.commits import Committable
from penstock.core.errors import BugError, FencedError

ALIVE = "P510"
"""The code of a claim that is not got while another run is alive."""


def fenced(pipeline: str, generation: int, host: str, pid: int) -> FencedError:
    """Build the error for a write under a claim that is no longer the newest."""
    return FencedError(
        f"pipeline {pipeline} was taken over by generation {generation} on host {host}, pid {pid}",
        code="P501",
        hint="leave it to the newer owner; do not restart this one",
    )


def settled_otherwise(commit: Committable, state: str, wanted: str) -> BugError:
    """Build the error for a commit that is in the store in a state it cannot leave."""
    return BugError(
        f"commit {commit.commit_id} of {commit.chain}, attempt {commit.attempt}, is {state} in the "
        f"pending store and cannot become {wanted}",
        code="P750",
        hint="nothing was changed; please report this",
    )
