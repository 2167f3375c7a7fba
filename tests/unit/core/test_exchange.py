"""Which rows of an exchange go to which task."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.exchange import (
    PARTS,
    SHARE_BYTES,
    Block,
    ExchangeFile,
    Share,
    dealt,
    ranges_of,
)
from penstock.core.offsets import TopicPartition, span

MIB = 1 << 20
LAYOUTS = st.lists(  # of each file, parts and sizes of its blocks
    st.lists(st.tuples(st.integers(0, PARTS - 1), st.integers(1, MIB)), max_size=20), max_size=6
)


def files_of(layout: list[list[tuple[int, int]]]) -> list[ExchangeFile]:
    files = []
    for number, blocks in enumerate(layout):
        start, made = 0, []
        for part, size_bytes in blocks:
            made.append(Block(part, start, size_bytes, size_bytes // 100, 0))
            start += size_bytes
        files.append(ExchangeFile(f"{number}.exchange", tuple(made)))
    return files


def places_of(share: Share) -> list[tuple[str, Block]]:
    return [(file.path, block) for file in share for block in file.blocks]


def weight_of(share: Share) -> int:
    return sum(file.size_bytes for file in share)


@given(LAYOUTS, st.integers(1, 9))
def test_each_block_is_in_one_share_and_no_share_is_over_twice_the_mean(layout, tasks):
    files = files_of(layout)
    shares = dealt(files, tasks)
    places = [place for share in shares for place in places_of(share)]

    assert Counter(places_of(tuple(files))) == Counter(places)
    assert len(shares) <= tasks
    total = sum(map(weight_of, shares))
    mean = total / max(1, min(tasks, -(-total // SHARE_BYTES)))
    assert all(weight_of(share) < 2 * mean for share in shares)


@given(LAYOUTS, st.integers(1, 9))
def test_a_part_is_of_one_share_unless_it_is_heavy(layout, tasks):
    files = files_of(layout)
    shares = dealt(files, tasks)
    total = sum(map(weight_of, shares))
    mean = total / max(1, min(tasks, -(-total // SHARE_BYTES)))
    weights: Counter[int] = Counter()
    homes: defaultdict[int, set[int]] = defaultdict(set)
    for number, share in enumerate(shares):
        for _, block in places_of(share):
            weights[block.part] += block.size_bytes
            homes[block.part].add(number)

    assert all(len(homes[part]) == 1 for part, weight in weights.items() if weight <= mean)


def test_x3_a_value_with_nine_rows_of_ten_goes_to_all_tasks_and_none_has_twice_the_mean():
    heavy = [[(7, MIB)] * 9 + [(part, MIB // 8) for part in range(8, 16)] for _ in range(4)]
    shares = dealt(files_of(heavy), 4)

    mean = sum(map(weight_of, shares)) / 4
    assert [4, 4] == [len(shares), sum(any(b.part == 7 for _, b in places_of(s)) for s in shares)]
    assert all(weight_of(share) < 1.5 * mean for share in shares)


def test_little_is_dealt_to_one_task_and_nothing_to_none():
    assert 1 == len(dealt(files_of([[(1, 100)], [(2, 100)]]), 8))
    assert [] == dealt([], 8)
    assert [] == dealt(files_of([[], []]), 8)


def test_blocks_of_a_share_are_in_the_order_of_files_and_of_their_places_there():
    (share,) = dealt(files_of([[(9, 10), (1, 10)], [(1, 10)]]), 1)

    assert [("0.exchange", 0), ("0.exchange", 10), ("1.exchange", 0)] == [
        (path, block.start) for path, block in places_of(share)
    ]


def test_a_share_may_be_of_the_ranges_of_all_its_files():
    zero, one = TopicPartition("t", 0, "orders"), TopicPartition("t", 1, "orders")
    files = (
        ExchangeFile("a", (Block(0, 0, 1, 3, 0),), {zero: span(0, 5)}),
        ExchangeFile("b", (Block(0, 0, 1, 4, 0),), {zero: span(5, 9), one: span(2, 3)}),
    )

    assert {zero: span(0, 9), one: span(2, 3)} == ranges_of(files)
