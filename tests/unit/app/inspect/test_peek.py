"""`penstock peek` shows the records that one peeks for: those that nobody can read."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.story.clock import ManualClock

from penstock.app.inspect import peek
from penstock.app.inspect.peek import Peeked, decoded, records_of
from penstock.cli.peek import _lines
from penstock.core.errors import UnavailableError
from penstock.core.offsets import Offset
from penstock.core.planning import Bounds
from penstock.testing.prepared import part

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
def test_a_timestamp_of_any_number_is_reported(stamp_ms: int, shown: str) -> None:
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


class Slow:
    """Returns records of partition 0 while there is time, and none of others before it is up."""

    def __init__(self):
        self.clock = ManualClock()

    def read(self, at, covered, *, deadline, **_):
        if at.partition != 0:
            self.clock.advance(max(deadline - self.clock.monotonic(), 0))
        elif self.clock.monotonic() < deadline:
            values = [b"{}"] * covered.count
            batch = pa.RecordBatch.from_pydict({"value": values})
            yield SimpleNamespace(batch=batch, reached=covered.stop)


def newest(partitions, unanswered=str):
    slow = Slow()
    bounds = {part(n): Bounds(0, 3, 3) for n in partitions}
    view = SimpleNamespace(
        bounds=bounds, reader=slow, environment=SimpleNamespace(clock=slow.clock)
    )
    return peek._answered(peek._newest(view, [*bounds], 2, 10.0), unanswered)


def test_a_partition_that_gives_nothing_in_time_is_left_out_and_reported():
    reported = []

    assert {part(0): 2} == {
        at: batch.num_rows for at, batch in newest((1, 0, 2), reported.append).items()
    }
    assert [part(1), part(2)] == reported


def test_partitions_that_all_give_nothing_are_an_answer_to_wait_for():
    with pytest.raises(UnavailableError) as caught:
        newest((1, 2))

    assert "P250" == caught.value.code
