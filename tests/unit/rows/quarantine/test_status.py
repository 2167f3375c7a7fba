"""What became of refused records, put together from refusals and closings."""

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.resolutions import Resolution
from penstock.rows.quarantine.status import READ, Resolved, resolution_rows, status_of

AT = TopicPartition("topic-1", 0, "orders")
COLUMNS = ["offset", "status", "closing", "into"]


def closing(offset, status, number, message=""):
    closed = [Resolved(AT, offset, status, "P000", message)]
    return resolution_rows(closed, pipeline="shop", table="t", first=number, at_ms=5).select(READ)


def refusal(offset):
    rows = pa.Table.from_batches([closing(offset, Resolution.DROPPED, 0)])
    for name, value in {"stage": "decode", "status": "open"}.items():
        at = rows.schema.names.index(name)
        rows = rows.set_column(at, rows.schema.field(name), pa.array([value]))
    return rows.to_batches()[0]


def test_without_resolutions_every_record_is_open_in_the_order_of_its_place():
    assert [
        {"offset": 1, "status": "open", "closing": -1, "into": None},
        {"offset": 3, "status": "open", "closing": -1, "into": None},
    ] == status_of([refusal(3), refusal(1)]).select(COLUMNS).to_pylist()


def test_of_several_resolutions_the_last_counts_and_says_where_a_record_went():
    closings = [closing(3, Resolution.RETRIED, 8, "lake.t"), closing(3, Resolution.DROPPED, 7)]

    assert [
        {"offset": 1, "status": "open", "closing": -1, "into": None},
        {"offset": 3, "status": "retried", "closing": 8, "into": "lake.t"},
    ] == status_of([refusal(3), refusal(1), *closings]).select(COLUMNS).to_pylist()


@pytest.mark.parametrize("refused", [0, 2])
def test_the_columns_are_the_same_with_resolutions_and_without(refused):
    refusals = [refusal(offset) for offset in range(refused)]
    closings = [closing(0, Resolution.DROPPED, 1)]

    assert status_of([*refusals, *closings]).schema == status_of(refusals).schema
