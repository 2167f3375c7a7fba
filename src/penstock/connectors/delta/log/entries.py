"""Parses one entry of the log: a commit's transactions, our commit info, its actions.

Invariants:
- a fence on a chain that was rolled back moves no position;
- what vouches for a commit is a file of its own, by its name; where it brought vectors only, one of
  them, with its file; and where it left nothing, a text that no file has. So a row delta always
  takes the place of the commit before it: if history is cut off above, and it was rolled back, the
  former's files would agree to a ledger that they know nothing of (docs/design/0243).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.vectors.descriptor import id_of
from penstock.core.commits import (
    DELETES_ROWS,
    CommitKind,
    Committable,
    first_ledger,
    landed_after,
)
from penstock.core.errors import BugError
from penstock.ports import tables as ports

Words = tuple[dict[str, int], dict[str, Any]]
"""The `txn` actions of an entry, and our mark in its commit info."""
Actions = Sequence[Mapping[str, Any]]


def words_of(
    state: ports.TableState, commit: Committable, newest: str | None, sequence: int
) -> Words:
    """Return what an entry says of a commit; `newest` is what vouches for it, if there is any.

    Raises BugError (P702): a fence on a chain that is rolled back without a ledger.
    """
    if state.verdict is ports.Verdict.ROLLED_BACK and commit.kind is CommitKind.FENCE:
        if state.landed is None:
            raise BugError(f"{commit.chain} is rolled back without a ledger", code="P702")
        mark = ledger.mark_of_commit(commit, state.landed, sequence, state.evidence)
        return ledger.fence_transactions(state.landed, sequence), mark
    before = state.landed or first_ledger(
        commit.chain, commit.claim, commit.cluster_id, commit.rules_hash, commit.origins
    )
    landed = landed_after(before, commit)
    transactions = ledger.transactions_of(
        landed, state.landed, sequence, [newest] if newest else []
    )
    return transactions, ledger.mark_of_commit(commit, landed, sequence, "")


def newest_of(commit: Committable, added: Actions, renewed: Actions = ()) -> str | None:
    """Return what vouches for a commit: `added` are its files, `renewed` those with new vectors."""
    if added:
        return str(added[-1]["path"])
    if commit.kind not in DELETES_ROWS:
        return None
    if renewed:
        return f"{renewed[-1]['path']} {id_of(renewed[-1])}"
    return f"nothing of {commit.commit_id}"


def vouchers(path: str, vector: str) -> Iterator[str]:
    """Yield the ids that a live file, with the id of its vector, may vouch for."""
    yield path.rpartition("/")[2]
    yield f"{path} {vector}"
