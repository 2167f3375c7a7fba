"""Rows are found by keys and sequences of every kind that a table of either format holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.story.two_lakes import spec_of

from penstock.app.assembly import assembly, worker
from penstock.app.inspect import row_effects
from penstock.commit.row_deltas import RowDeltaResolver
from penstock.core.commits import Chain, CommitKind, Keyed
from penstock.core.schema import Decimal, Field, Kind, Struct, Type
from penstock.ports.tables import Table, TableDefinition
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.touched import TouchedRows, touched_from_bytes, touched_to_bytes
from penstock.spec.load import load
from penstock.testing.contracts.table_fixture import COLUMNS, Quiet, batch_of
from penstock.testing.prepared import TOPIC, origin, part, prepared

UTC_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOMENTS = [UTC_1970 + dt.timedelta(microseconds=n) for n in (-1000, -1, 0, 999, 1000)]
VALUES: Mapping[Type, Sequence[Any]] = {
    Kind.BOOLEAN: [False, True],
    Kind.INT: [-(2**31), 0, 2**31 - 1],
    Kind.LONG: [-(2**63), -1, 0, 2**63 - 1],
    Kind.STRING: ["A", "a", "x" * 300, "x" * 300 + "y", "\U0010ffff" * 40],
    Kind.BINARY: [b"", b"\x00", b"\xff" * 20],
    Kind.DATE: [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    Kind.TIMESTAMPTZ: MOMENTS,
    Kind.TIMESTAMP: [each.replace(tzinfo=None) for each in MOMENTS],
    Decimal(10, 2): [Exact("-0.01"), Exact("0.00"), Exact("99999999.99")],
    Decimal(38, 10): [Exact(-1), Exact("0.0000000001"), Exact(10) ** 27],
    Kind.UUID: [UUID(int=n).bytes for n in (0, 1, 2**127, 2**128 - 1)],
    Kind.TIME: [dt.time(0), dt.time(0, 0, 0, 1), dt.time(23, 59, 59, 999999)],
}
"""Values of each kind, ascending."""
NOT_IN_DELTA = {Kind.UUID, Kind.TIME}
CASES = [
    (catalog, kind)
    for catalog in ("lake", "delta")
    for kind in VALUES
    if catalog == "lake" or kind not in NOT_IN_DELTA
]


class Bench:
    """One table with a key and a sequence of one kind, and changes that land in it."""

    def __init__(self, table: Table, open_writer: Any, chain: Chain, values: Sequence[Any]) -> None:
        self.table, self.open_writer, self.chain, self.values = table, open_writer, chain, values
        self.offset = 0

    def touched(self, pairs: Sequence[tuple[Any, Any]]) -> tuple[TouchedRows, bytes, Any]:
        """Write a row for each key and sequence, and list the keys."""
        state = self.table.state(self.chain)
        count = len(pairs)
        source = {"_kafka_topic": TOPIC, "_kafka_partition": 0}
        rows = [
            {"key": key, "no": no, "_kafka_offset": self.offset + at, **source}
            for at, (key, no) in enumerate(pairs)
        ]
        every = np.ones(count, np.bool_)
        changes = Changes(
            batch_of(state.schema, rows),
            every,
            every,
            np.zeros(count, np.int32),
            np.arange(self.offset, self.offset + count),
            np.zeros(count, np.int8),
        )
        net = net_by_lane(changes, ["key"], ["no"]).changes
        writer = self.open_writer(state.target, prefix="f-", observer=Quiet(), places=True)
        writer.write(net.rows)
        files = tuple(writer.close())
        given = ["key"], [part(0)], writer.places(), COLUMNS
        content = touched_to_bytes(net, *given, sequence=["no"])
        return touched_from_bytes(content), content, files

    def land(self, pairs: Sequence[tuple[Any, Any]]) -> Mapping[str, int]:
        state = self.table.state(self.chain)
        _, content, files = self.touched(pairs)
        ranges = {0: (self.offset, self.offset + len(pairs))}
        given = {"uuid": state.uuid, "schema_id": state.schema_id, "kind": CommitKind.ROW_DELTA}
        commit = prepared(self.chain, ranges, files=files, **given)
        commit = replace(commit, keys=("key",), sequence=("no",), touched=content)
        assert state.landed is not None
        found = RowDeltaResolver(commit).resolve(state, self.table, state.landed)
        self.table.commit(state, commit, retain=25, row_deletes=found.row_deletes)
        self.offset += len(pairs)
        return found.counts

    def rows(self) -> dict[Any, int]:
        """Read the offset of each key's row; fails where a key has two."""
        state, found = self.table.state(self.chain), {}
        for file in self.table.live_files(state):
            for batch in self.table.read_live(state, file, ["key", "_kafka_offset"]):
                for row in batch.to_pylist():
                    key = row["key"].bytes if isinstance(row["key"], UUID) else row["key"]
                    assert key not in found
                    found[key] = row["_kafka_offset"]
        return found


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    name, kind = request.param
    spec = spec_of(tmp_path, "  - { from: orders, into: lake.bronze.orders }")
    pipeline, chain = load(spec), Chain("shop", f"{name}.bronze.kinds")
    fields = [Field("key", kind), Field("no", kind), Field("_kafka_topic", Kind.STRING)]
    fields += [Field("_kafka_partition", Kind.INT), Field("_kafka_offset", Kind.LONG)]
    keyed = Keyed(("key",), compares_offsets=True, sequence=("no",))
    ledger = replace(origin(chain, {0: 0}), keyed=keyed)
    open_writer = worker.writer({"lake": "iceberg"}.get(name, name))
    with closing(assembly.open_catalog(pipeline, name, Quiet())) as catalog:
        definition = TableDefinition(Struct(tuple(fields)), keys=("key",))
        table = catalog.create("bronze.kinds", definition, [ledger])
        yield Bench(table, open_writer, chain, VALUES[kind])


every_kind = pytest.mark.parametrize("bench", CASES, ids=str, indirect=True)


@every_kind
def test_a_row_of_any_key_is_replaced_by_a_higher_sequence_and_by_no_other(bench: Bench) -> None:
    values, count = bench.values, len(bench.values)
    low, high = values[0], values[-1]
    first = bench.land([(key, values[1]) for key in values])
    second = bench.land([(key, low if at % 2 else high) for at, key in enumerate(values)])

    late = count // 2
    assert {"inserted": count} == first
    assert {"late": late, "updated": count - late} == second
    assert {key: at if at % 2 else count + at for at, key in enumerate(values)} == bench.rows()


@every_kind
def test_a_row_that_is_looked_up_says_its_sequence_as_a_change_does(bench: Bench) -> None:
    values = bench.values
    bench.land([(values[0], values[1])])
    touched, _, _ = bench.touched([(values[0], values[-1])])
    state = bench.table.state(bench.chain)
    found, _ = row_effects._found(bench.table, state, [touched])

    assert [[(values[1],)]] == [[row.sequence for row in rows] for rows in found or ()]
