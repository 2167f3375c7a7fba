"""`penstock peek` shows the records that one peeks for: those that nobody can read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.app.peek import Peeked, decoded, records_of
from penstock.cli.peek import _lines
from penstock.core.offsets import Offset

LAST_MS, BEYOND_MS = 253_402_300_799_999, 253_402_300_800_000


@pytest.mark.parametrize("value", [None, b"", b"{", b"\xff", b'{"a":"\xff"}', b"[" * 5000])
def test_bytes_that_are_no_json_are_shown_as_bytes_alone(value: bytes | None) -> None:
    assert None is decoded(value)


def test_bytes_that_are_json_are_shown_decoded() -> None:
    assert {"a": [1, "\u00e9"]} == decoded('{"a":[1,"\u00e9"]}'.encode())


@pytest.mark.parametrize(
    ("stamp_ms", "shown"),
    [
        (0, "1970-01-01 00:00:00 UTC"),
        (-1, "1969-12-31 23:59:59 UTC"),
        (LAST_MS, "9999-12-31 23:59:59 UTC"),
        (BEYOND_MS, f"{BEYOND_MS} ms since 1970"),
        (-(2**63), f"{-(2**63)} ms since 1970"),
        (2**63 - 1, f"{2**63 - 1} ms since 1970"),
    ],
)
def test_a_timestamp_of_any_number_is_told(stamp_ms: int, shown: str) -> None:
    batch = pa.record_batch(
        {
            "offset": pa.array([7]),
            "timestamp": pa.array([stamp_ms], pa.timestamp("ms", "UTC")),
            "value": pa.array([b"{}"]),
        }
    )

    (record,) = records_of(batch)

    assert {"offset": 7, "timestamp": stamp_ms, "value": b"{}"} == record
    head, *_ = _lines(Peeked("orders", 0, Offset(7), record["timestamp"], None, b"{}"))
    assert f"orders:0:7  {shown}" == head.plain


def test_a_record_without_a_timestamp_has_none() -> None:
    stamps = pa.array([None, 5], pa.timestamp("ms", "UTC"))
    batch = pa.record_batch({"timestamp": stamps})

    assert [None, 5] == [record["timestamp"] for record in records_of(batch)]
