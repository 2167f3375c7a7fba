"""Summarizes a range of log versions: changes to landed rows, and marks of chains. Small, cached.

A chain that lands seldom in a table that others write to has all their versions after its newest
commit, and the witnesses ask for each of them. An entry never changes, so it is read once and only
what matters of it is kept, for all chains together.

Invariants:
- a past covers every version of its stretch: those that were read, and those that were missing;
- two pasts of one log that touch or overlap make one, in whatever order they were read;
- what is kept is bounded by the number of chains: of acts, only the newest are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.connectors.delta.log.reader import Entry

_ROW_OPERATIONS = {"DELETE", "UPDATE", "MERGE"}
_REPLACING = ("RESTORE", "REPLACE TABLE", "CREATE OR REPLACE", "TRUNCATE", "CLONE")
_EVERYTHING = {"", "[]", "true", '["true"]'}
_ACTS_KEPT = 32

Act = tuple[int, str]
"""A version, and what it did."""


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The changes of the versions from `first` on, up to but not including `stop`.

    `missing` is the newest of them that no longer exists, or -1. `rollbacks` are acts of others
    that took landed rows away, `changes` the operations that removed files together with their
    rows, ours too: of each the newest, ascending. `newest` has, by chain, the last entry that bears
    our mark on it.
    """

    first: int
    stop: int
    missing: int = -1
    rollbacks: tuple[Act, ...] = ()
    changes: tuple[Act, ...] = ()
    newest: Mapping[str, Entry] = field(default_factory=dict, repr=False)

    def own(self, chain: str, since: int) -> Entry | None:
        """Find the newest entry with our mark on a chain, from a version on."""
        found = self.newest.get(chain)
        return found if found and found.version >= since else None


def past_of(first: int, entries: Iterable[Entry | None]) -> LogSummary:
    """Return what entries of consecutive versions did; None is a missing one."""
    stop, missing = first, -1
    rollbacks: list[Act] = []
    changes: list[Act] = []
    newest: dict[str, Entry] = {}
    for entry in entries:
        if entry is None:
            missing = stop
        else:
            act = "" if entry.marks else rollback_in(entry)
            rollbacks += [(stop, act)] if act else []
            changes += [(stop, entry.operation)] if entry.removed else []
            newest |= {
                chain: entry for m in entry.marks if isinstance(chain := m.get("chain"), str)
            }
        stop += 1
    return LogSummary(first, stop, missing, _kept(rollbacks), _kept(changes), newest)


def joined(one: LogSummary, other: LogSummary) -> LogSummary:
    """Make one past of two of the same log that touch or overlap."""
    if one is other:
        return one
    earlier, later = sorted((one, other), key=lambda each: (each.stop, each.first))
    assert later.first <= earlier.stop, "what lies between two pasts is not known"
    newest = dict(one.newest)
    for chain, entry in other.newest.items():
        if chain not in newest or newest[chain].version < entry.version:
            newest[chain] = entry
    return LogSummary(
        first=min(earlier.first, later.first),
        stop=later.stop,
        missing=max(earlier.missing, later.missing),
        rollbacks=_kept({*earlier.rollbacks, *later.rollbacks}),
        changes=_kept({*earlier.changes, *later.changes}),
        newest=newest,
    )


def rollback_in(entry: Entry) -> str:
    """Name the act by which an entry removes landed rows, or "" when it does not."""
    operation = entry.operation
    if operation.startswith(_REPLACING):
        return f"a {operation}"
    modes = {str(entry.parameters.get(key, "")).lower() for key in ("mode", "outputMode")}
    if operation != "CREATE TABLE" and modes & {"overwrite", "complete"}:
        return f"an overwrite ({operation})"
    if not entry.removed:
        return ""
    if operation not in _ROW_OPERATIONS:
        return f"a removal of {entry.removed} files by {operation or 'an unnamed operation'}"
    if operation == "DELETE" and str(entry.parameters.get("predicate") or "") in _EVERYTHING:
        return "a DELETE of all rows"
    return ""


def _kept(acts: Iterable[Act]) -> tuple[Act, ...]:
    return tuple(sorted(acts)[-_ACTS_KEPT:])
