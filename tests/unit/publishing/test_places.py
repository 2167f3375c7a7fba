"""Where publications stand is said in words; a seek and `--json` have it as it is kept."""

from __future__ import annotations

import pytest

from penstock.core.positions import partition_of, position_of
from penstock.publishing.places import part_words, place_words

OF_TABLE = {"uuid": "u", "snapshot": 7, "sequence": 1, "records": 1500, "digest": 1}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"partition": 0, "topic": "orders", "topic_id": "x"}, "orders[0]"),
        ({"table": "lake.gold.orders"}, "lake.gold.orders"),
        ({"file": "2026/a.csv"}, "2026/a.csv"),
        ({"chain": "c", "table": "t"}, "chain c, table t"),
        ({}, ""),
    ],
)
def test_a_part_of_a_source_is_named(part, words):
    assert words == part_words(partition_of(part, "it"))


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ({"offset": 10000}, "10,000"),
        ({"offset": 666, "leader_epoch": 3}, "666"),
        ({"offset": 5, "page": 2}, "offset 5, page 2"),
        (OF_TABLE, "behind snapshot 7 (1,500 rows)"),
        ({"done": True, "size": 5000, "modified": 1795824000000000000}, "its end"),
        ({"bytes": 4096, "size": 5000, "modified": 1795824000000000000}, "byte 4,096"),
        ({"bytes": 4096, "digest": "0a"}, "byte 4,096"),
        ({"rows": 4096, "size": 5000, "modified": 1795824000000000000}, "row 4,096"),
        ({"(kinds)": "int,text", "id": 5000, "at": "2026-01-01"}, "at 2026-01-01, id 5,000"),
        ({"ended": True, "next": None}, "ended true, next null"),
        ({}, "the beginning"),
    ],
)
def test_a_place_is_said_in_words(position, words):
    assert words == place_words(position_of(position, "it"))
