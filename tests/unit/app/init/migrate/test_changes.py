"""What other systems do to rows by key becomes rules of keyed tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from penstock.app.init.draft import translated
from penstock.app.init.migrate.account import Migrated
from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError

SINK = """
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
topics=orders
iceberg.tables=shop.orders,shop.copies
iceberg.catalog.type=sql
iceberg.catalog.uri=sqlite:///./c.db
iceberg.catalog.warehouse=./lake
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
consumer.override.auto.offset.reset=earliest
"""
IDS = "iceberg.tables.default-id-columns=id\niceberg.table.shop.copies.id-columns=id, at\n"
UPSERT = "iceberg.tables.upsert-mode-enabled=true\n"
CDC = "iceberg.tables.cdc-field={}\n"
DEBEZIUM = (
    "transforms=d\ntransforms.d.type=org.apache.iceberg.connect.transforms.DebeziumTransform\n"
)
CODES = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "c": "insert",
    "r": "read",
    "u": "update",
    "d": "delete",
}
KEYS = [("id",), ("id", "at")]


def spec_of(text: str) -> tuple[Pipeline, Migrated]:
    """Return the spec, decided as it is, and the account."""
    written, found = translated(text)
    decided = yaml.safe_dump({**yaml.safe_load(written), "undecided": []})
    return loads(decided, base=Path("/srv")), found


def asked(found: Migrated) -> list[str]:
    return [each.option for each in found.questions()]


@pytest.mark.parametrize("more", [CDC.format("op"), CDC.format("op") + UPSERT])
def test_a_field_of_operations_becomes_an_operation(more: str) -> None:
    spec, found = spec_of(SINK + IDS + more)

    assert [("cdc", "skip", ())] * 2 == [
        (rule.mode, rule.tombstones, rule.identifier_fields) for rule in spec.tables
    ]
    assert KEYS == [rule.keys for rule in spec.tables]
    assert [("op", None, CODES)] * 2 == [
        (rule.operation.field, rule.operation.header, rule.operation.map)
        for rule in spec.tables
        if rule.operation is not None
    ]
    assert [] == asked(found)
    assert {
        "iceberg.tables.cdc-field": "tables[].operation",
        "iceberg.tables.default-id-columns": "tables[].keys",
        "iceberg.table.shop.copies.id-columns": "tables[].keys",
        **({"iceberg.tables.upsert-mode-enabled": "tables[].mode"} if UPSERT in more else {}),
    }.items() <= dict(found.mapped).items()


def test_upsert_mode_becomes_mode_upsert() -> None:
    spec, found = spec_of(SINK + IDS + UPSERT)

    assert [("upsert", None, "skip")] * 2 == [
        (rule.mode, rule.operation, rule.tombstones) for rule in spec.tables
    ]
    assert KEYS == [rule.keys for rule in spec.tables]
    assert [] == asked(found)
    assert "tables[].mode" == dict(found.mapped)["iceberg.tables.upsert-mode-enabled"]


@pytest.mark.parametrize("more", [CDC.format("_cdc.op"), CDC.format("_cdc.op") + UPSERT])
def test_the_operation_of_an_envelope_needs_no_field(more: str) -> None:
    spec, found = spec_of(SINK + IDS + DEBEZIUM + more)

    assert "debezium" == spec.records.envelope
    assert [("cdc", None, None)] * 2 == [
        (rule.mode, rule.operation, rule.tombstones) for rule in spec.tables
    ]
    assert KEYS == [rule.keys for rule in spec.tables]
    assert [] == asked(found)


@pytest.mark.parametrize(
    ("more", "option"),
    [
        (DEBEZIUM + UPSERT, "iceberg.tables.upsert-mode-enabled"),
        (DEBEZIUM + CDC.format("kind"), "iceberg.tables.cdc-field"),
        (CDC.format("_cdc.op"), "iceberg.tables.cdc-field"),
        (UPSERT.replace("true", "${mode}"), "iceberg.tables.upsert-mode-enabled"),
    ],
)
def test_what_the_sink_does_to_a_row_is_undecided_where_it_is_not_known(
    more: str, option: str
) -> None:
    spec, found = spec_of(SINK + IDS + more)

    assert [option] == asked(found)
    assert ["append"] * 2 == [rule.mode for rule in spec.tables]
    assert KEYS == [rule.identifier_fields for rule in spec.tables]


def test_tables_that_a_field_names_are_not_keyed_by_themselves() -> None:
    text = SINK.replace("iceberg.tables=shop.orders,shop.copies", "")
    spec, found = spec_of(f"{text}iceberg.tables.dynamic-enabled=true\n{UPSERT}")

    assert "iceberg.tables.upsert-mode-enabled" in asked(found)
    assert ["append"] == [rule.mode for rule in spec.tables]


def test_a_sink_that_replaces_rows_without_naming_what_identifies_them_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(SINK + UPSERT)

    assert {"P194"} == {each.code for each in caught.value.problems}


@pytest.mark.parametrize("more", ["", "iceberg.tables.upsert-mode-enabled=false\n"])
def test_a_sink_that_appends_keeps_its_identifier_fields(more: str) -> None:
    spec, found = spec_of(SINK + IDS + more)

    assert KEYS == [rule.identifier_fields for rule in spec.tables]
    assert [("append", ())] * 2 == [(rule.mode, rule.keys) for rule in spec.tables]
    assert "tables[].identifier_fields" == dict(found.mapped)["iceberg.tables.default-id-columns"]


def flink(
    *,
    format_: str = "json",
    connector: str = "kafka",
    key: str = "",
    sink: str = "",
    hint: str = "",
) -> str:
    hints = f"/*+ OPTIONS({hint}) */" if hint else ""
    return f"""
CREATE TABLE s (id BIGINT) WITH ('connector' = '{connector}', 'topic' = 'orders',
  'format' = '{format_}', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE t (id BIGINT, at DATE{key}) WITH ('connector' = 'iceberg', 'catalog-type' = 'sql',
  'uri' = 'sqlite:///./c.db', 'warehouse' = './lake'{sink});
INSERT INTO t {hints} SELECT * FROM s;
"""


KEY = ", PRIMARY KEY (id, `at`) NOT ENFORCED"
ON = ", 'write.upsert.enabled' = 'true'"


@pytest.mark.parametrize(
    ("key", "sink", "hint", "option", "keys"),
    [
        (KEY, ON, "", "write.upsert.enabled", ("id", "at")),
        (KEY, "", "'upsert-enabled' = 'true'", "upsert-enabled", ("id", "at")),
        (", CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED", ON, "", "write.upsert.enabled", ("id",)),
        (" COMMENT 'x', b INT PRIMARY KEY NOT ENFORCED", ON, "", "write.upsert.enabled", ("b",)),
    ],
)
def test_an_upsert_table_of_flink_becomes_mode_upsert(
    key: str, sink: str, hint: str, option: str, keys: tuple[str, ...]
) -> None:
    spec, found = spec_of(flink(key=key, sink=sink, hint=hint))

    (rule,) = spec.tables
    assert ("upsert", keys, "skip") == (rule.mode, rule.keys, rule.tombstones)
    assert [] == asked(found)
    mapped = dict(found.mapped)
    assert ("tables[].mode", "tables[].keys") == (mapped[option], mapped["CREATE TABLE t: key"])
    assert not rule.properties


@pytest.mark.parametrize("sink", ["", ON])
def test_changes_that_flink_applies_by_a_key_become_mode_cdc(sink: str) -> None:
    spec, found = spec_of(flink(format_="debezium-json", key=KEY, sink=sink))

    (rule,) = spec.tables
    assert "debezium" == spec.records.envelope
    assert ("cdc", ("id", "at"), None) == (rule.mode, rule.keys, rule.tombstones)
    assert [] == asked(found)


def test_records_of_upsert_kafka_delete_rows_once_their_keys_can_be_read() -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(flink(connector="upsert-kafka", key=KEY))
    assert ["P199"] == [each.code for each in caught.value.problems]

    _, found = translated(flink(connector="upsert-kafka", key=KEY))
    assert ["connector"] == asked(found)
    assert "records.key_format" in found.questions()[0].decide


def test_upsert_kafka_with_keys_of_json_leaves_nothing_to_decide() -> None:
    source = "'value.format' = 'json', 'key.format' = 'json'"
    text = flink(connector="upsert-kafka", key=KEY).replace("'format' = 'json'", source)
    text = text.replace("(id BIGINT)", "(id BIGINT, at DATE, PRIMARY KEY (id, `at`) NOT ENFORCED)")
    text = text.replace(", 'scan.startup.mode' = 'earliest-offset'", "")
    spec, found = spec_of(text)

    (rule,) = spec.tables
    assert ("upsert", ("id", "at"), None) == (rule.mode, rule.keys, rule.tombstones)
    assert ("json", "earliest") == (spec.records.key_format, spec.kafka.start)
    assert [] == asked(found)

    _, found = translated(text.replace(f"DATE{KEY}) WITH", "DATE) WITH"))
    assert ["INSERT INTO t: upsert-kafka"] == asked(found)


@pytest.mark.parametrize(("first", "other"), [("json", "debezium-json"), ("debezium-json", "json")])
def test_sources_of_several_formats_leave_the_records_of_the_second_to_decide(
    first: str, other: str
) -> None:
    """The envelope of the one held for the other as well."""
    text = flink(format_=first, key=KEY)
    renamed = flink(format_=other, key=KEY).replace("orders", "more")
    for name in "st":
        renamed = renamed.replace(f"TABLE {name} ", f"TABLE {name}2 ").replace(
            f" {name};", f" {name}2;"
        )
    written, found = translated(text + renamed.replace("INSERT INTO t", "INSERT INTO t2"))

    records = yaml.safe_load(written)["records"]
    assert ({"format": "json"} if first == "json" else {"envelope": "debezium"}) == records
    (question,) = [each for each in found.questions() if each.option == "format"]
    assert other == question.value
    assert "tables[].records" in question.decide


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (flink(key=KEY), ["CREATE TABLE t: key"]),
        (flink(key=", b INT PRIMARY KEY NOT ENFORCED"), ["CREATE TABLE t: b"]),
        (flink(sink=ON), ["write.upsert.enabled"]),
        (
            flink(key=KEY, sink=ON, hint="'upsert-enabled' = 'false'"),
            ["write.upsert.enabled", "CREATE TABLE t: key"],
        ),
        (flink(format_="debezium-json"), ["INSERT INTO t: debezium-json"]),
        (flink(key=", b INT COMMENT 'PRIMARY KEY of old'"), []),
    ],
)
def test_what_flink_does_not_replace_or_has_no_key_for_is_undecided(
    text: str, expected: list[str]
) -> None:
    spec, found = spec_of(text)

    assert expected == asked(found)
    assert ["append"] == [rule.mode for rule in spec.tables]
