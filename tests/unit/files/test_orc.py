"""ORC files: what is read back, where stripes begin, which rows go into another format."""

from __future__ import annotations

import errno
import random  # noqa: TID251  seeded
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs, orc

from penstock.files import FileOptions, PartitionedWriter
from penstock.files.column_facts import counted_in, facts_of, joined
from penstock.files.float_statistics import FloatCounts, count_floats, floats_in
from penstock.files.orc import OrcEncoding, holds
from penstock.testing.contracts.table_fixture import Quiet

PLAIN = FloatCounts({}, frozenset())
INNER = pa.struct([("n", pa.int32()), ("t", pa.string())])


def options(stripe: int = 64 << 20) -> FileOptions:
    return FileOptions(compression="zlib", row_group_bytes=stripe)


def encoded(rows: pa.Table, stripe: int = 64 << 20) -> tuple[orc.ORCFile, Any]:
    sink = pa.BufferOutputStream()
    file = OrcEncoding(rows.schema, rows.schema, options(stripe)).open(sink, rows, PLAIN)
    file.write(rows)
    contents = file.close()
    return orc.ORCFile(pa.BufferReader(sink.getvalue())), contents


def some(draw: random.Random, make: Callable[[], Any]) -> Any:
    return None if draw.random() < 0.3 else make()


def struct(draw: random.Random) -> Any:
    return some(draw, lambda: {"n": draw.choice([None, 5, 6]), "t": draw.choice([None, "", "w"])})


def several(draw: random.Random, make: Callable[[], Any]) -> Any:
    return some(draw, lambda: [make() for _ in range(draw.randrange(4))])


NESTED: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "struct": (INNER, struct),
    "struct of struct": (pa.struct([("s", INNER)]), lambda d: some(d, lambda: {"s": struct(d)})),
    "list of struct": (pa.list_(INNER), lambda d: several(d, lambda: struct(d))),
    "struct of list of struct": (
        pa.struct([("l", pa.list_(INNER))]),
        lambda d: some(d, lambda: {"l": several(d, lambda: struct(d))}),
    ),
    "map of struct": (
        pa.map_(pa.string(), INNER),
        lambda d: some(d, lambda: [(str(at), struct(d)) for at in range(d.randrange(3))]),
    ),
    "list of list": (
        pa.list_(pa.list_(pa.int32())),
        lambda d: several(d, lambda: several(d, lambda: d.choice([None, 7]))),
    ),
}


@pytest.mark.parametrize("kind", NESTED)
def test_slices_and_pieces_of_nested_columns_are_read_back_as_they_came(kind: str) -> None:
    type_, make = NESTED[kind]
    for seed in range(30):
        draw = random.Random(seed)
        rows = pa.table({"c": pa.array([make(draw) for _ in range(9)], type_)})
        rows = pa.concat_tables([rows.slice(draw.randrange(5)), rows.slice(2, 4)])

        assert rows.to_pylist() == encoded(rows)[0].read().to_pylist()


@pytest.mark.parametrize("stripe", [1, 4000, 1 << 20])
def test_stripes_begin_where_they_are_said_to(stripe: int) -> None:
    rows = pa.table({"t": [f"{at * 7919 % 100_003:x}" * 8 for at in range(20_000)]})
    file, contents = encoded(rows, stripe)

    assert rows == file.read()
    assert file.nstripes == len(contents.stripes)
    assert [3, *sorted(contents.stripes[1:])] == contents.stripes
    assert (stripe < 1 << 20) == (file.nstripes > 1)


COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int32(): [-(2**31), 0, 2**31 - 1],
    pa.float64(): [float("inf"), float("nan"), -0.0, 0.0, 5.0],
    pa.string(): ["", "a", "\ud7ff", "\U0010ffff", "b" * 5000],
    pa.binary(): [b"", b"\x7f", b"\x80", b"\xff" * 20],
    pa.date32(): [-719_162, 0, 2_932_896],
    pa.timestamp("us"): [-(2**60), 0, 2**60],
    pa.time64("us"): [0, 1, 86_399_999_999],
    pa.decimal128(38, 2): [pa.scalar("-1e30").cast(pa.decimal128(38, 2)).as_py(), 0, 1],
}


@pytest.mark.parametrize("type_", COLUMNS, ids=str)
def test_bounds_and_counts_are_those_of_the_values(type_: pa.DataType) -> None:
    for seed in range(20):
        draw = random.Random(seed)
        values = pa.array(draw.choices([None, *COLUMNS[type_]], k=6), type_)
        table = pa.table({"c": values, "s": pa.StructArray.from_arrays([values], ["m"])})
        places = counted_in(table.schema)
        parts = [facts_of(places, table.slice(at, 2)) for at in (0, 2, 4)]
        facts = joined(joined(parts[0], parts[1]), parts[2])

        assert facts["c"] == facts["s.m"]
        assert (6, values.null_count) == (facts["c"].values, facts["c"].nulls)
        there = values.drop_null()
        if pa.types.is_floating(type_):
            there = there.filter(pc.invert(pc.is_nan(there)))
        numbers = {
            pa.date32(): pa.int32(),
            pa.timestamp("us"): pa.int64(),
            pa.time64("us"): pa.int64(),
        }
        plain = there.cast(numbers.get(type_, type_)).to_pylist()
        assert (min(plain, default=None), max(plain, default=None)) == (
            facts["c"].least,
            facts["c"].greatest,
        )


FAR = 9_000_000_000_000_000


@pytest.mark.parametrize(
    ("micros", "held"),
    [
        (0, True),
        (-1_000_000, True),
        (-1, False),
        (-1_500_000, False),
        (FAR, True),
        (-FAR, True),
        (2 * FAR, False),
        (-2 * FAR, False),
    ],
)
def test_times_that_arrow_writes_or_reads_wrongly_are_not_held(micros: int, *, held: bool) -> None:
    times = pa.array([None, micros], pa.timestamp("us", "UTC"))
    nested = pa.array([[None], [{"at": micros}]], pa.list_(pa.struct([("at", times.type)])))

    assert held == holds(pa.table({"at": times}), PLAIN)
    assert held == holds(pa.table({"l": nested}), PLAIN)


def test_dates_of_before_the_gregorian_calendar_are_not_held() -> None:
    for days, held in ((-141_427, True), (-141_428, False)):
        assert held == holds(pa.table({"d": pa.array([None, days], pa.date32())}), PLAIN)


def test_rows_that_orc_cannot_hold_go_into_a_file_of_parquet(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("at", pa.timestamp("us"))])
    writer = PartitionedWriter(
        encoding=OrcEncoding(schema, schema, options(1)),
        filesystem=fs.LocalFileSystem(),
        path_of=lambda _, ending: f"{tmp_path}/{len(list(tmp_path.iterdir()))}.{ending}",
        partition_of=lambda rows: [((), rows)],
        observer=Quiet(),
    )
    batches = [
        pa.record_batch([pa.array([x]), pa.array([at], schema.field("at").type)], schema=schema)
        for x, at in ((1.0, 5), (-0.0, 5), (2.0, -1), (3.0, 7))
    ]
    for each in batches:
        writer.write(each)
    files = [each.path for each in writer.close()]

    assert [".orc", ".parquet"] == [Path(each).suffix for each in files][:2]
    found = [
        (orc.ORCFile(each).read() if each.endswith("orc") else pq.read_table(each))["x"].to_pylist()
        for each in files
    ]
    assert [1.0, -0.0, 2.0, 3.0] == [x for each in found for x in each]
    assert not holds(pa.Table.from_batches([batches[1]]), _odd(batches[1]))


def _odd(batch: pa.RecordBatch) -> FloatCounts:
    return count_floats(floats_in(batch.schema), pa.Table.from_batches([batch]))


def test_a_full_disk_is_told_from_other_troubles_of_storage() -> None:
    rows = pa.table({"n": [1, 2]})
    with fs.LocalFileSystem().open_output_stream("/dev/full") as stream:
        file = OrcEncoding(rows.schema, rows.schema, options()).open(stream, rows, PLAIN)
        with pytest.raises(OSError, match="No space") as raised:
            file.write(rows)
        file.let_go()
    assert errno.ENOSPC == raised.value.errno
