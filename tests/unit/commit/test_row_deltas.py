"""What a row delta takes away, counts and leaves in the ledger, on a table in memory."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.story.clock import ManualClock
from tests.story.foreign_acts import PlayedWarehouse
from tests.story.observer import Crash, RecordingObserver

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import CommitLabels, commit_at, read_position
from penstock.commit.errors import keys_across_partitions, require_same_keys
from penstock.commit.land import land
from penstock.commit.row_deltas import RowDeltaResolver
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.commits import Chain, CommitKind, EpochNumber, Keyed
from penstock.core.errors import DecisionNeededError
from penstock.core.events import KeysAcrossPartitions, TableCommitted
from penstock.core.serialization import committable_from_json, committable_to_json
from penstock.ports.tables import TableDefinition
from penstock.rows.keyed.digest import alike
from penstock.rows.keyed.lookup import KeyLookup
from penstock.rows.keyed.merge import merge_touched
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.touched import touched_to_bytes
from penstock.testing.contracts.table_fixture import COLUMNS, Quiet, batch_of
from penstock.testing.prepared import (
    CLUSTER,
    ORDERS,
    RULES,
    TOPIC,
    claim,
    orders,
    origin,
    part,
    positions,
    prepared,
    progress,
)

CHAIN = Chain("shop", "lake.bronze.orders")
NAME = "bronze.orders"
LANES = [part(0), part(1)]


class Bench:
    def __init__(self, keyed=None):
        self.warehouse = PlayedWarehouse()
        self.tables = MemoryTables(self.warehouse)
        ledger = replace(origin(CHAIN, {0: 0, 1: 0}), keyed=keyed)
        self.table = self.tables.create(NAME, TableDefinition(ORDERS), [ledger])
        self.observer = RecordingObserver()
        self.context = CommitContext(claim(), self.observer, ManualClock(), lambda: 0.5, 25)
        self.written = 0

    def write(self, rows):
        self.written += 1
        target = self.table.state(CHAIN).target
        writer = self.tables.open_writer(target, prefix=f"f{self.written}-", observer=Quiet())
        writer.write(rows)
        return writer.close()

    def part(self, *changes):
        """Write `(id, partition, offset, whether it brings a row)`: a slice's part and its files."""
        rows = batch_of(
            ORDERS,
            [
                {
                    "id": number,
                    "name": f"{lane}/{offset}",
                    "_kafka_topic": TOPIC,
                    "_kafka_partition": lane,
                    "_kafka_offset": offset,
                }
                for number, lane, offset, _ in changes
            ],
        )
        every = Changes(
            rows,
            np.array([up for *_, up in changes], np.bool_),
            np.ones(len(changes), np.bool_),
            np.array([lane for _, lane, _, _ in changes], np.int32),
            np.array([offset for _, _, offset, _ in changes], np.int64),
            np.zeros(len(changes), np.int8),
        )
        net = net_by_lane(every, ["id"]).changes
        files = self.write(net.rows.filter(pa.array(net.upsert))) if net.upsert.any() else ()
        places = (
            np.where(net.upsert, 0, -1).astype(np.int32),
            np.where(net.upsert, np.cumsum(net.upsert) - 1, -1),
        )
        return touched_to_bytes(net, ["id"], LANES, places, COLUMNS), files

    def prepare(self, ranges, *slices, keys=("id",)):
        parts, files = [], []
        for each in slices:
            content, own = self.part(*each)
            parts.append((content, len(files)))
            files += own
        merged = merge_touched(parts, [file.record_count for file in files])
        labels = CommitLabels(claim(), CLUSTER, EpochNumber(1), RULES, f"a{self.written}")
        commit = commit_at(
            read_position(self.table, CHAIN, CLUSTER),
            progress(ranges),
            tuple(files[ordinal] for ordinal in merged.files),
            labels,
            kind=CommitKind.ROW_DELTA,
            keys=keys,
            touched=merged.touched,
        )
        return committable_from_json(committable_to_json(commit))

    def land(self, ranges, *slices, keys=("id",)):
        assert land(self.prepare(ranges, *slices, keys=keys), self.table, self.context).landed

    def append(self, ranges):
        files = self.write(batch_of(ORDERS, orders(ranges)))
        state = self.table.state(CHAIN)
        commit = prepared(CHAIN, ranges, uuid=state.uuid, files=files, schema_id=state.schema_id)
        assert land(commit, self.table, self.context).landed

    @property
    def keyed(self):
        return self.table.state(CHAIN).landed.keyed

    @property
    def rows(self):
        return sorted((row["id"], row["name"]) for row in self.warehouse.rows(NAME))

    @property
    def committed(self):
        return self.observer.of(TableCommitted)[-1]


@pytest.fixture
def bench():
    return Bench(Keyed(("id",), compares_offsets=True))


def test_of_a_key_in_two_slices_the_last_change_stays_and_the_other_row_goes_in_its_own_file(bench):
    bench.land(
        {0: (0, 4), 1: (0, 1)},
        [(1, 0, 0, True), (2, 0, 1, True)],
        [(2, 0, 2, False), (3, 0, 3, True)],
        [(1, 1, 0, True)],
    )

    assert [(1, "1/0"), (3, "0/3")] == bench.rows
    assert 2 == len(bench.table.live_files(bench.table.state(CHAIN)))
    assert 2 == bench.committed.files


def test_a_late_row_and_a_superseded_one_in_one_file_are_each_deleted_once(bench):
    bench.land({0: (0, 6)}, [(1, 0, 5, True)])
    sent = bench.prepare({0: (6, 9)}, [(1, 0, 3, True), (2, 0, 6, True)], [(2, 0, 7, True)])
    state = bench.table.state(CHAIN)
    [own] = RowDeltaResolver(sent).resolve(state, bench.table, state.landed).row_deletes
    assert (sent.files[0].path, [0, 1]) == (own.path, own.positions.tolist())
    assert land(sent, bench.table, bench.context).landed

    assert [(1, "0/5"), (2, "0/7")] == bench.rows
    assert {"inserted": 1, "late": 1} == bench.committed.changes
    assert 2 == len(bench.table.live_files(bench.table.state(CHAIN)))


def test_a_change_replaces_the_row_of_its_own_record(bench):
    bench.land({0: (0, 6)}, [(1, 0, 5, True), (2, 0, 4, True)])
    bench.land({0: (6, 9)}, [(1, 0, 5, True), (2, 0, 4, False)])

    assert [(1, "0/5")] == bench.rows
    assert {"updated": 1, "deleted": 1} == bench.committed.changes


def test_offsets_of_a_topic_that_was_made_again_are_not_compared(bench):
    bench.land({0: (0, 6)}, [(1, 0, 5, True)])
    sent = bench.prepare({0: (6, 9)}, [(1, 0, 3, True)])
    state = bench.table.state(CHAIN)
    former = replace(part(0), topic_id="of the topic before")
    landed = replace(state.landed, offsets={**state.landed.offsets, former: 9})

    found = RowDeltaResolver(sent).resolve(state, bench.table, landed)
    assert {"updated": 1} == found.counts


def test_what_the_changes_did_is_counted(bench):
    bench.land({0: (0, 3)}, [(1, 0, 0, True), (2, 0, 1, True), (3, 0, 2, True)])
    assert {"inserted": 3} == bench.committed.changes
    bench.warehouse.foreign_append(
        NAME, [{**dict.fromkeys(COLUMNS.values()), "id": 1, "name": "other"}]
    )
    bench.land(
        {0: (3, 8)},
        [(1, 0, 3, True), (2, 0, 4, False), (9, 0, 5, False), (4, 0, 6, True), (3, 0, 1, True)],
    )

    assert {
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
        "absent": 1,
        "late": 1,
        "healed": 1,
    } == bench.committed.changes
    assert [(1, "0/3"), (3, "0/2"), (4, "0/6")] == bench.rows


def test_keys_in_two_partitions_are_reported(bench):
    bench.land({0: (0, 2)}, [(1, 0, 0, True), (2, 0, 1, True)])
    assert not bench.observer.of(KeysAcrossPartitions)
    bench.land({0: (2, 3), 1: (0, 2)}, [(1, 1, 0, True), (3, 0, 2, True), (3, 1, 1, True)])

    [found] = bench.observer.of(KeysAcrossPartitions)
    assert KeysAcrossPartitions("lake.bronze.orders", keys=1, rows=1) == found
    assert [(1, "1/0"), (2, "0/1"), (3, "1/1")] == bench.rows


def test_rows_of_others_are_of_no_partition(bench):
    bench.warehouse.foreign_append(
        NAME, [{**dict.fromkeys(COLUMNS.values()), "id": 1, "name": "other"}]
    )
    bench.land({1: (0, 1)}, [(1, 1, 0, True)])

    assert not bench.observer.of(KeysAcrossPartitions)


def test_a_table_becomes_keyed_by_its_first_row_delta():
    bench = Bench()
    bench.append({0: (0, 2)})
    assert bench.keyed is None
    bench.land({0: (2, 3)}, [(1, 0, 2, True)])

    assert Keyed(("id",), compares_offsets=True, since=positions({0: 2})) == bench.keyed


def test_offsets_are_compared_where_a_table_had_no_rows_whoever_has_a_ledger_in_it():
    bench = Bench()
    other = replace(CHAIN, name="other")
    state = bench.table.state(other)
    anchor = prepared(other, {}, uuid=state.uuid, nonce="n", origins={5: 1})
    bench.table.commit(state, anchor, retain=25)
    bench.land({0: (0, 1)}, [(1, 0, 0, True)])

    assert bench.keyed.compares_offsets


def test_offsets_are_not_compared_where_rows_are_of_others():
    bench = Bench()
    other = replace(CHAIN, name="other")
    files = bench.write(batch_of(ORDERS, [{**orders({0: (7, 8)})[0], "id": 1}]))
    state = bench.table.state(other)
    given = {"uuid": state.uuid, "files": files, "schema_id": state.schema_id}
    bench.table.commit(state, prepared(other, {0: (7, 8)}, **given, origins={0: 7}), retain=25)
    bench.land({0: (0, 1)}, [(1, 0, 0, True)])

    assert Keyed(("id",), compares_offsets=False) == bench.keyed
    assert [(1, "0/0")] == bench.rows
    bench.land({0: (1, 2)}, [(1, 0, 1, True)])
    assert [(1, "0/1")] == bench.rows


def test_a_commit_of_other_keys_or_without_keys_does_not_land(bench):
    bench.land({0: (0, 1)}, [(1, 0, 0, True)])
    with pytest.raises(DecisionNeededError) as refused:
        bench.land({0: (1, 2)}, [(1, 0, 1, True)], keys=("name",))
    assert "P464" == refused.value.code
    with pytest.raises(DecisionNeededError) as refused:
        bench.append({0: (1, 2)})
    assert "P464" == refused.value.code
    assert [(1, "0/0")] == bench.rows


def test_other_keys_are_named_with_the_former_ones():
    landed = replace(origin(CHAIN, {0: 0}), keyed=Keyed(("id", "region"), compares_offsets=True))
    require_same_keys("lake.orders", None, ("id",), ())
    require_same_keys("lake.orders", replace(landed, keyed=None), ("id",), ("lsn",))
    require_same_keys("lake.orders", landed, ("id", "region"), ())
    with pytest.raises(DecisionNeededError, match="the keys id, region until now, and its keys ar"):
        require_same_keys("lake.orders", landed, ("id",), ())
    with pytest.raises(DecisionNeededError, match="it is to append now"):
        require_same_keys("lake.orders", landed, (), ())


def test_another_sequence_is_named_with_the_former_one():
    none = replace(origin(CHAIN, {0: 0}), keyed=Keyed(("id",), compares_offsets=True))
    by_lsn = replace(none, keyed=Keyed(("id",), compares_offsets=True, sequence=("lsn",)))
    require_same_keys("lake.orders", by_lsn, ("id",), ("lsn",))
    with pytest.raises(
        DecisionNeededError,
        match=r"id \(without sequence_by\) until now, and .* id \(sequence_by: \[lsn\]\) now",
    ) as at:
        require_same_keys("lake.orders", none, ("id",), ("lsn",))
    assert ("P464", True) == (at.value.code, "sequence_by" in at.value.hint)
    with pytest.raises(DecisionNeededError, match=r"id \(sequence_by: \[lsn\]\) until now"):
        require_same_keys("lake.orders", by_lsn, ("id",), ())
    with pytest.raises(DecisionNeededError, match="it is to append now"):
        require_same_keys("lake.orders", by_lsn, (), ())


def test_the_error_of_keys_in_two_partitions_says_how_many():
    error = keys_across_partitions("lake.orders", 3)

    assert ("P489", True) == (error.code, "3 keys of lake.orders" in error.message)
    assert "across_partitions: warn" in error.hint


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (pa.array([1, 1 << 40]), pa.int32()),
        (pa.array([Decimal("1.00"), Decimal("1" * 20 + ".00")]), pa.decimal128(5, 2)),
    ],
)
def test_a_key_column_that_was_widened_since_is_compared_as_it_is(column, key):
    touched = column[:1].cast(key)
    wide = pa.record_batch({"id": column})

    assert [0] == KeyLookup([touched]).in_rows(wide, {"id": key}).rows.tolist()


def test_a_key_of_another_form_is_brought_to_that_of_the_keys():
    narrow = pa.array([Decimal("1.5")])

    assert pa.decimal128(20, 2) == alike(narrow, pa.decimal128(20, 2)).type


@pytest.mark.parametrize("point", ["resolve.before", "resolve.after"])
def test_a_run_that_ends_while_it_resolves_has_changed_nothing(bench, point):
    sent = bench.prepare({0: (0, 1)}, [(1, 0, 0, True)])
    observer = RecordingObserver(point)
    with pytest.raises(Crash):
        land(sent, bench.table, replace(bench.context, observer=observer))
    assert [] == bench.rows

    assert land(sent, bench.table, bench.context).landed
    assert [(1, "0/0")] == bench.rows


def test_files_whose_bounds_no_touched_key_reaches_are_not_read(bench, monkeypatch):
    bench.land({0: (0, 2)}, [(1, 0, 0, True), (2, 0, 1, True)])
    bench.land({0: (2, 4)}, [(8, 0, 2, True), (9, 0, 3, True)])
    listed, read = bench.table.live_files, []

    def bounded(state):
        files = sorted(listed(state), key=lambda file: file.path)
        return [
            replace(file, bounds={"id": ends})
            for file, ends in zip(files, [(1, 2), (8, 9)], strict=True)
        ]

    def read_live(state, file, columns, sought, original=bench.table.read_live):
        read.append(file.path)
        return original(state, file, columns, sought)

    monkeypatch.setattr(bench.table, "live_files", bounded)
    monkeypatch.setattr(bench.table, "read_live", read_live)
    sent = bench.prepare({0: (4, 5)}, [(9, 0, 4, True)])
    state = bench.table.state(CHAIN)
    [found] = RowDeltaResolver(sent).resolve(state, bench.table, state.landed).row_deletes

    assert [found.path] == read
    assert [1] == found.positions.tolist()


def test_of_rows_with_a_higher_sequence_the_last_one_stays_whatever_bounds_say(bench):
    """Both are above the change; the bounds of the first file reach beyond the row that stays."""

    def row(number, name, offset):
        return {
            "id": number,
            "name": name,
            "_kafka_topic": TOPIC,
            "_kafka_partition": 0,
            "_kafka_offset": offset,
        }

    early = bench.write(batch_of(ORDERS, [row(1, "z", 1), row(2, "a", 9)]))
    late = bench.write(batch_of(ORDERS, [row(1, "z", 5)]))
    state, ranges = bench.table.state(CHAIN), {0: (0, 10)}
    appended = prepared(CHAIN, ranges, uuid=state.uuid, files=[*early, *late])
    bench.table.commit(state, appended, retain=25)
    change = Changes(
        batch_of(ORDERS, [row(1, "m", 20)]),
        np.array([False]),
        np.array([True]),
        np.array([0], np.int32),
        np.array([20]),
        np.array([0], np.int8),
    )
    nowhere = np.array([-1], np.int32), np.array([-1])
    touched = touched_to_bytes(change, ["id"], LANES, nowhere, COLUMNS, sequence=["name"])
    sent = replace(
        prepared(CHAIN, {0: (20, 21)}, uuid=state.uuid, kind=CommitKind.ROW_DELTA), touched=touched
    )
    state = bench.table.state(CHAIN)
    found = RowDeltaResolver(sent).resolve(state, bench.table, state.landed)

    assert {"late": 1, "healed": 1} == found.counts
    assert [(early[0].path, [0])] == [(e.path, e.positions.tolist()) for e in found.row_deletes]
