"""Columns of nanoseconds, and of no type yet, in turn with Iceberg's own library in Java.

Spark 4.1 has no type of nanoseconds, so there the other engine is what Flink and Kafka Connect build
on: the library that Spark has with it, through its generic rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.types import LongType
from tests.integration.maintaining import maintained
from tests.integration.readers.lakes import Lakes, chain

from penstock.connectors import iceberg
from penstock.connectors.iceberg.catalogs.by_pointer import OwnSql
from penstock.core.schema import Field, Kind, Schema
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS

pytestmark = pytest.mark.spark

SECOND = 1_000_000_000
NOON = int(dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC).timestamp()) * SECOND
SCHEMA = Schema(
    (
        Field("id", Kind.LONG),
        Field("at", Kind.TIMESTAMPTZ_NS),
        Field("local", Kind.TIMESTAMP_NS),
        Field("other", Kind.STRING),
    )
)
LAID_OUT = TableDefinition(
    SCHEMA,
    partition_by=("hour(at)", "bucket(4, local)"),
    sort_by=("at desc",),
    properties={"format-version": "3"},
)
LARGE = 1 << 40
"""An id that Python gives Java as a long."""
EARLY = -5 * SECOND - 1
"""Before 1970, and no whole second."""


def nanos(at: int) -> str:
    """Write a count of nanoseconds as Java does."""
    seconds, rest = divmod(at, SECOND)
    text = dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09}"


class Java:
    """A table as Iceberg's own library reads and changes it."""

    def __init__(self, lakes: Lakes, name: str) -> None:
        self.jvm = lakes.spark._jvm
        apache = self.jvm.org.apache
        options = self.jvm.java.util.HashMap()
        for key in ("uri", "warehouse", "jdbc.schema-version"):
            options.put(key, lakes.spark.conf.get(f"spark.sql.catalog.lake.{key}"))
        hadoop = lakes.spark._jsc.hadoopConfiguration()
        kind = "org.apache.iceberg.jdbc.JdbcCatalog"
        self.iceberg = apache.iceberg
        catalog = self.iceberg.CatalogUtil.loadCatalog(kind, "lake", options, hadoop)
        self.table = catalog.loadTable(self.iceberg.catalog.TableIdentifier.parse(name))
        self.say = self.iceberg.expressions.Expressions

    def rows(self, condition: Any = None) -> list[dict[str, Any]]:
        scan = self.iceberg.data.IcebergGenerics.read(self.table)
        found = (scan if condition is None else scan.where(condition)).build()
        names = [each.name() for each in self.table.schema().columns()]
        rows = [{name: each.getField(name) for name in names} for each in _each(found)]
        found.close()
        return sorted((_texts(each) for each in rows), key=lambda each: each["id"])

    def shown(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows of ours as `rows` gives them."""
        made = {"at": self.time, "moment": self.time, "local": self.local}
        found = [{k: made[k](v) if k in made else v for k, v in row.items()} for row in rows]
        return sorted(map(_texts, found), key=lambda each: each["id"])

    def files_for(self, condition: Any) -> int:
        """Count the files that a scan does not skip."""
        self.table.refresh()
        return sum(1 for _ in _each(self.table.newScan().filter(condition).planFiles()))

    def append(self, **values: Any) -> None:
        schema, spec = self.table.schema(), self.table.spec()
        record = self.iceberg.data.GenericRecord.create(schema)
        for name, value in values.items():
            record.setField(name, value)
        data = self.iceberg.data
        key = self.iceberg.PartitionKey(spec, schema)
        key.partition(data.InternalRecordWrapper(schema.asStruct()).wrap(record))
        place = self.table.locationProvider().newDataLocation(f"java-{values['id']}.parquet")
        parquet = self.iceberg.FileFormat.PARQUET
        appender = data.GenericAppenderFactory(schema, spec).newAppender(
            self.table.io().newOutputFile(place), parquet
        )
        appender.add(record)
        appender.close()
        builder = self.iceberg.DataFiles.builder(spec).withPath(place).withFormat(parquet)
        builder = builder.withFileSizeInBytes(appender.length()).withMetrics(appender.metrics())
        self.table.newAppend().appendFile(builder.withPartition(key).build()).commit()

    def time(self, at: int) -> Any:
        return self.jvm.java.time.OffsetDateTime.parse(f"{nanos(at)}Z")

    def local(self, at: int) -> Any:
        return self.jvm.java.time.LocalDateTime.parse(nanos(at))


def _each(found: Any) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, int | str | None) else v.toString() for k, v in row.items()}


def row(number: int, at: int, column: str = "at") -> dict[str, Any]:
    return {"id": number, column: at, "local": at, "other": f"row {number}"}


def test_java_and_we_take_turns_at_a_table_of_nanoseconds(lakes: Lakes) -> None:
    name, hour = "lake.shop.nanos", 3600 * SECOND
    table = lakes.create(name, LAID_OUT)
    rows = [row(n, at) for n, at in enumerate([NOON + 1, NOON + 999, NOON + hour, EARLY])]
    for each in rows:
        lakes.landed(name, [each])
    java = Java(lakes, "shop.nanos")
    say = java.say

    assert java.shown(rows) == java.rows()
    with pytest.raises(Exception, match="timestamptz_ns"):
        lakes.sql("SELECT id FROM {t}", t=name)
    for condition, ids in (
        (say.greaterThan("at", f"{nanos(NOON + 1)}+00:00"), [1, 2]),
        (say.equal("local", nanos(NOON + 999)), [1]),
        (say.lessThan("at", "1970-01-01T00:00:00+00:00"), [3]),
        (say.equal(say.hour("at"), NOON // hour), [0, 1]),
        (say.equal(say.day("local"), -1), [3]),
    ):
        assert ids == [each["id"] for each in java.rows(condition)]
        assert len(ids) == java.files_for(condition)

    # Only where the bounds are the value itself does a file go without being read.
    java.table.newDelete().deleteFromRowFilter(
        say.equal("at", f"{nanos(NOON + 999)}+00:00")
    ).commit()
    java.append(id=LARGE, at=java.time(NOON + 5), local=java.local(NOON + 5), other="theirs")
    java.table.updateSchema().renameColumn("at", "moment").commit()
    java.table.updateSpec().addField(say.month("local")).commit()
    times = {0: NOON + 1, 2: NOON + hour, 3: EARLY, 11: NOON + 11, 12: NOON + 12}
    rows = [row(number, at, "moment") for number, at in times.items()]
    for each in rows[3:]:
        lakes.landed(name, [each])
    rows.append({**row(LARGE, NOON + 5, "moment"), "other": "theirs"})
    java.table.refresh()
    assert java.shown(rows) == java.rows()
    assert maintained(chain(name), table, iceberg.connector).groups
    java.table.refresh()
    assert java.shown(rows) == java.rows()
    condition = say.greaterThan("moment", f"{nanos(NOON + 11)}+00:00")
    assert [2, 12] == [each["id"] for each in java.rows(condition)]


def test_spark_reads_and_types_a_column_that_had_no_type(lakes: Lakes) -> None:
    name = "lake.shop.untyped"
    table = lakes.create(name, TableDefinition(ORDERS, properties={"format-version": "3"}))
    lakes.sql("ALTER TABLE {t} ADD COLUMN what void FIRST", t=name)
    lakes.landed(name, [{"id": 1}, {"id": 2}])
    lakes.sql("DELETE FROM {t} WHERE id = 2 AND what IS NULL", t=name)
    assert [{"id": 1, "what": None}] == lakes.sql("SELECT id, what FROM {t}", t=name)

    # Java's library gives no column its type later; PyIceberg does.
    with OwnSql("lake", **lakes.iceberg).load_table("shop.untyped").update_schema() as change:
        change.update_column("what", LongType())
    lakes.landed(name, [{"id": 3, "what": 5}])
    maintained(chain(name), table, iceberg.connector)
    found = lakes.sql("SELECT id, what FROM {t} ORDER BY id", t=name)
    assert [{"id": 1, "what": None}, {"id": 3, "what": 5}] == found
