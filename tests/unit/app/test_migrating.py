"""Other systems' configurations become specs; every option is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.app.drafting import translated
from penstock.core.errors import InvalidError
from penstock.spec.load import loads

CONNECT = """
# a sink as its users write it
name=Iceberg Sink
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=2
topics=orders, users
iceberg.tables=shop.events
iceberg.tables.auto-create-enabled=true
iceberg.table.shop.events.partition-by=days(created_at),country
iceberg.tables.default-commit-branch=staging
iceberg.table.shop.events.id-columns=id, at
iceberg.catalog.type=sql
iceberg.catalog.uri=sqlite:///./c.db
iceberg.catalog.warehouse=./lake
iceberg.control.commit.interval-ms=60000
iceberg.control.topic=control
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
consumer.override.auto.offset.reset=earliest
"""
CONNECT_JSON = """{"name": "sink", "config": {"topics.regex": "shop\\\\.(.+)",
"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:///./c.db",
"iceberg.catalog.warehouse": "./lake", "iceberg.catalog.token": "hunter2"}}"""
INGEST = """kafka-delta-ingest ingest orders ./lake/shop/orders \\
  --kafka broker:9092 -l 60 --max_messages_per_batch 5000 -b 1000000 --checkpoints \\
  --consumer_group mine --app_id Orders
"""
FLINK = """
SET 'execution.checkpointing.interval' = '10 s';
CREATE TABLE orders (id BIGINT, amount DECIMAL(10, 2)) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092',
  'properties.group.id' = 'g', 'scan.startup.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE lake_orders (id BIGINT, amount DECIMAL(10, 2)) PARTITIONED BY (`id`) WITH (
  'connector' = 'iceberg', 'catalog-name' = 'c', 'catalog-type' = 'sql',
  'uri' = 'sqlite:///./c.db', 'warehouse' = './lake', 'catalog-database' = 'shop',
  'catalog-table' = 'orders', 'write.upsert.enabled' = 'true');
INSERT INTO lake_orders SELECT * FROM orders;
"""


@pytest.fixture
def spec_of(tmp_path: Path):
    def spec_of(text: str):
        written, found = translated(text)
        return loads(written, base=tmp_path), found

    return spec_of


def test_a_connect_sink_becomes_a_spec(spec_of) -> None:
    spec, found = spec_of(CONNECT)

    assert ("iceberg-sink", "local[2]", 60.0) == (
        spec.name,
        spec.spark.master,
        spec.commit.every_seconds,
    )
    assert [("orders", "lake.shop.events"), ("users", "lake.shop.events")] == [
        (rule.from_, rule.into) for rule in spec.tables
    ]
    assert ("day(created_at)", "country") == tuple(spec.tables[0].partition_by)
    assert ("staging", ("id", "at")) == (spec.tables[0].branch, spec.tables[0].identifier_fields)
    assert spec.tables[0].schema_.create
    assert ("json", {"iceberg.control.topic"}) == (spec.records.format, set(dict(found.left)))


@pytest.mark.parametrize(
    ("converter", "more", "expected"),
    [
        ("org.apache.kafka.connect.json.JsonConverter", "", "json-schema-envelope"),
        ("io.confluent.connect.avro.AvroConverter", "https://r:8081,https://s:8081", "avro"),
        ("io.confluent.connect.protobuf.ProtobufConverter", "https://r:8081", "protobuf"),
        ("org.apache.kafka.connect.storage.StringConverter", "", "text"),
    ],
)
def test_a_converter_of_values_becomes_a_format(
    spec_of, converter: str, more: str, expected: str
) -> None:
    plain = CONNECT.partition("value.converter=")[0]
    registry = f"value.converter.schema.registry.url={more}\n" if more else ""

    spec, found = spec_of(f"{plain}value.converter={converter}\n{registry}")

    assert expected == spec.records.format
    assert ("https://r:8081" if more else None) == (
        spec.records.registry and spec.records.registry.url
    )
    assert "value.converter" in dict(found.mapped)


def test_a_connect_sinks_json_with_a_pattern_is_understood_and_secrets_stay_behind() -> None:
    written, found = translated(CONNECT_JSON)

    assert "hunter2" not in written
    assert "${env:TOKEN}" in written
    assert [{"pattern": r"shop\.(.+)"}] == found.spec["kafka"]["topics"]
    assert "a secret is not copied" in dict(found.left)["iceberg.catalog.token"]


def test_a_command_of_kafka_delta_ingest_becomes_a_spec(spec_of, tmp_path: Path) -> None:
    spec, found = spec_of(INGEST)

    assert ("orders", "broker:9092", 60.0) == (
        spec.name,
        spec.kafka.brokers,
        spec.commit.every_seconds,
    )
    assert (5000, 1_000_000) == (spec.commit.or_records, spec.commit.or_bytes)
    assert "delta.shop.orders" == spec.tables[0].into
    assert {"--checkpoints", "--consumer_group"} == set(dict(found.left))


def test_transforms_of_kafka_delta_ingest_become_columns(spec_of) -> None:
    spec, found = spec_of(
        "kafka-delta-ingest ingest web ./lake/web/requests -K auto.offset.reset=earliest"
        " security.protocol=ssl -t 'date: substr(meta.producer.at, `0`, `10`)'"
        " 'meta.kafka.offset: kafka.offset' 'place: kafka.partition' 'x.y: a' 'name: name'"
        " 'all: items[*].sku' -l 60"
    )

    (rule,) = spec.tables
    assert rule.transform is not None
    assert {
        "date": "substr(meta.producer.at, 1, 10)",
        "place": "_kafka_partition",
    } == dict(rule.transform.columns)
    assert {"meta.producer.at": "string"} == dict(rule.schema_.hints)
    assert ("earliest", 60.0) == (spec.kafka.start, spec.commit.every_seconds)
    assert {"-K security.protocol", "-t x.y", "-t name", "-t all"} == set(dict(found.left))
    assert "_kafka_offset" in dict(found.mapped)["-t meta.kafka.offset"]


def test_flink_sql_becomes_a_spec(spec_of) -> None:
    spec, found = spec_of(FLINK)

    assert ("lake.shop.orders", "latest", 10.0) == (
        spec.tables[0].into,
        spec.kafka.start,
        spec.commit.every_seconds,
    )
    assert ("id",) == tuple(spec.tables[0].partition_by)
    assert {"properties.group.id", "write.upsert.enabled"} == set(dict(found.left))


@pytest.mark.parametrize("text", [CONNECT, CONNECT_JSON])
def test_every_option_of_a_sink_is_accounted_for(text: str) -> None:
    _, found = translated(text)

    told = {option for option, _ in [*found.mapped, *found.left]}
    lines = [line.partition("=")[0] for line in text.splitlines() if "=" in line]
    assert set() == {line for line in lines if not line.startswith("{")} - told
    assert all(why for _, why in found.left)


@pytest.mark.parametrize("text", ["", "{", "a=b", "CREATE TABLE t (a INT) WITH ('connector'='x');"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not understood") as told:
        translated(text)
    assert "P165" == told.value.code
