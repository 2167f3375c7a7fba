"""Records of other shapes: flat ones with many columns, and the nested ones of `records` as Avro.

Invariants:
- record i is the same in every run, and its `id` is i;
- flat records have longs, strings, doubles and booleans in turn; what follows the id comes from a
  pool and repeats after it;
- an Avro record holds the values of the JSON record of the same number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np

from benchmarks import records

POOL = 9973  # a prime, as records.POOL is
SCHEMA_ID = 1
HEADER = b"\x00" + SCHEMA_ID.to_bytes(4, "big")

_STAMP = {"type": "long", "logicalType": "timestamp-millis"}
_TEXT = ["null", "string"]


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


AVRO = _record(
    "Event",
    {
        "id": "long",
        "user_id": "string",
        "ts": _STAMP,
        "event": "string",
        "amount": ["null", "double"],
        "qty": "long",
        "ok": "boolean",
        "device": _record("Device", {"os": "string", "ver": "string", "model": _TEXT}),
        "geo": _record("Geo", {"lat": "double", "lon": "double"}),
        "tags": {"type": "array", "items": "string"},
        "url": "string",
    },
)
_AFTER_ID = {**AVRO, "fields": AVRO["fields"][1:]}

Values = Callable[[int, int], Iterator[bytes]]


def flat(columns: int) -> Values:
    """Make records with so many columns, the id among them."""

    def values(start: int, stop: int) -> Iterator[bytes]:
        tails = _flat_pool(columns)
        for number in range(start, stop):
            yield b'{"id":%d%b' % (number, tails[number % POOL])

    return values


def avro(start: int, stop: int) -> Iterator[bytes]:
    """Yield the values of records start to stop as Avro, after the number of their schema."""
    tails = _avro_pool()
    for number in range(start, stop):
        yield HEADER + _long(number) + tails[number % records.POOL]


@cache
def _flat_pool(columns: int) -> list[bytes]:
    draw = np.random.default_rng(records.SEED)
    cells = [_cells(number, draw) for number in range(columns - 1)]
    return [("".join(row) + "}").encode() for row in zip(*cells, strict=True)] or [b"}"] * POOL


def _cells(number: int, draw: np.random.Generator) -> list[str]:
    name = f',"c{number + 1:03d}":'
    match number % 4:
        case 0:
            return [f"{name}{each}" for each in draw.integers(0, 10**6, POOL).tolist()]
        case 1:
            text = draw.bytes(6 * POOL).hex()
            return [f'{name}"{text[12 * i : 12 * i + 12]}"' for i in range(POOL)]
        case 2:
            return [f"{name}{each}" for each in (draw.integers(0, 10**5, POOL) / 100).tolist()]
        case _:
            return [f"{name}{'true' if each else 'false'}" for each in draw.integers(0, 2, POOL)]


@cache
def _avro_pool() -> list[bytes]:
    from fastavro import parse_schema, schemaless_writer

    schema, tails = parse_schema(_AFTER_ID), []
    for tail in records.pool():
        row = json.loads(b"{" + tail)
        row["ts"] = datetime.fromisoformat(row["ts"])
        body = io.BytesIO()
        schemaless_writer(body, schema, row)
        tails.append(body.getvalue())
    return tails


def _long(number: int) -> bytes:
    """Write a number that is not negative as Avro's zigzag varint."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])
