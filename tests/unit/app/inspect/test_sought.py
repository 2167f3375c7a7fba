"""What comes of a seek in a topic, counted against what was published."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.app.inspect.sought import Consequence, consequence
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipts import Move, Receipt

OF = SourcePartition('{"partition":0,"topic":"orders","topic_id":"x"}')


def at(offset: int) -> Position:
    return Position(f'{{"offset":{offset}}}')


def receipts(moves: Sequence[tuple[int, int]], begin: int = 1) -> list[Receipt]:
    return [
        Receipt("u", epoch, 0, 7, epoch, stop - start, moves={OF: Move(at(start), at(stop))})
        for epoch, (start, stop) in enumerate(moves, begin)
    ]


@pytest.mark.parametrize(
    ("published", "start", "to", "expected"),
    [
        ([(0, 100)], 100, 60, Consequence(again=40)),
        ([(0, 155)], 1045, 600, Consequence(first=445)),
        ([(0, 50), (70, 90)], 90, 40, Consequence(again=30, first=20)),
        ([(0, 50), (20, 60)], 60, 10, Consequence(again=50)),
        ([(0, 50)], 50, 80, Consequence(left_out=30)),
        ([(0, 50)], 10, 80, Consequence(left_out=30)),
        ([(0, 50)], 10, 40, Consequence()),
        ([], 50, 50, Consequence()),
    ],
)
def test_records_are_counted_against_what_was_published(published, start, to, expected):
    assert expected == consequence(receipts(published), OF, at(start), at(to))


def test_what_was_read_before_the_first_receipt_counts_as_published():
    kept = receipts([(500, 600)], begin=1200)
    assert Consequence(again=300) == consequence(kept, OF, at(600), at(300))
