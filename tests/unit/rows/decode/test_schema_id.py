"""Where a record names its schema: before its value or in a header, by number, GUID, fingerprint."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.connectors.registry.directory import DirectoryRegistry
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.rows.arrow_types import arrow_type
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.compression import gunzip_values
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import HEADERS, RowOptions

AT = TopicPartition("id", 0, "orders")
SCHEMA = Struct((Field("id", Kind.LONG),))
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
GUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@pytest.fixture
def readers(tmp_path: Path) -> ReaderCache:
    texts = {
        "1.avsc": json.dumps(ORDER),
        f"{GUID}.avsc": json.dumps(ORDER),
        "2.avsc": json.dumps(NODE),
        "3.json": '{"type": "object"}',
        "4.avsc": "not json",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return ReaderCache(DirectoryRegistry(f"mock://{tmp_path}"))


def datum(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ORDER, {"id": number})
    return out.getvalue()


def single(number: int) -> bytes:
    out = io.BytesIO()
    form = fastavro.schema.to_parsing_canonical_form(ORDER)
    out.write(b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO")))
    return out.getvalue() + datum(number)


def landed(
    readers: ReaderCache, *values: bytes, headers: Any = None, **options: Any
) -> ConvertedBatch:
    batch = pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.nulls(len(values), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers or [None] * len(values), arrow_type(HEADERS)),
        }
    )
    given = {"format": "avro", **options}
    return convert_batch(
        batch, at=AT, schema=SCHEMA, options=RowOptions({}, **given), readers=readers
    )


def outcome(done: ConvertedBatch) -> tuple[list[Any], list[tuple[int, str]]]:
    return done.rows.column("id").to_pylist(), [(r.offset, r.code) for r in done.rejects]


def test_numbers_and_guids_before_values_are_distinguished(readers: ReaderCache) -> None:
    by_number, by_guid = b"\x00\x00\x00\x00\x01", b"\x01" + GUID.bytes
    values = [by_number + datum(7), by_guid + datum(8), by_number + datum(9)]

    assert ([7, 8, 9], []) == outcome(landed(readers, *values))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"\x00\x00\x00\x00\x09" + datum(1), "P311"),
        (b"\x01" + bytes(16) + datum(1), "P311"),
        (b"\x00\x00\x00\x00\x02\x00", "P312"),
        (b"\x00\x00\x00\x00\x03{}", "P312"),
        (b"\x00\x00\x00\x00\x04\x00", "P312"),
        (b"\x00\x00\x00", "P310"),
        (b"\x01" + GUID.bytes[:-1], "P310"),
        (b"\x02\x00\x00\x00\x01" + datum(1), "P310"),
        (b'{"id":1}', "P310"),
        (b"\x00\x00\x00\x00\x01", "P302"),
        (b"\x00\x00\x00\x00\x01" + datum(1) + b"\x00", "P308"),
        (b"\x00\x00\x00\x00\x01" + b"\xff" * 9 + b"\x7f", "P302"),
    ],
)
def test_a_bad_frame_is_refused_with_its_code_and_its_neighbours_land(
    readers: ReaderCache, value: bytes, code: str
) -> None:
    good = b"\x00\x00\x00\x00\x01" + datum(7)

    assert ([7, 7], [(1, code)]) == outcome(landed(readers, good, value, good))


def test_a_header_names_the_schema_before_the_value_does(readers: ReaderCache) -> None:
    named = [{"key": "__value_schema_id", "value": b"\x01" + GUID.bytes}]
    wrong = [{"key": "__value_schema_id", "value": b"\x01short"}]
    other = [{"key": "trace", "value": None}]
    framed = b"\x00\x00\x00\x00\x01" + datum(8)

    done = landed(
        readers,
        datum(7),
        framed,
        framed,
        headers=[named, wrong, other],
        schema_id="headers",
    )

    assert ([7, 8, 8], []) == outcome(done)


def test_single_objects_are_read_by_their_fingerprint(readers: ReaderCache, tmp_path: Path) -> None:
    (tmp_path / "4.avsc").unlink()
    unknown = b"\xc3\x01" + bytes(8) + datum(9)

    done = landed(readers, single(7), unknown, datum(1), framing="single-object")

    assert ([7], [(1, "P311"), (2, "P310")]) == outcome(done)


def test_json_after_a_schema_number_is_json(readers: ReaderCache) -> None:
    head = b"\x00\x00\x00\x00\x03"

    done = landed(readers, head + b'{"id":7}', head + b"{", b'{"id":1}', format="json-schema")

    assert ([7], [(1, "P302"), (2, "P310")]) == outcome(done)


def test_packed_values_are_unpacked_within_the_limit(readers: ReaderCache) -> None:
    packed = gzip.compress(b'{"id":7}')
    bomb = gzip.compress(b" " * 100_000)
    values = [packed, gzip.compress(b'{"id"') + gzip.compress(b":8}"), bomb, packed[:-1], b"plain"]
    values += [packed + b"x", gzip.compress(b"")]

    done = landed(readers, *values, format="json", compression="gzip", record_bytes_max=1000)

    codes = [(2, "P341"), (3, "P313"), (4, "P313"), (5, "P313"), (6, "P301")]
    assert ([7, 8], codes) == outcome(done)


def test_values_are_unpacked_block_by_block_when_they_are_asked_for() -> None:
    packed = [gzip.compress(b"x" * 60), b"plain", gzip.compress(b"y" * 60), gzip.compress(b"z")]

    blocks = gunzip_values(pa.array(packed, pa.binary()), 100, 100)

    first, rejects = next(blocks)
    assert ([b"x" * 60, b"", b"y" * 60], [1]) == (first.to_pylist(), list(rejects))
    assert [[b"z"]] == [block.to_pylist() for block, _ in blocks]


def test_a_batch_that_is_unpacked_in_blocks_lands_as_one(
    readers: ReaderCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_one = partial(gunzip_values, block_bytes=1)
    monkeypatch.setattr("penstock.rows.decode.decoder.gunzip_values", by_one)
    values = [gzip.compress(b'{"id":%d}' % number) for number in range(3)]
    values.insert(1, gzip.compress(b""))

    done = landed(readers, *values, format="json", compression="gzip")

    assert ([0, 1, 2], [(1, "P301")]) == outcome(done)


def test_values_that_are_all_empty_after_their_frame_are_refused(readers: ReaderCache) -> None:
    nothing = gzip.compress(b"")

    packed = landed(readers, nothing, nothing, format="json", compression="gzip")
    framed = landed(readers, b"\x00\x00\x00\x00\x03", format="json-schema")

    assert ([], [(0, "P301"), (1, "P301")]) == outcome(packed)
    assert ([], [(0, "P301")]) == outcome(framed)
