"""Random walks over row deltas: what lands is the fold of the log, and of what others did meanwhile.

The real code nets, keeps, resolves, rewrites files or not, and lands; catalogs lose requests and answers, delay them and apply
them twice; others compact, delete and upsert between the look at a table and the request; processes
die; the pending store is lost, or comes back from a backup. After each step the rows of the table are
compared with the truth: the log up to what the ledger says has landed, changed by others' acts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random  # noqa: TID251  seeded
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.story.clock import ManualClock
from tests.story.faulty_catalog import Fault, FaultPlan, FaultyTables
from tests.story.foreign_acts import PlayedWarehouse
from tests.story.observer import Crash, CrashPlan, RecordingObserver

from penstock.commit import land as landing
from penstock.commit import rewriting
from penstock.commit.attempt import CommitContext
from penstock.commit.land import land
from penstock.commit.rewriting import FileRewriter, Rewriting
from penstock.commit.row_deltas import RowDeltaResolver
from penstock.connectors.memory.tables import MemoryTables
from penstock.core import decide as deciding
from penstock.core.commits import Chain, CommitKind, DataFile
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.serialization import committable_from_json, committable_to_json
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.tables import TableDefinition
from penstock.rows.keyed.merge import merge_touched
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.touched import touched_to_bytes
from penstock.testing.contracts.table_fixture import COLUMNS, Quiet, batch_of
from penstock.testing.prepared import ORDERS, TOPIC, claim, origin, part, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
NAME = "bronze.orders"
KEYS, RECORDS, PARTITIONS = 4, 14, 2
LANES = [part(number) for number in range(PARTITIONS)]
FAULTS = (
    Fault.LOSE_ANSWER,
    Fault.LOSE_REQUEST,
    Fault.DELAY,
    Fault.CONFLICT,
    Fault.OK_UNAPPLIED,
    Fault.TWICE,
    Fault.CRASH_BEFORE,
    Fault.CRASH_AFTER,
    Fault.CRASH_DELAYED,
)
POINTS = (CrashPoint.RESOLVE_BEFORE, CrashPoint.RESOLVE_AFTER, CrashPoint.FILES_REWRITTEN)
STEPS_MAX = 300
Truth = dict[int, str]


class Walk:
    """One table, one log, what is pending, and the truth."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.warehouse, self.plan = PlayedWarehouse(), FaultPlan()
        tables = FaultyTables(MemoryTables(self.warehouse), self.plan)
        ends = dict.fromkeys(range(PARTITIONS), 0)
        self.table = tables.create(NAME, TableDefinition(ORDERS), [origin(CHAIN, ends)])
        self.context = CommitContext(
            claim(), RecordingObserver(), ManualClock(), lambda: 0.5, 25, turns_max=8
        )
        self.log = [  # a key is bound to its partition, and a record is a key and whether it has a row
            [
                (
                    partition + PARTITIONS * self.random.randrange(KEYS // 2),
                    self.random.random() > 0.3,
                )
                for _ in range(RECORDS // PARTITIONS)
            ]
            for partition in range(PARTITIONS)
        ]
        self.truth: Truth = {}
        self.landed = ends
        self.pending: list[str] = []
        self.saved: list[str] = []
        self.prepared = dict(ends)
        self.attempts = 0

    # Acts.

    def prepare(self) -> None:
        """Net an epoch, cut into slices at random, and keep its commit as JSON."""
        stops = {
            p: self.random.randint(self.prepared[p], len(self.log[p])) for p in range(PARTITIONS)
        }
        ranges = {p: (self.prepared[p], stop) for p, stop in stops.items()}
        ranges = {p: each for p, each in ranges.items() if each[0] < each[1]}
        if not ranges or len(self.pending) > 2:
            return
        places = [(p, offset) for p, (a, b) in ranges.items() for offset in range(a, b)]
        cuts = sorted(self.random.randint(0, len(places)) for _ in range(2))
        bounds = zip([0, *cuts], [*cuts, len(places)], strict=True)
        slices = [net_by_lane(self.changes(places[a:b]), ["id"]).changes for a, b in bounds]
        self.pending.append(self.committable(ranges, slices))
        self.prepared.update(stops)

    def changes(self, places: list[tuple[int, int]]) -> Changes:
        rows = [self.row(p, offset) for p, offset in places]
        return Changes(
            batch_of(ORDERS, rows),
            np.array([self.log[p][offset][1] for p, offset in places], np.bool_),
            np.ones(len(places), np.bool_),
            np.array([p for p, _ in places], np.int32),
            np.array([offset for _, offset in places], np.int64),
            np.zeros(len(places), np.int8),
        )

    def row(self, partition: int, offset: int) -> dict[str, Any]:
        return {
            "id": self.log[partition][offset][0],
            "name": f"{partition}/{offset}",
            "_kafka_topic": TOPIC,
            "_kafka_partition": partition,
            "_kafka_offset": offset,
        }

    def committable(self, ranges: dict[int, tuple[int, int]], slices: list[Changes]) -> str:
        """Write the rows of each slice, and merge the keys that they touch."""
        self.attempts += 1
        state = self.table.state(CHAIN)
        files: list[DataFile] = []
        parts: list[tuple[bytes, int]] = []
        for changes in slices:
            writer = MemoryTables(self.warehouse).open_writer(
                state.target, prefix=f"shop-{self.attempts}-{len(parts)}-", observer=Quiet()
            )
            writer.write(changes.rows.filter(pa.array(changes.upsert)))
            places = (
                np.where(changes.upsert, 0, -1).astype(np.int32),
                np.cumsum(changes.upsert) - 1,
            )
            part_ = touched_to_bytes(changes, ["id"], LANES, places, COLUMNS)
            parts.append((part_, len(files)))
            files += writer.close()
        self.random.shuffle(parts)
        merged = merge_touched(parts, [each.record_count for each in files])
        commit = prepared(
            CHAIN,
            ranges,
            uuid=state.uuid,
            schema_id=state.schema_id,
            files=[files[ordinal] for ordinal in merged.files],
            kind=CommitKind.ROW_DELTA,
            attempt=f"a{self.attempts}",
        )
        return committable_to_json(replace(commit, touched=merged.touched, keys=("id",)))

    def land(self) -> None:
        """Land the oldest pending commit, while something may go wrong."""
        if not self.pending:
            return
        if self.random.random() < 0.5:
            self.plan.queue(NAME, self.random.choice(FAULTS))
        while self.random.random() < 0.4:
            self.plan.before_commit(NAME, self.foreign)
        context = self.context
        if self.random.random() < 0.5:
            again = Rewriting(MemoryTables(self.warehouse).open_writer, 1 << 40)
            context = replace(context, rewriting={CHAIN.table: again})
        if self.random.random() < 0.2:
            plan = CrashPlan(self.random.choice(POINTS), self.random.randint(1, 2))
            context = replace(context, observer=RecordingObserver(plan))
        try:
            result = land(committable_from_json(self.pending[0]), self.table, context)
        except Crash:
            self.prepared = self.ends()
        except UnavailableError:
            pass  # it stays pending
        else:
            if result.landed:
                del self.pending[0]
            else:
                self.pending.clear()
                self.prepared = self.ends()
        self.plan.clear()
        self.plan.play_acts(NAME)

    def ends(self) -> dict[int, int]:
        """Return from where the next epoch is planned: behind what is pending, else the ledger's."""
        ends = dict(self.ledger())
        for text in self.pending:
            for at, covered in committable_from_json(text).progress.items():
                ends[at.partition] = max(ends[at.partition], covered.stop)
        return ends

    def ledger(self) -> dict[int, int]:
        landed = self.table.state(CHAIN).landed
        assert landed is not None
        return {at.partition: int(offset) for at, offset in landed.offsets.items()}

    def foreign(self) -> None:
        """Let others compact, delete or upsert."""
        self.note()
        act = self.random.choice(("compact", "delete", "upsert"))
        rows = self.warehouse.rows(NAME)
        if act == "compact" and rows:
            self.warehouse.foreign_compaction(NAME)
        elif act == "delete" and rows:
            number = self.random.choice(rows)["id"]
            self.warehouse.foreign_delete(NAME, lambda row: row["id"] == number)
            self.truth.pop(number, None)
        elif act == "upsert":
            number = self.random.randrange(KEYS)
            name = f"foreign {self.random.random()}"
            self.warehouse.foreign_delete(NAME, lambda row: row["id"] == number)
            row = {**dict.fromkeys(COLUMNS.values()), "id": number, "name": name}
            self.warehouse.foreign_append(NAME, [row])
            self.truth[number] = name

    def note(self) -> None:
        """Fold into the truth what the ledger says has landed since."""
        ledger = self.ledger()
        for partition, stop in ledger.items():
            for offset in range(self.landed[partition], stop):
                key, has_row = self.log[partition][offset]
                self.truth.pop(key, None)
                if has_row:
                    self.truth[key] = f"{partition}/{offset}"
        self.landed = ledger

    def check(self) -> None:
        self.note()
        rows = sorted((row["id"], row["name"]) for row in self.warehouse.rows(NAME))
        assert sorted(self.truth.items()) == rows

    def step(self) -> None:
        act = self.random.choice(("prepare", "land", "land", "foreign", "rest", "rest"))
        if act == "prepare":
            self.prepare()
        elif act == "land":
            self.land()
        elif act == "foreign":
            self.foreign()
        else:
            self.rest()
        self.check()

    def rest(self) -> None:
        act = self.random.choice(("release", "lose", "save", "restore", "crash"))
        if act == "release":
            self.plan.release()
        elif act == "lose":
            self.pending.clear()
        elif act == "save":
            self.saved = [*self.pending]
        elif act == "restore":
            self.pending = [*self.saved]
        self.prepared = self.ends()

    def run(self) -> None:
        """Walk until all has landed; the end must be exact."""
        for _ in range(STEPS_MAX):
            self.step()
            if self.landed == {p: len(each) for p, each in enumerate(self.log)}:
                break
        self.plan.clear()
        self.check()


@pytest.mark.parametrize("block", range(6))
def test_what_lands_is_the_fold_whatever_others_do_and_whatever_is_lost(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        Walk(seed).run()


def _go_wrong(times: int, walks: int = 150) -> bool:
    """Return whether so many of the walks, or more, go wrong."""
    broken = 0
    for seed in range(walks):
        try:
            Walk(seed).run()
        except (AssertionError, PenstockError):
            broken += 1
        if broken == times:
            return True
    return False


def test_walks_go_wrong_where_row_deletes_are_kept_from_an_earlier_state(monkeypatch) -> None:
    resolve = RowDeltaResolver.resolve
    kept: dict[str, Any] = {}

    def resolved_once(self: Any, state: Any, table: Any, landed: Any) -> Any:
        return kept.setdefault(self.commit.attempt, resolve(self, state, table, landed))

    monkeypatch.setattr(RowDeltaResolver, "resolve", resolved_once)

    assert _go_wrong(11)


def test_walks_go_wrong_where_superseded_rows_stay_in_their_files(monkeypatch) -> None:
    def deletes(self: Any, late: Any) -> Any:
        self._touched = replace(
            self._touched,
            superseded_file=np.zeros(0, np.int32),
            superseded_row=np.zeros(0, np.int64),
        )
        return own_deletes(self, late)

    own_deletes = RowDeltaResolver._own_deletes
    monkeypatch.setattr(RowDeltaResolver, "_own_deletes", deletes)

    assert _go_wrong(11)


def test_walks_go_wrong_where_a_look_up_ignores_rows_that_were_deleted_since(monkeypatch) -> None:
    resolve = RowDeltaResolver.resolve

    def resolved(self: Any, state: Any, table: Any, landed: Any) -> Any:
        known = {path: hits for (path, _), hits in self._known.items()}
        files = table.live_files(state)
        self._known = {(f.path, f.delete_state): known[f.path] for f in files if f.path in known}
        return resolve(self, state, table, landed)

    monkeypatch.setattr(RowDeltaResolver, "resolve", resolved)

    assert _go_wrong(4)


def test_walks_go_wrong_where_a_rewritten_file_is_used_whatever_was_deleted_since(
    monkeypatch,
) -> None:
    left = FileRewriter._left
    kept: dict[tuple[str, str], Any] = {}

    def once(self: Any, state: Any, table: Any, deletes: Any, file: Any) -> Any:
        at = self.commit.attempt, deletes.path
        return kept.setdefault(at, left(self, state, table, deletes, file))

    monkeypatch.setattr(FileRewriter, "_left", once)
    monkeypatch.setattr(RowDeletes, "leave", lambda *_: True)

    assert _go_wrong(4)


def test_walks_go_wrong_where_rows_that_were_deleted_are_written_again(monkeypatch) -> None:
    def all_of_it(state: Any, table: Any, deletes: Any, file: Any) -> Any:
        whole = DataFile(file.path, 0, file.size_bytes, {})
        return staying(state, table, deletes, whole)

    staying = rewriting._staying
    monkeypatch.setattr(rewriting, "_staying", all_of_it)
    monkeypatch.setattr(RowDeletes, "leave", lambda *_: True)

    assert _go_wrong(4)


def test_walks_go_wrong_where_a_commit_is_not_decided_on(monkeypatch) -> None:
    decided = deciding.decide

    def decide(commit: Any, landed: Any, *claims: Any) -> Any:
        found = decided(commit, landed, *claims)
        once = isinstance(found, deciding.AlreadyLanded) and not commit.attempt.endswith("!")
        return deciding.Commit() if once else found

    monkeypatch.setattr(landing, "decide", decide)
    with suppress(RecursionError):
        assert _go_wrong(11, walks=60)
