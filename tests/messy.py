"""Topics as they are found: values of every untidy kind, for tests of what is drafted for them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_NUMBER = re.compile(r'"\$([0-9.]+)"')
Values = Sequence[bytes | None]


def of(*records: Any) -> list[bytes]:
    """Write records as JSON; a text that begins with $ is a number, with all its digits."""
    return [_NUMBER.sub(r"\1", json.dumps(record)).encode() for record in records]


def batch(values: Values) -> pa.RecordBatch:
    """Make of values what is read of one partition, as in `ports.log.Fetched`."""
    count = len(values)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def _debezium(op: str, before: Any, after: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "ts_ms": 1_790_000_000_000, "table": "orders"}
    return {
        "op": op,
        "before": before,
        "after": after,
        "source": source,
        "ts_ms": 1_790_000_000_001,
    }


_ORDER_TYPE = {
    "type": "struct",
    "optional": True,
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "uid", "type": "string", "name": "io.debezium.data.Uuid"},
        {"field": "opens", "type": "int64", "name": "io.debezium.time.MicroTime"},
        {"field": "at", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    ],
}
_ENVELOPE_TYPE = {
    "type": "struct",
    "name": "shop.orders.Envelope",
    "fields": [
        {**_ORDER_TYPE, "field": "before"},
        {**_ORDER_TYPE, "field": "after"},
        {"field": "source", "type": "struct", "fields": [{"field": "ts_ms", "type": "int64"}]},
        {"field": "op", "type": "string"},
    ],
}


def _with_schema(number: int) -> dict[str, Any]:
    row = {
        "id": number,
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "opens": 1_000_000 * number,
        "at": "2026-11-01T00:00:00Z",
    }
    payload = {"op": "c", "before": None, "after": row, "source": {"ts_ms": 1_790_000_000_000}}
    return {"schema": _ENVELOPE_TYPE, "payload": payload}


_ROW = {"id": 1, "price": "12.50", "at": "2026-11-01T08:00:00Z"}

TOPICS: Mapping[str, Values] = {
    "orders": of(
        *(
            {
                "id": n,
                "uid": f"00000000-0000-4000-8000-{n:012d}",
                "total": f"{n}.{n % 100:02d}",
                "rate": 0.1 if n % 2 else 1,
                "exact": f"$1.{n:019d}7",
                "placed_at": f"2026-11-{n % 28 + 1:02d}T08:00:00.123Z",
                "local": f"2026-11-{n % 28 + 1:02d} 08:00",
                "day": f"2026-11-{n % 28 + 1:02d}",
                "created_ms": 1_790_000_000_000 + n,
                "seen_ts": 1_790_000_000 + n,
                "paid": "true" if n % 2 else "false",
                "zip": f"{n:05d}",
                "note": None,
                "late": None if n < 30 else n,
                "customer": {"since": "2020-01-01", "name": "Ada", "balance": "-1.00"},
                "items": [{"sku": "a", "price": "1.10"}, {"sku": "b", "price": "2.25", "n": n}],
            }
            for n in range(60)
        )
    ),
    "mixed": of(
        *(
            {
                "id": n if n % 3 else str(n),
                "value": [n, "many", {"of": n}, True, [n], None][n % 6],
                "tags": "one" if n % 5 == 0 else ["one", "two"],
                "list": [1, "a", None, {"b": 2}],
                "a.b": n,
                "Name": "x",
                "name": "y",
                "big": 10**30 if n % 4 else 1,
                "huge": 10**60 if n % 4 else 1,
                "word": "n/a" if n % 7 == 0 else "2026-11-01",
            }
            for n in range(60)
        )
    ),
    "keyed": of(
        *(
            {
                "id": n,
                "prices": {f"key{n}": 1.5, f"key{n + 1}": n},
                "by_day": {f"2026-11-{n % 28 + 1:02d}": n},
            }
            for n in range(40)
        )
    ),
    "only-keys": of(*({f"device-{n}": {"t": n}} for n in range(80))),
    "debezium": [
        *of(_debezium("c", None, _ROW), _debezium("u", _ROW, _ROW), _debezium("d", _ROW, None)),
        None,
        *of(_debezium("r", None, _ROW | {"id": 2})),
    ],
    "debezium-schema": of(*map(_with_schema, range(5))),
    "flattened": of(*(_ROW | {"id": n, "__op": "c", "__deleted": "false"} for n in range(5))),
    "dms": of(
        *(
            {
                "data": _ROW | {"id": n},
                "metadata": {
                    "timestamp": "2026-11-01T08:00:00Z",
                    "record-type": "data",
                    "operation": "insert",
                },
            }
            for n in range(5)
        )
    ),
    "maxwell": of(
        *(
            {
                "database": "d",
                "table": "t",
                "type": "insert",
                "ts": 1_790_000_000,
                "data": _ROW | {"id": n},
            }
            for n in range(5)
        )
    ),
    "canal": of(
        *(
            {
                "database": "d",
                "table": "t",
                "type": "INSERT",
                "isDdl": False,
                "es": 1_790_000_000_000,
                "ts": 1_790_000_000_001,
                "data": [_ROW | {"id": str(n)}],
            }
            for n in range(5)
        )
    ),
    "gzip": [
        gzip.compress(value) for value in of(*({"id": n, "at": "2026-11-01"} for n in range(5)))
    ],
    "text": [b"a line", "größer".encode(), b"", b"17"],
    "arrays": of([1, 2], [3], "x", 4),
    "bytes": [b"\x00\x01", b"\xff\xfe", b"\x80"],
    "mostly": [*of(*({"id": n} for n in range(50))), b"{cut off"],
    "compacted": [None, *of({"id": 1}), None],
    "nulls": of({"a": None, "b": [], "c": {}}, {"a": None}),
}
"""Values by the names of topics; what each is about is its name."""
