"""Opening, creating and refusing, by name."""

import json
import os

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from penstock.connectors.iceberg import connector
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import ORDERS, orders, origin


class Environment:
    """Resolve `${env:NAME}` as the real resolver does, from a mapping."""

    def __init__(self, **values):
        self.values = values

    def resolve(self, text):
        for name, value in self.values.items():
            text = text.replace(f"${{env:{name}}}", value)
        return text


def code_of(act):
    with pytest.raises((InvalidError, UnavailableError)) as raised:
        act()
    assert raised.value.hint
    return raised.value.code


def test_references_are_resolved_and_secrets_stay_out_of_target_and_errors(lake):
    settings = {
        "name": "lake",
        "type": "sql",
        "uri": "${env:URI}",
        "warehouse": lake.settings["warehouse"],
        "s3.region": "eu-1",
        "s3.secret-access-key": "${env:KEY}",
    }
    secrets = Environment(URI=lake.settings["uri"], KEY="hush-hush")
    catalog = connector.open_catalog(settings, secrets, Quiet())
    table = catalog.create("bronze.t", TableDefinition(ORDERS), [origin(lake.chain, {0: 0})])
    state = table.state(lake.chain)

    assert "hush" not in state.target
    assert "eu-1" in state.target
    assert "hush" not in repr(state)
    assert "hush" not in repr(table)


def test_check_writes_nothing_that_stays(lake):
    lake.create()
    before = sorted(p for p in lake.place.rglob("*") if p.is_file())
    lake.catalog.check()

    assert before == sorted(p for p in lake.place.rglob("*") if p.is_file())


@pytest.mark.parametrize("uri", ["nonsense", "nosuchdb://x/y"])
def test_settings_that_make_no_catalog_are_refused(lake, uri):
    assert "P432" == code_of(lambda: lake.open(uri=uri))


def test_unknown_settings_of_ours_are_refused(lake):
    assert "P432" == code_of(lambda: lake.open(**{"penstock.target_bytes": "1"}))
    assert "P432" == code_of(lambda: lake.open(**{"penstock.open_writers": "many"}))


def test_a_catalog_file_that_is_no_database_is_refused(tmp_path, lake):
    (tmp_path / "other.db").write_text("this is no database, and long enough to be looked at" * 9)

    assert "P431" == code_of(lambda: lake.open(uri=f"sqlite:///{tmp_path}/other.db"))


def test_an_unwritable_warehouse_is_refused_by_check_and_create(lake):
    (lake.place / "file").write_text("in the way")
    catalog = lake.open(warehouse=f"file://{lake.place}/file/warehouse")

    assert "P431" == code_of(catalog.check)
    assert "P431" == code_of(
        lambda: catalog.create("bronze.t", TableDefinition(ORDERS), [origin(lake.chain, {0: 0})])
    )
    assert catalog.load("bronze.t") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_catalog_is_refused_by_check(lake):
    (lake.place / "catalog.db").chmod(0o400)

    assert "P431" == code_of(lake.catalog.check)


def test_a_table_without_its_metadata_file_is_unavailable(lake):
    lake.create()
    for each in (lake.place / "warehouse").rglob("*.metadata.json"):
        each.unlink()

    assert "P403" == code_of(lambda: lake.open().load("bronze.orders"))


def test_a_table_with_damaged_metadata_is_refused(lake):
    lake.create()
    for each in (lake.place / "warehouse").rglob("*.metadata.json"):
        each.write_text('{"format-version": 2')

    assert "P438" == code_of(lambda: lake.open().load("bronze.orders"))


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"encryption.key-id": "k"}, "encryption.key-id"),
        ({"format-version": "4"}, "format-version 4"),
        ({"write.format.default": "avro"}, "write.format.default=avro"),
        ({"write.parquet.compression-codec": "lzo"}, "compression-codec=lzo"),
        ({"write.location-provider.impl": "a.b"}, "write.location-provider.impl"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(lake, properties, named):
    with pytest.raises(InvalidError, match=named) as raised:
        lake.create(properties=properties)
    assert "P436" == raised.value.code
    if "format-version" in properties:
        return
    table = lake.create()
    with lake.foreign().transaction() as transaction:
        transaction.set_properties(properties)
    with pytest.raises(InvalidError, match=named):
        table.state(lake.chain)


@pytest.mark.parametrize(
    "text",
    [
        "day(nothing)",
        "day(name)",
        "bucket(0, id)",
        "bucket(id)",
        "week(id)",
        "day(",
        "",
        "id)",
        "a(b(c))",
    ],
)
def test_partitioning_that_cannot_be_is_refused_and_creates_nothing(lake, text):
    assert "P434" == code_of(lambda: lake.create(partition_by=[text]))
    assert lake.catalog.load("bronze.orders") is None


@pytest.mark.parametrize(
    "schema",
    [
        Struct((Field("a", Kind.UNKNOWN),)),
        Struct((Field("", Kind.LONG),)),
        Struct((Field("a", Kind.LONG), Field("a", Kind.LONG))),
    ],
)
def test_columns_that_cannot_be_are_refused(lake, schema):
    assert "P435" == code_of(lambda: lake.create(schema))


def test_hostile_column_names_are_kept_as_they_are(lake):
    names = ["a b", "sélect", "x;--", '"q"', "\N{GRINNING FACE}", "A", "a"]
    table = lake.create(Struct(tuple(Field(name, Kind.LONG) for name in names)))
    state = table.state(lake.chain)
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(names, 1)])
    lake.write(state, batch)

    assert tuple(names) == state.schema.names


def test_properties_and_nested_namespaces_are_honoured(lake):
    name = "shop.bronze.deep.orders"
    lake.create(
        name=name,
        partition_by=["bucket(2, id)"],
        properties={
            "write.parquet.compression-codec": "gzip",
            "write.data.path": f"file://{lake.place}/elsewhere",
            "write.metadata.metrics.default": "none",
            "write.metadata.metrics.column.id": "full",
        },
    )
    state = lake.catalog.load(name).state(lake.chain)
    files = lake.write(state, batch_of(state.schema, orders({0: (0, 9)})))

    assert {f"file://{lake.place}/elsewhere"} == {each.path.rsplit("/", 1)[0] for each in files}
    columns = {column[0]: column for column in json.loads(files[0].detail)["columns"]}
    assert columns[1][4] is not None
    assert [None] * 4 == columns[2][2:]
    paths = [each.path.removeprefix("file://") for each in files]
    codecs = (
        duckdb.connect()
        .sql(f"select distinct compression from parquet_metadata({paths})")
        .fetchall()
    )
    assert [("GZIP",)] == codecs


def test_duckdb_reads_the_same_rows(lake):
    table = lake.create(partition_by=["bucket(4, id)"])
    lake.land(table, {0: (0, 50), 1: (0, 50)})
    paths = [path.removeprefix("file://") for path in table.history(lake.chain).paths]
    rows = duckdb.connect().sql(
        f"select id, name, _kafka_partition, _kafka_offset from read_parquet({paths})"
    )

    assert sorted(
        (row["id"], row["name"], row["_kafka_partition"], row["_kafka_offset"])
        for row in orders({0: (0, 50), 1: (0, 50)})
    ) == sorted(rows.fetchall())


def test_the_object_store_layout_is_honoured(lake):
    lake.create(properties={"write.object-storage.enabled": "true"})
    state = lake.catalog.load("bronze.orders").state(lake.chain)
    (file,) = lake.write(state, batch_of(state.schema, orders({0: (0, 9)})))

    assert "/data/" in file.path
    assert 5 == len(file.path.rsplit("/data/", 1)[1].split("/"))


def test_a_wide_table_has_small_file_descriptions(lake):
    names = [f"c{n}" for n in range(1000)]
    table = lake.create(Struct(tuple(Field(name, Kind.STRING) for name in names)))
    state = table.state(lake.chain)
    (file,) = lake.write(state, pa.RecordBatch.from_pylist([dict.fromkeys(names, "x" * 5000)]))

    assert len(file.detail) < 64_000


def test_a_name_without_a_namespace_is_refused(lake):
    assert "P404" == code_of(lambda: lake.catalog.load("orders"))


def test_another_catalogs_name_sees_no_table(lake):
    lake.create()

    assert SqlCatalog("other", **lake.settings).list_namespaces() == []
    assert lake.catalog.load("bronze.others") is None
