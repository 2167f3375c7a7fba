"""What values are, detected from their bytes."""

from __future__ import annotations

import pytest
from tests.messy import TOPICS

from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.schema.format_detection import detect_format

SETTINGS = {
    "orders": {},
    "mixed": {},
    "debezium": {"envelope": "debezium"},
    "debezium-schema": {"format": "json-schema-envelope", "envelope": "debezium"},
    "flattened": {"envelope": "flattened"},
    "dms": {"envelope": "dms"},
    "maxwell": {"envelope": "maxwell"},
    "canal": {"envelope": "canal"},
    "gzip": {"compression": "gzip"},
    "text": {"format": "text"},
    "arrays": {"format": "text"},
    "bytes": {"format": "bytes"},
    "mostly": {},
}
AVRO = [b"\0\0\0\0\7" + body for body in (b"\2a", b"\4bc")]
SINGLE = [b"\xc3\x01" + bytes(range(8)) + body for body in (b"\2a", b"\4bc")]


def find(key: SchemaKey) -> RegisteredSchema | None:
    """Answer as a registry with two schemas."""
    known = {SchemaKey("id", "7"): "avro", SchemaKey("fingerprint", "0706050403020100"): "avro"}
    return RegisteredSchema("avro", '"string"') if key in known else None


@pytest.mark.parametrize("topic", SETTINGS)
def test_formats_envelopes_and_compression_are_detected_from_the_values(topic: str) -> None:
    values = [value for value in TOPICS[topic] if value is not None]

    assert (SETTINGS[topic], "") == (
        (found := detect_format(values, None)).settings,
        found.unsupported,
    )


@pytest.mark.parametrize(
    ("record", "envelope"),
    [
        (b'{"op": "c", "after": {"id": 1}}', "none"),
        (b'{"op": "close", "after": {}, "source": {}}', "none"),
        (b'{"type": "insert", "data": {"id": 1}}', "none"),
        (b'{"database": "d", "ts": 1, "type": "bootstrap-start"}', "maxwell"),
        (b'{"metadata": {"record-type": "control"}}', "dms"),
        (b'{"metadata": {"version": 1}, "data": {}}', "none"),
        (b'{"schema": "public", "payload": 1, "id": 2}', "none"),
        (b'{"databaseName": "d", "ddl": "create table t"}', "debezium"),
    ],
)
def test_a_record_of_ones_own_is_not_taken_for_an_envelope(record: bytes, envelope: str) -> None:
    assert envelope == detect_format([record], None).envelope


def test_values_that_name_schemas_need_a_registry_and_say_so() -> None:
    assert "id 7" in detect_format(AVRO, None).unsupported
    assert "--registry" in detect_format(AVRO, None).unsupported
    assert {"format": "avro"} == detect_format(AVRO, find).settings
    assert {"format": "avro", "framing": "single-object"} == detect_format(SINGLE, find).settings
    assert "no usable schema of id 7" in detect_format(AVRO, lambda _: None).unsupported


def test_bytes_that_begin_with_zeros_by_chance_name_no_schema() -> None:
    longs = [(n * 1_000_003).to_bytes(8, "big") for n in range(40)]

    assert {"format": "bytes"} == detect_format(longs, None).settings
