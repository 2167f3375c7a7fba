"""What stands in the property beside a ledger, as it was and as it is written."""

import pytest

from penstock.connectors.iceberg.ledgers import Newest, newest_in, newest_key, widest
from penstock.testing.prepared import part, progress


def newest(text):
    return newest_in({newest_key("shop"): text}, "shop", "main")


def test_what_is_written_is_read():
    told = Newest("c1", 7, 3, 2, 6, progress({0: (2, 5), 1: (0, 1)}))

    assert told == newest(told.to_json())


def test_a_property_of_before_ranges_were_told_is_read_without():
    assert Newest("c1", 7, 3, 2, 6) == newest('[1,"c1","7",3,2,"6"]')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[3]",
        '[9,"c1","7",3,2,"6",[]]',
        '[2,"c1","7",3,2,"6"]',
        '[2,"c1","7",3,2,"6",[["id",0,"orders",5,2]]]',
        '[2,"c1","7",3,2,"6",7]',
    ],
)
def test_a_damaged_or_newer_property_tells_nothing(text):
    assert newest(text) is None


def test_the_widest_ranges_are_told_and_few_of_them():
    ranges = progress({number: (0, 10 - number) for number in range(9)} | {9: (0, 100)})

    assert [part(number) for number in (9, 0, 1, 2)] == list(widest(ranges))
