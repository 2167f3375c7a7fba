"""What a table's name mapping says of its columns, as another writer keeps it."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import StringType

from penstock.connectors.registry.directory import DirectoryRegistry
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.rows.cast.spellings import require_one_column
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.testing.prepared import ORDERS, prepared

MAPPING = "schema.name-mapping.default"
INNER = Struct((Field("zip", Kind.LONG),))
MORE = Field("a.b", Struct((Field("lines", List(INNER)), Field("days", Map(Kind.STRING, INNER)))))
FORMER = {"id": 1, "name": "n", "a.b": {"lines": [{"zip": 2}], "days": {"zip": {"zip": 3}}}}


@pytest.fixture
def table(lake):
    """Create a table, and let another writer map its names and rename columns at each depth."""
    made = lake.create(schema=Struct((*ORDERS.fields, MORE)))
    assert made.state(lake.chain).other_names is None
    mapping = create_mapping_from_schema(lake.foreign().schema())
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({MAPPING: mapping.model_dump_json()})
    with lake.foreign().update_schema() as change:
        change.rename_column("name", "title")
        change.rename_column(("a.b", "lines", "element", "zip"), "code")
        change.rename_column(("a.b", "days", "value", "zip"), "code")
    return made


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; }'


def land(lake, table, record, offset):
    """Land a record as a task does for a rule with `match: name_mapping`; return its rejects."""
    return land_value(lake, table, json.dumps(record).encode(), offset)


def land_value(lake, table, value, offset, *, form="json", readers=None):
    """Land the value of a record."""
    state = table.state(lake.chain)
    names = require_one_column(state.other_names, table.name)
    batch = pa.record_batch(
        {
            "offset": pa.array([offset], pa.int64()),
            "timestamp": pa.nulls(1, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(1, pa.binary()),
            "value": pa.array([value], pa.binary()),
        }
    )
    options = RowOptions({}, match="name_mapping", names=names, format=form)
    at = TopicPartition("id", 0, "orders")
    given = {"at": at, "schema": state.schema, "options": options}
    done = convert_batch(batch, **given, **({} if readers is None else {"readers": readers}))
    files = lake.write(state, done.rows)
    given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id}
    table.commit(state, prepared(lake.chain, {0: (offset, offset + 1)}, **given), retain=25)
    return [each.code for each in done.rejects]


def titles(lake):
    return sorted(lake.foreign().scan().to_arrow()["title"].to_pylist())


def test_records_of_before_a_renaming_land_in_the_columns_of_now(lake, table):
    assert {
        "": {"name": ("title",)},
        r"a\.b.lines[]": {"zip": ("code",)},
        r"a\.b.days{}": {"zip": ("code",)},
    } == table.state(lake.chain).other_names

    assert [] == land(lake, table, FORMER, 0)
    assert [] == land(lake, table, {"id": 2, "title": "t"}, 1)
    assert ["n", "t"] == titles(lake)
    [found] = [row for row in lake.foreign().scan().to_arrow().to_pylist() if row["id"] == 1]
    assert {"lines": [{"code": 2}], "days": [("zip", {"code": 3})]} == found["a.b"]

    with lake.foreign().update_schema() as change:
        change.add_column("name", StringType())
    assert "" not in table.state(lake.chain).other_names, "the name is another column's now"
    assert [] == land(lake, table, {"id": 3, "name": "new"}, 2)
    assert [None, "new"] == [
        row[each]
        for row in lake.foreign().scan().to_arrow().to_pylist()
        if row["id"] == 3
        for each in ("title", "name")
    ]


def test_records_of_a_schema_of_before_a_renaming_do_so_as_well(lake, table, tmp_path):
    (tmp_path / "1.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "2.proto").write_text(PROTOBUF)
    readers = ReaderCache(DirectoryRegistry(f"mock://{tmp_path}"))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": 1, "name": "a"})

    avro, protobuf = b"\0\0\0\0\1" + out.getvalue(), b"\0\0\0\0\2\0\x08\2\x12\1p"
    assert [] == land_value(lake, table, avro, 0, form="avro", readers=readers)
    with lake.foreign().update_schema() as change:
        change.rename_column("title", "caption")
    assert [] == land_value(lake, table, protobuf, 1, form="protobuf", readers=readers)
    assert ["a", "p"] == sorted(lake.foreign().scan().to_arrow()["caption"].to_pylist())


def test_a_name_that_two_columns_claim_is_nobodys(lake, table):
    with lake.foreign().update_schema() as change:
        change.add_column("name", StringType())
    by_hand = [{"field-id": 2, "names": ["title", "name"]}]
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({MAPPING: json.dumps(by_hand)})

    state = table.state(lake.chain)
    assert {"": {"name": ("title", "name")}} == state.other_names
    with pytest.raises(InvalidError, match="title and name, which are all called name") as raised:
        require_one_column(state.other_names, table.name)
    assert "P435" == raised.value.code

    with lake.foreign().transaction() as transaction:
        transaction.set_properties({MAPPING: "[{"})
    assert table.state(lake.chain).other_names is None
