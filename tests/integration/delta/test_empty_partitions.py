"""An empty text to partition by is null in Delta: its record is refused, and nobody else waits."""

from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.integration.delta.lake import CHAIN, Lake
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.world import ORDERS, QUARANTINE, World

from penstock.connectors import delta
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets

COLUMNS = Struct(
    (
        Field("n", Kind.LONG),
        Field("place", Kind.STRING),
        Field("day", Kind.DATE),
        Field("note", Kind.STRING),
        Field("_kafka_topic", Kind.STRING),
        Field("_kafka_partition", Kind.INT),
        Field("_kafka_offset", Kind.LONG),
    )
)


class DeltaInMemory(MemoryGround):
    """A cluster and a store in this process, tables on this disk."""

    connector = "delta"

    def __init__(self, directory):
        super().__init__()
        self.root = directory / "lake"

    def open_catalog(self, observer):
        settings = {"name": CATALOG, "type": "delta", "root": str(self.root)}
        return delta.open_catalog(settings, ProcessSecrets({}), observer)

    def open_writer(self):
        return partial(delta.open_writer, secrets=ProcessSecrets({}))

    def read(self, table):
        handle = DeltaTable(self.root.joinpath(*catalog_name(table).split(".")))
        return pa.table(handle.scan()).to_pylist()


def test_a_record_with_an_empty_partition_value_is_quarantined_and_the_others_land(tmp_path):
    ground = DeltaInMemory(tmp_path)
    world = World(ground)
    definition = TableDefinition(COLUMNS, ("place", "day"))
    world.catalog().create(catalog_name(ORDERS), definition, [])
    day = {"day": "2026-11-21"}
    for turn in range(2):
        world.send("orders", 2, place="here", note="", **day)
        world.send("orders", 1, place="", note="x", **day)
        world.send("orders", 1, place=None, **day)
        if turn:
            world.send_raw("orders", b"no JSON")
        assert "" == world.run().code

    refused = [row["offset"] for row in ground.read(QUARANTINE) if row["code"] == "P372"]
    assert [2, 6] == sorted(refused)
    assert {0: 9} == world.offsets()
    assert [0, 1, 3, 4, 5, 7] == [offset for _, _, offset in world.rows()]
    landed = sorted(ground.read(ORDERS), key=lambda row: row["_kafka_offset"])
    assert ["here", "here", None] * 2 == [row["place"] for row in landed]
    assert ["", "", None] * 2 == [row["note"] for row in landed]


def test_a_table_names_the_texts_it_is_partitioned_by(tmp_path):
    lake = Lake(tmp_path)
    lake.create(schema=COLUMNS, partition_by=["place", "day"])
    plain = Lake(tmp_path, "bronze.plain")
    plain.create(schema=COLUMNS)

    assert ("place",) == lake.state().not_empty
    assert () == plain.state(CHAIN).not_empty


def test_a_table_partitioned_by_bytes_is_refused_by_name(tmp_path):
    lake = Lake(tmp_path)
    rows = pa.table({"id": pa.array([1], pa.int64()), "raw": pa.array([b"x"])})
    lake.location.mkdir(parents=True)
    write_deltalake(lake.location, rows, partition_by=["raw"])
    with pytest.raises(InvalidError) as caught:
        lake.state()

    assert "P436" == caught.value.code
    assert "the binary partition column raw" in caught.value.message
