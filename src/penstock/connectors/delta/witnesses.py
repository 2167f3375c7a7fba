"""Do the witnesses of a chain agree? The table of protocol.md 3 for Delta, as one pure function.

Two witnesses speak: the `txn` actions, which survive everything, and the log since the version that
our newest commit was examined on. RESTORE rolls back neither `txn` nor the newest commit info, so
every entry after our newest commit is read for what it did. Where log clean-up has removed entries,
a third witness is asked: whether the newest file we landed is live.

Acts of others:
- RESTORE, overwrite, replace, truncate, DELETE of everything, and any removal of rows by an
  operation we do not know are a rollback;
- DELETE, UPDATE and MERGE of some rows are the users' right and keep the ledger true: what was
  landed was landed once; the evidence names them;
- appends, OPTIMIZE, VACUUM, property changes keep rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.connectors.delta.ledger import landed_from, landed_in
from penstock.connectors.delta.log import Entry
from penstock.core.commits import Landed
from penstock.ports.tables import Verdict

_ROW_OPERATIONS = {"DELETE", "UPDATE", "MERGE"}
_REPLACING = ("RESTORE", "REPLACE TABLE", "CREATE OR REPLACE", "TRUNCATE", "CLONE")
_EVERYTHING = {"", "[]", "true", '["true"]'}


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a chain at one version of its table.

    `entries` are the versions from `sequence` on, up to the head, None where one is gone.
    `transactions` collects all `txn` actions and `file_is_live` asks the third witness: both are
    dear, and called only where entries are gone.
    """

    chain: str
    generation: int
    sequence: int
    rolled_back: int | None
    entries: Sequence[Entry | None]
    transactions: Callable[[], Mapping[str, int]]
    file_is_live: Callable[[], bool | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the witnesses say together."""

    verdict: Verdict
    evidence: str
    landed: Landed | None


def judge(facts: Facts) -> Judgement:
    """Judge the witnesses of a chain that has a generation in the table."""
    own = next((e for e in reversed(facts.entries) if e and e.mark(facts.chain)), None)
    landed = _landed(facts, own)
    if landed is None:
        return Judgement(Verdict.UNCERTAIN, "the ledger's transactions are torn", None)
    for entry in facts.entries:
        act = rollback_in(entry) if entry else ""
        if entry and act and not entry.marks:
            evidence = f"version {entry.version} is {act}"
            return Judgement(Verdict.ROLLED_BACK, evidence, landed)
    if own is None:
        return _without_own(facts, landed)
    return _with_own(facts, own, landed)


def rollback_in(entry: Entry) -> str:
    """Name the act by which an entry takes landed rows away, or "" when it does not."""
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


def _landed(facts: Facts, own: Entry | None) -> Landed | None:
    mark = own.mark(facts.chain) if own else None
    landed = landed_in(mark) if mark else None
    return landed or landed_from(facts.chain, facts.transactions())


def _with_own(facts: Facts, own: Entry, landed: Landed) -> Judgement:
    mark = own.mark(facts.chain)
    assert mark is not None, "own is the entry that bears our mark"
    if reported := mark.get("rolled_back"):
        return Judgement(Verdict.ROLLED_BACK, str(reported), landed)
    if (mark.get("sequence"), landed.generation) != (facts.sequence, facts.generation):
        evidence = f"version {own.version} and the transactions tell different commits"
        return Judgement(Verdict.UNCERTAIN, evidence, landed)
    later = facts.entries[own.version - facts.sequence + 1 :]
    if None in later:
        return _third_witness(facts, landed, f"entries after version {own.version} are gone")
    changed = [e for e in later if e and e.removed]
    noted = "".join(f"; version {e.version} changed rows by {e.operation}" for e in changed)
    evidence = f"version {own.version} and the transactions agree{noted}"
    return Judgement(Verdict.AGREED, evidence, landed)


def _without_own(facts: Facts, landed: Landed) -> Judgement:
    if facts.rolled_back == facts.sequence:
        evidence = f"a fence after version {facts.sequence} reported a rollback"
        return Judgement(Verdict.ROLLED_BACK, evidence, landed)
    if None not in facts.entries:
        evidence = f"no entry from version {facts.sequence} on bears our mark"
        return Judgement(Verdict.UNCERTAIN, evidence, landed)
    # Our newest commit was at `sequence` or later: when only that entry is gone, it was ours.
    if None not in facts.entries[1:]:
        evidence = f"the transactions; nothing was rolled back after version {facts.sequence}"
        return Judgement(Verdict.AGREED, evidence, landed)
    return _third_witness(facts, landed, f"entries after version {facts.sequence} are gone")


def _third_witness(facts: Facts, landed: Landed, gone: str) -> Judgement:
    match facts.file_is_live():
        case None:
            return Judgement(Verdict.AGREED, f"{gone}, and no file was ever landed", landed)
        case True:
            return Judgement(Verdict.AGREED, f"{gone}; the newest file landed is live", landed)
        case _:
            evidence = f"{gone}, and so is the newest file landed"
            return Judgement(Verdict.UNCERTAIN, evidence, landed)
