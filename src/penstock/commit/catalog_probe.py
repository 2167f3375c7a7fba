"""Measures on a scratch table whether a catalog keeps the one promise that all else depends on.

The table is examined twice, and a commit is sent on each of the two equal states. A catalog that
honours the compare-and-set lands the first and refuses the second (protocol.md 5); one that lands
both would let two writers overwrite each other.

Invariant: whatever happens, the scratch table is dropped again with all its files.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from penstock.commit.chain_position import CommitLabels, commit_at, position_at
from penstock.core.claims import Claim, Generation
from penstock.core.commits import Chain, CommitKind, EpochNumber, first_ledger
from penstock.core.errors import ConflictError, InvalidError, OutcomeUnknownError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.core.scratch import SCRATCH
from penstock.ports.runtime import Clock
from penstock.ports.tables import Table, TableDefinition, TableFormat

ANYTHING = TopicPartition("penstock-rehearsal", 0, "rehearsal")
RETAIN = 25


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The measurements: seconds to create a table and to commit, and the storage's clock.

    `ahead_seconds` is by how much the storage's clock is ahead of ours (negative: behind), None
    where the storage reports no times.
    """

    create_seconds: float
    commit_seconds: float
    ahead_seconds: float | None


def probe(catalog: TableFormat, namespace: str, token: str, clock: Clock) -> ProbeResult:
    """Create a scratch table, commit to it on two equal states, and drop it.

    Raises InvalidError (P443) when the second commit landed or the first did not, and whatever
    creating, committing and reading raise.
    """
    name = f"{namespace}.{SCRATCH}{token}"
    chain = Chain("penstock-rehearsal", name)
    held = Claim(Generation(1), token)
    first = first_ledger(chain, held, "rehearsal", "rehearsal", {ANYTHING: Offset(0)})
    began = clock.monotonic()
    try:
        definition = TableDefinition(Struct((Field("id", Kind.LONG),)))
        table = catalog.create(name, definition, (first,))
        created = clock.monotonic()
        before_ms = clock.now_ms()
        _race_commits(table, chain, held)
        committed = clock.monotonic()
        ahead = _ahead(table.describe().stored_ms, before_ms, clock.now_ms())
    finally:
        catalog.discard(name)
    return ProbeResult(created - began, committed - created, ahead)


def _race_commits(table: Table, chain: Chain, held: Claim) -> None:
    state, other = table.state(chain), table.state(chain)  # one each: a state may be used up
    labels = CommitLabels(held, "rehearsal", EpochNumber(1), "rehearsal", "rehearsal")
    position = position_at(table, chain, state)
    first, second = (
        commit_at(position, {ANYTHING: covered}, (), labels, kind=CommitKind.ANCHOR)
        for covered in (OffsetRange(Offset(0), Offset(1)), OffsetRange(Offset(0), Offset(2)))
    )
    table.commit(state, first, retain=RETAIN)
    with suppress(ConflictError, OutcomeUnknownError):  # without a clear answer the table decides
        table.commit(other, second, retain=RETAIN)
    landed = table.state(chain).landed
    reached = None if landed is None else landed.offsets.get(ANYTHING)
    if reached != Offset(1):
        raise InvalidError(
            f"{table.name}: of two commits on one state, "
            + ("none landed" if reached in (None, Offset(0)) else "the second landed as well")
            + ": the catalog has no compare-and-set",
            code="P443",
            hint="two writers would overwrite each other there: use another catalog, or another"
            " release of it",
        )


def _ahead(stored_ms: int | None, before_ms: int, after_ms: int) -> float | None:
    """Compare a time of the storage with ours around it; within them no skew can be measured."""
    if stored_ms is None:
        return None
    if stored_ms > after_ms:
        return (stored_ms - after_ms) / 1000
    return min(stored_ms + 1000 - before_ms, 0) / 1000  # storages report whole seconds
