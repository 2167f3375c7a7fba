"""Rows of one file as the table has them: renamed columns, columns since added, deleted rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.delta.files.target import Target
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.table_metadata import TableMetadata
from penstock.connectors.delta.read.live_rows import live_rows
from penstock.connectors.delta.schema.column_mapping import Stored
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.connectors.delta.vectors.store import write_vectors
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.schema import Field, Kind, List, Map, Schema, Struct
from penstock.files.positions import NONE
from penstock.ports.row_deletes import POSITION


def place(city, zip_, **given):
    return Struct((Field(city, Kind.STRING), Field(zip_, Kind.INT, **given)))


LOGICAL: Schema = Struct(
    (
        Field("id", Kind.LONG),
        Field("place", place("city", "zip", required=True)),
        Field("places", List(place("city", "zip"))),
        Field("by_name", Map(Kind.STRING, place("city", "zip"))),
        Field("part", Kind.STRING),
        Field("since", Kind.DOUBLE),
    )
)
PHYSICAL: Schema = Struct(
    (
        Field("c1", Kind.LONG),
        Field("c2", place("m1", "m2", required=True)),
        Field("c3", List(place("m3", "m4"))),
        Field("c4", Map(Kind.STRING, place("m5", "m6"))),
        Field("c5", Kind.STRING),
        Field("c6", Kind.DOUBLE),
    )
)


def form(logical=LOGICAL, physical=PHYSICAL, partition_by=("part",)):
    stored = Stored(physical, tuple(range(1, 20)))
    parted = tuple(stored.name_of(logical, each) for each in partition_by)
    target = Target("orders", "/lake/orders", logical, stored, parted)
    return TableMetadata("u", 1, partition_by, {}, 7, (), target, "")


def member(first, second, number):
    return {first: f"city {number}", second: number}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "orders").mkdir()
    rows = [
        {
            "c1": number,
            "c2": member("m1", "m2", number),
            "c3": [member("m3", "m4", number)],
            "c4": [("a", member("m5", "m6", number))],
        }
        for number in range(10)
    ]
    pair = pa.struct([("m5", pa.string()), ("m6", pa.int32())])
    schema = pa.schema(
        [
            ("c1", pa.int32()),  # narrower than the table's, as an older file may be
            ("c2", pa.struct([("m1", pa.string()), ("m2", pa.int32())])),
            ("c3", pa.list_(pa.struct([("m3", pa.string()), ("m4", pa.int32())]))),
            ("c4", pa.map_(pa.string(), pair)),
        ]
    )
    pq.write_table(
        pa.Table.from_pylist(rows, schema), tmp_path / "orders" / "a b.parquet", row_group_size=3
    )
    return StorageRoot(str(tmp_path))


ADD = {"path": "a%20b.parquet", "partitionValues": {"c5": "x"}}


def test_columns_and_members_have_the_names_of_the_table(root):
    found = pa.Table.from_batches(
        live_rows(root, "orders", form(), ADD, LOGICAL.names, deleted=NONE)
    )

    assert [*LOGICAL.names, POSITION] == found.column_names
    assert {
        "id": 4,
        "place": member("city", "zip", 4),
        "places": [member("city", "zip", 4)],
        "by_name": [("a", member("city", "zip", 4))],
        "part": "x",
        "since": None,
        POSITION: 4,
    } == found.to_pylist()[4]
    assert pa.int64() == found.schema.field("id").type
    assert 10 == found.num_rows


@pytest.mark.parametrize("columns", [["id"], ["part"], [], ["since", "part"], ["part", "id"]])
def test_deleted_rows_are_left_out_whatever_is_asked(root, columns):
    rows = np.array([0, 2, 3, 4, 5, 9])
    vector = write_vectors(root, "orders", {"": rows})[""]
    add = {**ADD, "deletionVector": vector.to_json()}
    deleted = DeletedRows(root, "orders").of(add)
    found = pa.Table.from_batches(live_rows(root, "orders", form(), add, columns, deleted=deleted))

    assert [1, 6, 7, 8] == found[POSITION].to_pylist()
    assert [*columns, POSITION] == found.column_names
    if "id" in columns:
        assert [1, 6, 7, 8] == found["id"].to_pylist()


def test_what_is_not_there_is_refused_by_name(root):
    with pytest.raises(InvalidError, match="no column c1") as caught:
        list(live_rows(root, "orders", form(), ADD, ["c1"], deleted=NONE))
    assert "P435" == caught.value.code
    absent = {**ADD, "path": "b.parquet"}
    with pytest.raises(UnavailableError) as gone:
        list(live_rows(root, "orders", form(), absent, ["id"], deleted=NONE))
    assert "P403" == gone.value.code
    lost = {"storageType": "i", "pathOrInlineDv": "00000", "sizeInBytes": 4, "cardinality": 1}
    with pytest.raises(InvalidError) as damaged:
        DeletedRows(root, "orders").of({**ADD, "deletionVector": lost})
    assert "P438" == damaged.value.code
