"""Columns of Iceberg's third format version, in turn with PyIceberg: nanoseconds, and those without
a type yet.
"""

import json

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.types import LongType, UnknownType
from tests.integration.iceberg.conftest import NAME
from tests.integration.maintaining import maintained
from tests.story.iceberg_third_format import let_pyiceberg_write

from penstock.connectors.iceberg import connector
from penstock.connectors.iceberg.catalogs.by_pointer import OwnSql
from penstock.connectors.iceberg.read.metadata_values import stated_files
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.core.statistics import Fault, mismatches
from penstock.files.contents import contents_of
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import RowOptions
from penstock.testing.prepared import ORDERS, prepared

THIRD = {"format-version": "3"}
NANOS = Struct(
    (*ORDERS.fields, Field("at", Kind.TIMESTAMPTZ_NS), Field("local", Kind.TIMESTAMP_NS))
)
NOON = 1_793_534_400_000_000_000
TIMES = ["2026-11-01T12:00:00.000000001", "2026-11-01T12:00:00.000000999", "1969-12-31T23:59:59.9"]


def land(lake, table, records, offset):
    """Land records as a task does; return the codes of their rejects."""
    state = table.state(lake.chain)
    batch = pa.record_batch(
        {
            "offset": pa.array(range(offset, offset + len(records)), pa.int64()),
            "timestamp": pa.nulls(len(records), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(records), pa.binary()),
            "value": pa.array([json.dumps(each).encode() for each in records], pa.binary()),
        }
    )
    at = TopicPartition("id", 0, "orders")
    done = convert_batch(batch, at=at, schema=state.schema, options=RowOptions({}))
    files = lake.write(state, done.rows)
    given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id}
    ranges = {0: (offset, offset + len(records))}
    table.commit(state, prepared(lake.chain, ranges, **given), retain=25)
    return [each.code for each in done.rejects]


def foreign(lake):
    """Open the table as PyIceberg does, which writes no metadata of the third version itself."""
    return OwnSql("lake", **lake.settings).load_table(NAME)


def timed(number, time):
    return {"id": number, "at": f"{time}Z", "local": time}


def counts(rows):
    """Return nanoseconds since 1970 by the rows' own ids."""
    numbers = rows["at"].cast(pa.int64()).to_pylist()
    return dict(zip(rows["id"].to_pylist(), numbers, strict=True))


def by_duckdb(query, file):
    with duckdb.connect() as session:
        return session.execute(query, [file.file_path]).fetchall()


def faults(lake):
    """Compare what metadata says of each file with the file."""
    return [
        fault
        for each in stated_files(foreign(lake), "main")
        if not each.statistics.not_compared
        for fault in mismatches(each.statistics, contents_of(each.open(), each.statistics))
    ]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_nanoseconds_land_whole_and_so_do_their_bounds(lake, kind, monkeypatch):
    table = lake.create(NANOS, (), {**THIRD, "write.format.default": kind})
    beyond = [timed(8, "2262-04-11T23:47:16.854775807"), timed(9, "9999-12-31T00:00:00")]
    assert ["P364", "P364"] == land(lake, table, [*map(timed, range(3), TIMES), *beyond], 0)
    expected = {0: NOON + 1, 1: NOON + 999, 2: -100_000_000}

    if kind == "parquet":  # PyIceberg writes no ORC
        let_pyiceberg_write(monkeypatch)
        theirs = foreign(lake)
        at = theirs.schema().as_arrow().field("at").type
        theirs.append(pa.table([pa.array([3]), pa.array([NOON + 5]).cast(at)], names=["id", "at"]))
        expected[3] = NOON + 5
    with foreign(lake).update_schema() as change:
        change.rename_column("local", "here")
    assert [] == land(lake, table, [{"id": 4, "at": f"{TIMES[1]}Z"}], 5)
    expected[4] = NOON + 999

    assert expected == counts(foreign(lake).scan().to_arrow())
    # PyIceberg cuts the bounds of what it writes to micros.
    theirs = [(Fault.UPPER, "2026-11-01T12:00:00.000000005+00:00")] if kind == "parquet" else []
    assert theirs == [(each.fault, each.held) for each in faults(lake)]
    assert 1 == maintained(lake.chain, table, connector).groups
    assert expected == counts(foreign(lake).scan().to_arrow())
    assert [] == faults(lake)
    [file] = [task.file for task in foreign(lake).scan().plan_files()]
    column = foreign(lake).schema().find_field("at").field_id
    ends = [each[column] for each in (file.lower_bounds, file.upper_bounds)]
    assert [-100_000_000, NOON + 999] == [int.from_bytes(e, "little", signed=True) for e in ends]
    if kind == "parquet":  # DuckDB reads no ORC
        where = "\"at\" > '2026-11-01 12:00:00.000000005Z' ORDER BY id"
        assert [(1,), (4,)] == by_duckdb(f"SELECT id FROM read_parquet(?) WHERE {where}", file)


def test_nanoseconds_need_the_third_version(lake):
    with pytest.raises(InvalidError, match="at has the type timestamptz_ns") as raised:
        lake.create(NANOS)
    assert "P435" == raised.value.code

    table = lake.create(ORDERS)
    state = table.state(lake.chain)
    with pytest.raises(InvalidError, match="from format-version 3") as raised:
        table.evolve(state, Struct((*state.schema.fields, Field("at", Kind.TIMESTAMP_NS))))
    assert "P435" == raised.value.code


def test_a_column_without_a_type_is_null_and_in_no_file_until_another_gives_it_one(lake):
    table = lake.create(ORDERS, ("bucket(2, id)",), THIRD)
    with foreign(lake).update_schema() as change:
        change.add_column("what", UnknownType()).move_first("what")

    assert ["P363"] == land(
        lake, table, [{"id": 1}, {"id": 2, "what": None}, {"id": 3, "what": 5}], 0
    )
    found = foreign(lake).scan().to_arrow()
    assert ({1, 2}, {None}) == ({*found["id"].to_pylist()}, {*found["what"].to_pylist()})
    for task in foreign(lake).scan().plan_files():
        read = by_duckdb("SELECT * FROM parquet_schema(?) WHERE name = 'what'", task.file)
        assert [] == read
    assert [] == faults(lake)
    maintained(lake.chain, table, connector)
    state = table.state(lake.chain)
    table.evolve(state, Struct((*state.schema.fields, Field("more", Kind.LONG))))
    assert [None, Kind.UNKNOWN] == [state.schema.field("more"), state.schema.field("what").type]

    with foreign(lake).update_schema() as change:
        change.update_column("what", LongType())
    assert [] == land(lake, table, [{"id": 3, "what": 5}], 3)
    maintained(lake.chain, table, connector)
    found = foreign(lake).scan().to_arrow()
    assert {1: None, 2: None, 3: 5} == dict(
        zip(found["id"].to_pylist(), found["what"].to_pylist(), strict=True)
    )
    assert [] == faults(lake)
