"""Take one defence out of the real code, for a test: the names are those of the specification.

Each function patches what the code does at that place and nothing else, through pytest's
monkeypatch, so that all is as it was when the test ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.commit import errors, land, manual, two_phase
from penstock.connectors.memory import cluster, ledger, tables
from penstock.core import decide as deciding
from penstock.core.commits import CommitKind, landed_after
from penstock.core.errors import ConflictError
from penstock.core.file_ranges import Partitioned
from penstock.landing import run
from penstock.landing.epoch import prepare
from penstock.landing.repair import replay, reread, retry, table_rows
from penstock.landing.tables import log_checks, start_positions, table_set
from penstock.ownership import claim as ownership
from penstock.ownership import fencing
from penstock.ports.tables import Verdict

Patch = Callable[[pytest.MonkeyPatch], None]

_commit = tables.MemoryTable.commit


def _on_whatever_is_there(self: Any, state: Any, commit: Any, **given: Any) -> str:
    state = replace(state, handle=self._warehouse.get(self.name).contents)
    return _commit(self, state, commit, **given)


def _repeated(self: Any, state: Any, commit: Any, **given: Any) -> str:
    try:
        return _commit(self, state, commit, **given)
    except ConflictError:
        return _on_whatever_is_there(self, state, commit, **given)


def _commit_is(commit: Any) -> Patch:
    return lambda patch: patch.setattr(tables.MemoryTable, "commit", commit)


def _decide_is(decide: Any) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for room in (land, manual):
            patch.setattr(room, "decide", decide)

    return apply


def _positions(prepared: Any, landed: Any, edge: str) -> list[int]:
    covered = prepared.progress.items()
    return [deciding.position(landed.offsets, at) - getattr(each, edge) for at, each in covered]


def _without_own_id(prepared: Any, landed: Any, claim: Any, over: Any) -> Any:
    if deciding.outranks(landed.claim, claim, over):
        return deciding.Fenced(by=landed.claim)
    ahead = _positions(prepared, landed, "start")
    if all(distance == 0 for distance in ahead):
        return deciding.Commit()
    return deciding.Gap() if any(distance < 0 for distance in ahead) else deciding.Superseded()


def _without_offsets(prepared: Any, landed: Any, *claims: Any) -> Any:
    found = deciding.decide(prepared, landed, *claims)
    gone = isinstance(found, (deciding.Gap, deciding.Superseded))
    return deciding.Commit() if gone else found


def _commit_before_rank(prepared: Any, landed: Any, *claims: Any) -> Any:
    found = deciding.decide(prepared, landed, *claims)
    fits = all(distance == 0 for distance in _positions(prepared, landed, "start"))
    return deciding.Commit() if fits and isinstance(found, deciding.Fenced) else found


def _no_fencing(patch: pytest.MonkeyPatch) -> None:
    for room in (errors, deciding, fencing, ownership):
        patch.setattr(room, "outranks", lambda *_: False)


def _by_number_alone(patch: pytest.MonkeyPatch) -> None:
    def outranks(theirs: Any, ours: Any, _over: Any = ()) -> bool:
        if theirs.generation != ours.generation:
            return bool(theirs.generation > ours.generation)
        return theirs.owner not in ("", ours.owner)

    for room in (errors, deciding, fencing, ownership):
        patch.setattr(room, "outranks", outranks)


def _verdict_is(judge: Callable[[Any, Any, Any, Any], Any]) -> Patch:
    before = tables.verdict_of

    def apply(patch: pytest.MonkeyPatch) -> None:
        def verdict(contents: Any, chain: Any, landed: Any) -> Any:
            return judge(before(contents, chain, landed), contents, chain, landed)

        patch.setattr(tables, "verdict_of", verdict)

    return apply


def _the_property_alone(found: Any, *_: Any) -> Any:
    return found if found[0] is Verdict.ABSENT else (Verdict.AGREED, "")


def _snapshots_alone(patch: pytest.MonkeyPatch) -> None:
    """A table without a snapshot of the chain on its ancestry has no progress, whatever it says."""
    before = tables.MemoryTable.state

    def state(self: Any, chain: Any) -> Any:
        found = before(self, chain)
        commits = [each.commit for each in found.handle.ancestry()]
        if found.landed is None or any(each and each.chain.name == chain.name for each in commits):
            return found
        return replace(found, landed=None, verdict=Verdict.ABSENT)

    patch.setattr(tables.MemoryTable, "state", state)


def _no_third_witness(found: Any, *_: Any) -> Any:
    return (Verdict.AGREED, "") if found[0] is Verdict.UNCERTAIN else found


def _no_abort_fence(patch: pytest.MonkeyPatch) -> None:
    before = land.fence

    def fence(like: Any, state: Any, table: Any, context: Any) -> None:
        if state.verdict is Verdict.ROLLED_BACK:
            before(like, state, table, context)

    patch.setattr(land, "fence", fence)


def _topics_by_name(patch: pytest.MonkeyPatch) -> None:
    def create(self: Any, name: str, partitions: int = 1) -> None:
        self._topics[name] = cluster.Topic("one", [cluster.Partition() for _ in range(partitions)])

    patch.setattr(cluster.MemoryCluster, "create", create)


def _starts_are_not_written(patch: pytest.MonkeyPatch) -> None:
    def unwritten(*given: Any, **_: object) -> object:
        return SimpleNamespace(offsets=given[2], grown=())

    patch.setattr(start_positions, "begin", unwritten)


def _own_first(patch: pytest.MonkeyPatch) -> None:
    before = prepare.commits_for

    def commits_for(*given: Any) -> Any:
        return before(*given)[::-1]

    patch.setattr(prepare, "commits_for", commits_for)


def _followers_stay(patch: pytest.MonkeyPatch) -> None:
    def recover(self: Any, work: Any) -> Any:
        landings = []
        for commit, table in work:
            landings.append(self._recover_one(commit, table))
            self._settle_in_store(commit, landings[-1])
        return landings

    patch.setattr(two_phase.TwoPhase, "recover", recover)


def _still_examined(patch: pytest.MonkeyPatch) -> None:
    def say(self: Any, commit: Any, landing: Any) -> None:
        claim = self.context.claim
        landed, reason = landing.landed, landing.reason
        self.store.settle(self.pipeline, claim, commit, landed=landed, reason=reason)

    patch.setattr(two_phase.TwoPhase, "_settle_in_store", say)


def _examined_anywhere(patch: pytest.MonkeyPatch) -> None:
    def take(settings: Any, store: Any, table: Any) -> Any:
        known = store.examined(settings.pipeline).get(table.name)
        if known is None or table.position is None:
            return table
        ahead = {at: max(offset, table.examined[at]) for at, offset in known.reached.items()}
        return replace(table, examined={**table.examined, **ahead})

    patch.setattr(table_set, "resume_examined", take)
    _still_examined(patch)


def _looked_before_the_claim(patch: pytest.MonkeyPatch) -> None:
    early: dict[int, Any] = {}
    coordinate, tables_of = run._coordinate, run._claimed_tables

    def looking_first(settings: Any, environment: Any, *given: Any, **named: Any) -> Any:
        unclaimed: Any = SimpleNamespace(rise_above=lambda _: False)
        early[id(environment)] = tables_of(settings, environment, unclaimed)
        return coordinate(settings, environment, *given, **named)

    patch.setattr(run, "_coordinate", looking_first)
    patch.setattr(run, "_claimed_tables", lambda _, environment, __: early[id(environment)])


def _no_distrust(patch: pytest.MonkeyPatch) -> None:
    for name in ("acquire", "rise_above", "reacquire"):
        before = getattr(ownership.PipelineClaim, name)

        def trusting(self: Any, *given: Any, before: Any = before, **named: Any) -> Any:
            found = before(self, *given, **named)
            self.foreign = False
            return found

        patch.setattr(ownership.PipelineClaim, name, trusting)


def _first_claim_wins(prepared: Any, landed: Any, *claims: Any) -> Any:
    found = deciding.decide(prepared, landed, *claims)
    return deciding.Commit() if isinstance(found, deciding.Fenced) else found


def _by_hand_on_a_moved_table(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Any, state: Any, commit: Any, **given: Any) -> str:
        there = {file.path for file in state.handle.files}
        removes = tuple(path for path in commit.removes if path in there)
        return _commit(self, state, replace(commit, removes=removes), **given)

    patch.setattr(tables.MemoryTable, "commit", commit)
    patch.setattr(manual, "_shape", lambda _: None)
    patch.setattr(manual, "decide", _first_claim_wins)


def _any_files(patch: pytest.MonkeyPatch) -> None:
    before = replay.partition_files

    def sort_out(files: Any, stretch: Any) -> Partitioned:
        found = before(files, stretch)
        return Partitioned((*found.inside, *found.across), ())

    patch.setattr(replay, "partition_files", sort_out)
    patch.setattr(replay, "require_all_seen", lambda *_, **__: None)


def _same_segment(patch: pytest.MonkeyPatch) -> None:
    def after(landed: Any, commit: Any) -> Any:
        if commit.kind is not CommitKind.SEEK:
            return landed_after(landed, commit)
        put_back = landed_after(landed, commit)
        recent = (*landed.recent, *put_back.recent)
        return replace(put_back, segment=landed.segment, recent=recent)

    patch.setattr(ledger, "landed_after", after)


UNDEFENDED: dict[str, Patch] = {
    "compare and set": _commit_is(_on_whatever_is_there),
    "check inside the loop": _commit_is(_repeated),
    "own id": _decide_is(_without_own_id),
    "offsets": _decide_is(_without_offsets),
    "order of rules": _decide_is(_commit_before_rank),
    "generation": _no_fencing,
    "lines": _by_number_alone,
    "rollback witness": _verdict_is(_the_property_alone),
    "second witness": _snapshots_alone,
    "third witness": _verdict_is(_no_third_witness),
    "abort fence": _no_abort_fence,
    "file check": lambda patch: patch.setattr(tables.MemoryTable, "missing_files", lambda *_: []),
    "topic id": _topics_by_name,
    "retention check": lambda patch: patch.setattr(log_checks, "check_truncated", lambda *_: None),
    "start position": _starts_are_not_written,
    "quarantine look-up": lambda patch: patch.setattr(
        tables.MemoryTable, "quarantined", lambda *_: []
    ),
    "quarantine first": _own_first,
    "followers": _followers_stay,
    "examined basis": _examined_anywhere,
    "distrust": _no_distrust,
    "look after the claim": _looked_before_the_claim,
    "given up when moved": _by_hand_on_a_moved_table,
    "whole files": _any_files,
    "replay look-up": lambda patch: patch.setattr(reread, "_quarantined", lambda *_: frozenset()),
    "end of the rows": lambda patch: patch.setattr(table_rows, "ends_of_rows", lambda _: {}),
    "segment": _same_segment,
    "unfinished first": lambda patch: patch.setattr(
        retry.QuarantineResolver, "_finish", lambda *_: Counter()
    ),
}
