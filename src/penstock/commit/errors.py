"""Errors of commits that must not land: another owner or cluster, a rollback, a lost ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from penstock.core.claims import Claim
from penstock.core.commits import Chain, Committable, Landed
from penstock.core.decide import outranks
from penstock.core.errors import DecisionNeededError, FencedError, PenstockError
from penstock.ports.tables import TableState

ROLLED_BACK = "P455"


def require_rank(state: TableState, claim: Claim, supersedes: Collection[str]) -> None:
    """Raise FencedError when a newer owner has landed: then even a fence is not ours to land."""
    if state.landed is not None and outranks(state.landed.claim, claim, supersedes):
        raise fenced(state.landed.claim, claim)


def last_lineage(state: TableState) -> list[str]:
    """Name the line that landed last: in a table that was rolled back, numbers alone count."""
    return [state.landed.claim.line] if state.landed else []


def fenced(by: Claim, claim: Claim) -> FencedError:
    """Build the error for a pipeline that a newer owner took over."""
    error = FencedError(
        f"generation {by.generation} of owner {by.owner} has landed since generation "
        f"{claim.generation} of {claim.owner} began",
        code="P520",
        hint="another run owns this pipeline now; do not restart this one",
    )
    error.by = by
    return error


def ledger_missing(commit: Committable) -> DecisionNeededError:
    """Build the error for a table that lost its progress."""
    return DecisionNeededError(
        f"{commit.chain.table} has no record of what {commit.chain.name} has landed in it",
        code="P453",
        hint="someone removed the table's Penstock properties: restore the table's metadata",
    )


def other_cluster(table: str, ledger: str, here: str) -> DecisionNeededError:
    """Build the error for brokers of another cluster than the table's."""
    return DecisionNeededError(
        f"{table} was fed from Kafka cluster {ledger}, and the brokers given are cluster {here}",
        code="P454",
        hint="point kafka.brokers at the former cluster, or land in tables of another name",
    )


def require_same_keys(
    table: str, landed: Landed | None, keys: Sequence[str], sequence: Sequence[str]
) -> None:
    """Raise DecisionNeededError where a chain has changed rows otherwise than by these columns.

    Without `keys` rows are appended; without a `sequence` the order of the log decides. A chain
    that has appended until now may change rows from now on.
    """
    if landed is None or landed.keyed is None:
        return
    former = landed.keyed
    if (former.keys, former.sequence) == (tuple(keys), tuple(sequence)):
        return
    differ = bool(keys) and former.sequence != tuple(sequence)
    was = f"the keys {_shown(former.keys, former.sequence if differ else None)}"
    now = f"its keys are {_shown(keys, sequence if differ else None)} now"
    now = now if keys else "it is to append now"
    raise DecisionNeededError(
        f"rows of {table} were changed by {was} until now, and {now}",
        code="P464",
        hint="give the rule its former mode, keys and sequence_by back, or land in a table of "
        "another name",
    )


def require_keys_of_others(
    chain: Chain, ledgers: Iterable[Landed], keys: Sequence[str], sequence: Sequence[str]
) -> None:
    """Raise DecisionNeededError where another pipeline changes rows by other columns than these.

    It would find rows of this one by other keys, or this one would put rows beside its.
    """
    for other in ledgers:
        there = other.keyed
        if other.chain == chain.name or there is None:
            continue
        if (there.keys, there.sequence) == (tuple(keys), tuple(sequence)):
            continue
        differ = bool(keys) and there.sequence != tuple(sequence)
        own = f"changes them by {_shown(keys, sequence if differ else None)}"
        raise DecisionNeededError(
            f"pipeline {other.chain} changes rows of {chain.table} by the keys "
            f"{_shown(there.keys, there.sequence if differ else None)}, and this one "
            f"{own if keys else 'appends'}",
            code="P464",
            hint="land in a table of another name, or give the rule the mode, keys and "
            "sequence_by of that pipeline",
        )


def _shown(keys: Sequence[str], sequence: Sequence[str] | None) -> str:
    if sequence is None:
        return ", ".join(keys)
    by = f"sequence_by: [{', '.join(sequence)}]" if sequence else "without sequence_by"
    return f"{', '.join(keys)} ({by})"


def keys_across_partitions(table: str, keys: int) -> DecisionNeededError:
    """Build the error for keys that were changed in two partitions, where the spec says stop."""
    return DecisionNeededError(
        f"{keys:,} {'key' if keys == 1 else 'keys'} of {table} changed in two partitions: which "
        "change is the last is not known; the commit waits",
        code="P489",
        hint="to let the later commit win, and in a commit the later partition:  "
        "across_partitions: warn",
    )


def too_many_bytes(table: str, size_bytes: int, bytes_max: int) -> DecisionNeededError:
    """Build the error for a commit that would rewrite more of a table than the spec allows."""
    return DecisionNeededError(
        f"the next commit takes rows from files of {table} with {size_bytes:,} bytes, and may "
        f"rewrite {bytes_max:,}; it waits",
        code="P265",
        hint="raise  rewrite_bytes_max, or write  row_deletes: auto  if all its readers know row "
        "deletes; then run again",
    )


def rolled_back(table: str, evidence: str, *, quarantine: bool = False) -> PenstockError:
    """Build the error for a table that was rolled back; a quarantine cannot be put back."""
    meant = "a quarantine cannot be put back" if quarantine else f"meant:  penstock seek {table}"
    return DecisionNeededError(
        f"{table} no longer holds what its ledger says: {evidence}",
        code=ROLLED_BACK,
        hint=f"a mistake: roll forward, see  penstock explain P455; {meant}",
    )
