"""Changes are held by table, netted and written when they are many: what is written is the net."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.story.foreign_acts import PlayedWarehouse

from penstock.connectors.memory.tables import MemoryTables
from penstock.core.errors import BugError
from penstock.core.offsets import TopicPartition, span
from penstock.core.planning import Lane
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.changes import ChangeBuffers, lanes_of
from penstock.landing.task.messages import Job, TableJob, WriteTarget
from penstock.ports.tables import TableDefinition
from penstock.rows import bisection
from penstock.rows.keyed.merge import merge_touched
from penstock.rows.keyed.net import Changes
from penstock.rows.keyed.touched import touched_from_bytes
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import part

NAME, OTHER = "lake.b.orders", "lake.b.others"
SCHEMA = Struct((Field("n", Kind.LONG), Field("name", Kind.STRING)))
SOURCE = {"topic": "_topic", "partition": "_partition", "offset": "_offset"}


class Bench:
    """Buffers that write to memory."""

    def __init__(self, held_bytes_max: int = 1 << 20) -> None:
        self.warehouse = PlayedWarehouse()
        self.tables = MemoryTables(self.warehouse)
        self.superseded = Counter[tuple[str, TopicPartition]]()
        table = TableJob(
            SCHEMA, RowOptions(SOURCE, keyed=KeyedOptions(("n",))), WriteTarget("memory", "")
        )
        self.job = Job(
            pipeline="shop",
            epoch=1,
            number=0,
            survey=False,
            prefix="x",
            lanes=tuple(Lane(part(p), span(0, 99), (NAME, OTHER)) for p in (1, 0)),
            tables={NAME: table, OTHER: table},
            quarantine=WriteTarget("memory", "q"),
            timeout_seconds=1.0,
            now_ms=0,
            log={},
            held_bytes_max=held_bytes_max,
        )
        self.buffers = ChangeBuffers(self.job, self.open, self.count)
        self.open_writer = self.tables.open_writer

    def open(self, name: str):
        _, _, short = name.partition(".")
        if self.tables.load(short) is None:
            self.tables.create(short, TableDefinition(SCHEMA), ())
        target = f'{{"table": "{short}"}}'
        return self.open_writer(target, prefix="x", observer=Quiet(), places=True)

    def count(self, name: str, at: TopicPartition, count: int) -> None:
        self.superseded[name, at] += count


def changes(*keys: int, lane: int = 0, first: int = 0, upsert: bool = True) -> Changes:
    count = len(keys)
    rows = {"n": pa.array(keys, pa.int64()), "name": [f"{first + n}" for n in range(count)]}
    return Changes(
        pa.RecordBatch.from_pydict(rows),
        np.full(count, upsert),
        np.ones(count, np.bool_),
        np.full(count, lane, np.int32),
        np.arange(first, first + count),
        np.zeros(count, np.int8),
    )


def test_lanes_are_numbered_in_the_order_of_the_fold_whatever_the_order_of_reading():
    job = Bench().job
    twice = replace(job, lanes=(*job.lanes, Lane(part(0), span(99, 120), (NAME,))))

    assert [part(0), part(1)] == lanes_of(twice)


def test_the_net_is_written_once_with_the_places_of_its_rows():
    bench = Bench()
    bench.buffers.append(NAME, changes(1, 2, 1))
    bench.buffers.append(NAME, changes(2, first=3, upsert=False))
    assert [NAME] == bench.buffers.names
    written = bench.buffers.close(NAME)

    (file,) = written.files
    (touched,) = map(touched_from_bytes, written.touched)
    assert [{"n": 1, "name": "2"}] == bench.warehouse.rows_of([file])
    assert ("n",) == touched.names
    assert SOURCE == touched.source
    assert [(1, True, 2, 0, 0), (2, False, 3, -1, -1)] == listed(touched)
    assert {(NAME, part(0)): 2} == bench.superseded
    assert [] == bench.buffers.names


def listed(touched):
    given = (touched.upsert, touched.offset, touched.file, touched.row)
    return [*zip(touched.keys[0].to_pylist(), *(each.tolist() for each in given), strict=True)]


def test_changes_of_two_partitions_are_not_netted_with_each_other():
    bench = Bench()
    bench.buffers.append(NAME, changes(1))
    bench.buffers.append(NAME, changes(1, lane=1))
    written = bench.buffers.close(NAME)

    assert {} == bench.superseded
    merged = merge_touched([(each, 0) for each in written.touched], [2])
    assert (1, {part(0): 1}) == (merged.across, dict(merged.superseded))


def test_deletes_alone_write_no_file():
    bench = Bench()
    bench.buffers.append(NAME, changes(1, 2, upsert=False))
    written = bench.buffers.close(NAME)

    assert ((), 1) == (written.files, len(written.touched))


def test_no_change_is_nothing_to_list():
    bench = Bench()
    bench.buffers.append(NAME, changes())

    assert [] == bench.buffers.names


def test_the_fullest_is_netted_and_kept_where_that_leaves_little():
    bench = Bench(2000)
    for first in range(0, 100, 10):
        bench.buffers.append(NAME, changes(*[7] * 10, first=first))
    assert NAME == bench.buffers.too_full
    bench.buffers.shrink(NAME)

    assert bench.buffers.too_full is None
    assert {(NAME, part(0)): 99} == bench.superseded
    written = bench.buffers.close(NAME)
    assert [{"n": 7, "name": "99"}] == bench.warehouse.rows_of(written.files)


def test_the_fullest_is_written_where_netting_leaves_much_and_goes_on():
    bench = Bench(2000)
    bench.buffers.append(OTHER, changes(1))
    bench.buffers.append(NAME, changes(*range(100)))
    assert NAME == bench.buffers.too_full
    bench.buffers.shrink(NAME)
    assert bench.buffers.too_full is None
    bench.buffers.append(NAME, changes(3, 500, first=100))
    written = bench.buffers.close(NAME)

    assert [100, 2] == [file.record_count for file in written.files]
    second = touched_from_bytes(written.touched[1])
    assert [(3, True, 100, 1, 0), (500, True, 101, 1, 1)] == listed(second)
    merged = merge_touched([(each, 0) for each in written.touched], [100, 2])
    assert ({part(0): 1}, (0, 1)) == (dict(merged.superseded), merged.files)


def test_an_unexpected_error_of_a_writer_names_the_records_that_raise_it(monkeypatch):
    monkeypatch.setattr(bisection, "UNEXPECTED_ERRORS", bisection.KINDS)
    bench = Bench()
    opened = bench.open_writer

    def open_writer(*given, **named):
        writer = opened(*given, **named)
        write = writer.write

        def failing(rows):
            if 13 in rows.column("n").to_pylist():
                raise RuntimeError("out of range")
            write(rows)

        writer.write = failing
        return writer

    bench.open_writer = open_writer
    bench.buffers.append(NAME, changes(*range(10, 20), lane=1, first=40))

    with pytest.raises(BugError, match=r"orders\[1\]\[43, 44\)") as raised:
        bench.buffers.close(NAME)
    assert "P486" == raised.value.code


def test_what_is_abandoned_is_gone():
    bench = Bench()
    bench.buffers.append(NAME, changes(1))
    bench.buffers.abandon(NAME)
    bench.buffers.abandon(OTHER)

    assert [] == bench.buffers.names
