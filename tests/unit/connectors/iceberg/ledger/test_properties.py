"""The property next to a ledger, as it was and as it is written."""

import pytest

from penstock.connectors.iceberg.ledger.properties import (
    NEWEST_RANGES_MAX,
    LedgerMark,
    bounded_ranges,
    mark_in,
    newest_key,
)
from penstock.testing.prepared import progress


def newest(text):
    return mark_in({newest_key("shop"): text}, "shop", "main")


def test_what_is_written_is_read():
    mark = LedgerMark("c1", 7, 3, 2, 6, 4, progress({0: (2, 5), 1: (0, 1)}))

    assert mark == newest(mark.to_json())


def test_an_older_property_without_rows_is_read():
    assert LedgerMark("c1", 7, 3, 2, 6) == newest('[1,"c1","7",3,2,"6"]')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[3]",
        '[9,"c1","7",3,2,"6",4,[]]',
        '[2,"c1","7",3,2,"6"]',
        '[2,"c1","7",3,2,"6",4,[["id",0,"orders",5,2]]]',
        '[2,"c1","7",3,2,"6",4,7]',
    ],
)
def test_a_damaged_or_newer_property_is_ignored(text):
    assert newest(text) is None


def test_ranges_are_recorded_unless_they_are_many():
    few_ranges = progress(dict.fromkeys(range(NEWEST_RANGES_MAX), (0, 10)))

    assert few_ranges == bounded_ranges(few_ranges)
    assert {} == bounded_ranges(few_ranges | progress({NEWEST_RANGES_MAX: (0, 1)}))
