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

from penstock.connectors.delta.log.ledger import landed_from, landed_in
from penstock.connectors.delta.log.reader import Entry
from penstock.connectors.delta.log.summary import LogSummary
from penstock.core.commits import Landed
from penstock.ports.tables import Verdict


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a chain at one version of its table.

    `past` tells of the versions from `sequence` on, or from further down, up to the head.
    `transactions` collects all `txn` actions and `file_is_live` asks the third witness: both are
    dear, and called only where entries are gone.
    """

    chain: str
    generation: int
    sequence: int
    rolled_back: int | None
    past: LogSummary
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
    own = facts.past.own(facts.chain, facts.sequence)
    landed = _landed(facts, own)
    if landed is None:
        return Judgement(Verdict.UNCERTAIN, "the ledger's transactions are torn", None)
    for version, act in facts.past.rollbacks:
        if version >= facts.sequence:
            return Judgement(Verdict.ROLLED_BACK, f"version {version} is {act}", landed)
    if own is None:
        return _without_own(facts, landed)
    return _with_own(facts, own, landed)


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
    if facts.past.gone > own.version:
        return _third_witness(facts, landed, f"entries after version {own.version} are gone")
    changed = [each for each in facts.past.changes if each[0] > own.version]
    noted = "".join(f"; version {version} changed rows by {act}" for version, act in changed)
    evidence = f"version {own.version} and the transactions agree{noted}"
    return Judgement(Verdict.AGREED, evidence, landed)


def _without_own(facts: Facts, landed: Landed) -> Judgement:
    if facts.rolled_back == facts.sequence:
        evidence = f"a fence after version {facts.sequence} reported a rollback"
        return Judgement(Verdict.ROLLED_BACK, evidence, landed)
    if facts.past.gone < facts.sequence:
        evidence = f"no entry from version {facts.sequence} on bears our mark"
        return Judgement(Verdict.UNCERTAIN, evidence, landed)
    # Our newest commit was at `sequence` or later: when only that entry is gone, it was ours.
    if facts.past.gone == facts.sequence:
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
