"""Do the witnesses of a chain agree? The table of protocol.md 3 for Delta, as one pure function.

Two witnesses speak: the `txn` actions, which survive everything, and the log since the version that
our newest commit was examined on. RESTORE rolls back neither `txn` nor the newest commit info, so
every entry after our newest commit counts for what it did (summary.py). Where log clean-up has
removed some, a third witness is asked: whether the newest file we landed is live.

Acts of others:
- RESTORE, overwrite, replace, truncate, DELETE of everything, and any removal of rows by an
  operation we do not know are a rollback;
- DELETE, UPDATE and MERGE of some rows are the users' right and keep the ledger true: what was
  landed was landed once; the evidence names them;
- appends, OPTIMIZE, VACUUM, property changes keep rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.delta.log.ledger import landed_from, landed_in
from penstock.connectors.delta.log.reader import Entry
from penstock.connectors.delta.log.summary import LogSummary
from penstock.core.commits import Landed
from penstock.ports.tables import Verdict


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts read of a chain at one version of its table.

    `past` covers the versions from `sequence` on, or from further down, up to the head.
    `transactions` collects all `txn` actions and `file_is_live` asks the third witness: both are
    expensive, and called only where entries are missing.
    """

    chain: str
    generation: int
    sequence: int
    rolled_back: int | None
    past: LogSummary
    transactions: Callable[[], Mapping[str, int]]
    file_is_live: Callable[[], bool | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of all witnesses, with its evidence."""

    verdict: Verdict
    evidence: str
    landed: Landed | None


def check_witnesses(facts: Facts) -> Finding:
    """Check the witnesses of a chain that has a generation in the table."""
    own = facts.past.own(facts.chain, facts.sequence)
    mark = own.mark(facts.chain) if own else None
    landed = landed_in(mark) if mark else None
    landed = landed or landed_from(facts.chain, facts.transactions())
    if landed is None:
        return Finding(Verdict.UNCERTAIN, "the ledger's transactions are torn", None)
    for version, act in facts.past.rollbacks:
        if version >= facts.sequence:
            return Finding(Verdict.ROLLED_BACK, f"version {version} is {act}", landed)
    if own is None or mark is None:
        return _without_own(facts, landed)
    return _with_own(facts, own, mark, landed)


def _with_own(facts: Facts, own: Entry, mark: Mapping[str, Any], landed: Landed) -> Finding:
    if reported := mark.get("rolled_back"):
        return Finding(Verdict.ROLLED_BACK, str(reported), landed)
    if (mark.get("sequence"), landed.generation) != (facts.sequence, facts.generation):
        evidence = f"version {own.version} and the transactions name different commits"
        return Finding(Verdict.UNCERTAIN, evidence, landed)
    if facts.past.missing > own.version:
        return _third_witness(facts, landed, f"entries after version {own.version} are missing")
    changed = [each for each in facts.past.changes if each[0] > own.version]
    noted = "".join(f"; version {version} changed rows by {act}" for version, act in changed)
    evidence = f"version {own.version} and the transactions agree{noted}"
    return Finding(Verdict.AGREED, evidence, landed)


def _without_own(facts: Facts, landed: Landed) -> Finding:
    if facts.rolled_back == facts.sequence:
        evidence = f"a fence after version {facts.sequence} reported a rollback"
        return Finding(Verdict.ROLLED_BACK, evidence, landed)
    if facts.past.missing < facts.sequence:
        evidence = f"no entry from version {facts.sequence} on bears our mark"
        return Finding(Verdict.UNCERTAIN, evidence, landed)
    # Our newest commit was at `sequence` or later: when only that entry is missing, it was ours.
    if facts.past.missing == facts.sequence:
        evidence = f"the transactions; nothing was rolled back after version {facts.sequence}"
        return Finding(Verdict.AGREED, evidence, landed)
    return _third_witness(facts, landed, f"entries after version {facts.sequence} are missing")


def _third_witness(facts: Facts, landed: Landed, missing: str) -> Finding:
    match facts.file_is_live():
        case None:
            return Finding(Verdict.AGREED, f"{missing}, and no file was ever landed", landed)
        case True:
            return Finding(Verdict.AGREED, f"{missing}; the newest file landed is live", landed)
        case _:
            evidence = f"{missing}, and so is the newest file landed"
            return Finding(Verdict.UNCERTAIN, evidence, landed)
