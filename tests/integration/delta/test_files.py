"""What is written is read back by others: types, partitions, statistics, and damaged descriptions."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Field as DeltaField
from deltalake import write_deltalake
from tests.integration.delta.lake import CHAIN, COLUMNS, Lake

from penstock.connectors.delta.schema.types import arrow_schema
from penstock.core.errors import InvalidError
from penstock.core.offsets import span
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import TOPIC, orders, prepared

EVERYTHING = Struct(
    (
        Field("flag", Kind.BOOLEAN),
        Field("small", Kind.INT),
        Field("big", Kind.LONG),
        Field("real", Kind.FLOAT),
        Field("wide", Kind.DOUBLE),
        Field("text", Kind.STRING),
        Field("blob", Kind.BINARY),
        Field("day", Kind.DATE),
        Field("plain", Kind.TIMESTAMP),
        Field("moment", Kind.TIMESTAMPTZ),
        Field("money", Decimal(12, 2)),
        Field("inner", Struct((Field("a", Kind.LONG), Field("b", Kind.STRING)))),
        Field("many", List(Kind.STRING)),
        Field("pairs", Map(Kind.STRING, List(Struct((Field("x", Kind.DOUBLE),))))),
    )
)
ROWS = [
    {
        "flag": True,
        "small": -1,
        "big": 2**62,
        "real": 0.5,
        "wide": 1e300,
        "text": "é\x00'\";--../" + "z" * 60,
        "blob": b"\x00\xff",
        "day": date(1969, 12, 31),
        "plain": datetime(2024, 2, 29, 23, 59, 59, 999_999),  # noqa: DTZ001
        "moment": datetime(1950, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        "money": Exact("-1234567890.12"),
        "inner": {"a": 1, "b": None},
        "many": ["a", None],
        "pairs": [("k", [{"x": 1.5}])],
    },
    dict.fromkeys(EVERYTHING.names) | {"big": 7},
]


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def land(lake, rows, schema):
    state = lake.state()
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    files = lake.write(state, batch)
    lake.table.commit(state, lake.prepare(state, {0: (0, len(rows))}, files=files), retain=25)
    return files


def read(lake, predicate=None):
    return pa.table(lake.handle.scan(predicate=predicate)).to_pylist()


def test_every_type_comes_back_equal_from_deltalake_and_from_duckdb(lake):
    lake.create(schema=EVERYTHING)
    (file,) = land(lake, ROWS, EVERYTHING)

    assert EVERYTHING == lake.state().schema
    assert ROWS == sorted(read(lake), key=lambda row: -row["big"])
    found = (
        duckdb.connect()
        .sql(f"select big, text, money, plain, many from '{file.path}' order by big desc")
        .fetchall()
    )
    names = ("big", "text", "money", "plain", "many")
    assert [tuple(row[name] for name in names) for row in ROWS] == found


def test_statistics_never_hide_a_row(lake):
    lake.create(schema=EVERYTHING)
    land(lake, ROWS, EVERYTHING)
    first, second = ROWS[0]["text"], 2**62

    assert [second] == [row["big"] for row in read(lake, f"big >= {second}")]
    assert 1 == len(read(lake, "wide > 1e299 AND real = 0.5 AND small < 0"))
    assert 1 == len(read(lake, "day <= DATE '1969-12-31' AND money < -1234567890.11"))
    assert 1 == len(read(lake, f"text >= 'é' AND length(text) = {len(first)}"))
    assert 1 == len(read(lake, "moment = TIMESTAMP '1950-01-01T00:00:00.000001Z'"))
    assert 1 == len(read(lake, "plain = TIMESTAMP '2024-02-29T23:59:59.999999'"))


def test_nan_is_found_by_the_side_on_which_it_sorts(lake):
    schema = Struct((Field("id", Kind.LONG), Field("x", Kind.DOUBLE), Field("y", Kind.DOUBLE)))
    lake.create(schema=schema)
    rows = [{"id": 1, "x": float("nan"), "y": 1.0}, {"id": 2, "x": 1.0, "y": float("inf")}]
    (file,) = land(lake, rows, schema)
    statistics = json.loads(json.loads(file.detail)["stats"])

    assert {"numRecords", "nullCount"} == set(statistics)
    assert 2 == len(read(lake, "x >= 1.0"))
    assert [1] == [row["id"] for row in read(lake, "x = CAST('NaN' AS double)")]


PARTITIONED = Struct(
    (
        Field("id", Kind.LONG),
        Field("day", Kind.DATE),
        Field("place", Kind.STRING),
        Field("at", Kind.TIMESTAMPTZ),
        Field("local", Kind.TIMESTAMP),
        Field("flag", Kind.BOOLEAN),
        Field("price", Decimal(5, 2)),
        Field("n", Kind.INT),
    )
)
HOSTILE = ("../../etc", "a/b=c", "x y%20z", "é'\";--", "__HIVE_DEFAULT_PARTITION__", ".", " ")


def test_partition_values_come_back_and_never_become_paths(lake):
    lake.create(schema=PARTITIONED, partition_by=PARTITIONED.names[1:])
    rows = [
        {
            "id": number,
            "day": date(2024, 1, number + 1),
            "place": place,
            "at": datetime(2024, 1, 1, 12, 0, 0, number, tzinfo=UTC),
            "local": datetime(2024, 1, 1, 12, 0, 0, number),  # noqa: DTZ001
            "flag": number % 2 == 0,
            "price": Exact("12.30"),
            "n": -number,
        }
        for number, place in enumerate(HOSTILE)
    ]
    rows += [dict.fromkeys(PARTITIONED.names) | {"id": 99}]
    files = land(lake, rows, PARTITIONED)

    assert rows == sorted(read(lake), key=lambda row: row["id"])
    assert len(rows) == len(files)
    assert {lake.location} == {Path(file.path).parent for file in files}
    assert ["id"] == pq.read_schema(files[0].path).names
    assert [rows[2]] == read(lake, "place = 'x y%20z'")
    assert [rows[4]] == read(lake, "place = '__HIVE_DEFAULT_PARTITION__'")
    assert [rows[-1]] == read(lake, "place IS NULL")


def test_an_empty_string_is_no_partition(lake):
    schema = Struct((Field("id", Kind.LONG), Field("place", Kind.STRING)))
    lake.create(schema=schema, partition_by=["place"])
    with pytest.raises(InvalidError) as caught:
        land(lake, [{"id": 1, "place": ""}], schema)

    assert "P470" == caught.value.code


def test_24_partitions_of_one_task_make_24_files(lake):
    schema = Struct((Field("id", Kind.LONG), Field("hour", Kind.INT)))
    lake.create(schema=schema, partition_by=["hour"])
    state = lake.state()
    from penstock.connectors.delta import connector
    from penstock.testing.contracts.table_fixture import Quiet

    writer = connector.open_writer(
        state.target, prefix="shop-1-0-", observer=Quiet(), secrets=ProcessSecrets({})
    )
    for start in range(0, 200_000, 50_000):
        ids = pa.array(range(start, start + 50_000), pa.int64())
        hours = pa.array([number % 24 for number in range(50_000)], pa.int32())
        writer.write(pa.record_batch({"id": ids, "hour": hours}))
    files = writer.close()
    lake.table.commit(state, lake.prepare(state, {0: (0, 200_000)}, files=files), retain=25)

    assert 24 == len(files)
    assert 200_000 == sum(file.record_count for file in files)
    assert 200_000 == pa.table(lake.handle.scan(columns=["id"])).num_rows


def test_a_hostile_prefix_stays_in_the_directory(lake):
    lake.create()
    state = lake.state()
    (file,) = lake.write(state, orders({0: (0, 1)}), prefix="../../x/_ y\x00-" + "p" * 500)

    assert lake.location == Path(file.path).parent
    assert Path(file.path).name.startswith("x-_-y--pppp")


def damaged(**changes):
    def change(file):
        detail = json.loads(file.detail)
        return replace(file, detail=json.dumps(detail | changes))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda file: replace(file, path="/etc/passwd"),
        lambda file: replace(file, path=file.path.replace("orders/", "orders/../orders/")),
        lambda file: replace(file, path="s3://elsewhere/x.parquet"),
        lambda file: replace(file, record_count=file.record_count + 1),
        lambda file: replace(file, size_bytes=0),
        lambda file: replace(file, detail="{}"),
        lambda file: replace(file, detail="not json"),
        damaged(v=2),
        damaged(partition={"day": "2024-01-01"}),
        damaged(columns=[1, 2, 3]),
        damaged(stats="{}"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_before_anything_is_sent(lake, change):
    lake.create()
    state = lake.state()
    files = [change(file) for file in lake.write(state, orders({0: (0, 2)}))]
    with pytest.raises(InvalidError) as caught:
        lake.table.commit(state, lake.prepare(state, {0: (0, 2)}, files=files), retain=25)

    assert "P439" == caught.value.code
    assert "0" == lake.state().head


def test_w9_files_of_a_lost_column_are_refused_and_of_a_new_one_are_not(lake):
    lake.create()
    state = lake.state()
    commit = lake.prepare(state, {0: (0, 2)})
    lake.handle.alter.add_columns(DeltaField("more", "long"))
    lake.table.commit(lake.state(), commit, retain=25)
    assert [0, 1] == lake.ids()

    other = Lake(lake.root.parent / "other")
    other.create(schema=Struct((Field("id", Kind.LONG),)))
    state = other.state()
    late = prepared(CHAIN, {0: (2, 4)}, files=commit.files, uuid=state.uuid)
    moved = replace(late, files=tuple(
        replace(file, path=file.path.replace("/lake/", "/other/lake/")) for file in late.files
    ))  # fmt: skip
    with pytest.raises(InvalidError) as caught:
        other.table.commit(state, moved, retain=25)

    assert "P439" == caught.value.code
    assert "columns the table lost" in caught.value.message


def test_rows_can_be_counted_by_coordinates_on_partitioned_tables(lake):
    lake.create(partition_by=["_kafka_partition"])
    lake.land({0: (0, 3)})

    assert [0, 1, 2] == sorted(lake.table.row_coordinates(COLUMNS)["offset"].to_pylist())


def test_sources_are_read_next_to_another_writers_dates_that_python_cannot_hold(tmp_path):
    lake = Lake(tmp_path)
    lake.create()
    lake.land({0: (0, 2)})
    far = pa.table({"id": [7], "far": pa.array([3_000_000], pa.date32())})
    write_deltalake(lake.location, far, mode="append", schema_mode="merge")
    sources = [
        each.found for each in lake.table.file_sources(lake.state(), COLUMNS, {(TOPIC, 0): 0})
    ]

    assert [{}, {(TOPIC, 0): span(0, 2)}] == sorted((each.ranges for each in sources), key=len)
    assert [1, 0] == sorted((each.rows_without_source for each in sources), reverse=True)
