"""Plans of a few lanes, with cuts and slices worked out by hand."""

import pytest

from penstock.core.offsets import span
from penstock.core.planning import Bounds, Budget, Lane, cut, lanes_of, pack, waiting_beyond
from penstock.testing.prepared import part, positions


def lane(partition, records):
    return Lane(part(partition), span(0, records), ("lake.orders",))


def budget(capacity, slice_bytes, **given):
    sizes = {part(number): size for number, size in given.pop("sizes", {}).items()}
    return Budget(
        records_max=10**9,
        bytes_max=given.pop("bytes_max", 10**9),
        slice_bytes=slice_bytes,
        capacity=capacity,
        slice_bytes_min=1,
        record_bytes=sizes,
        record_bytes_unknown=1.0,
    )


def slices(lanes, bound):
    return [
        [(each.at.partition, each.covered.start, each.covered.stop) for each in part_.lanes]
        for part_ in pack(lanes, bound)
    ]


def test_lanes_are_in_the_order_of_partitions():
    lanes = lanes_of({"t": positions({2: 0, 0: 0, 1: 0})}, positions({0: 1, 1: 1, 2: 1}))

    assert [0, 1, 2] == [each.at.partition for each in lanes]


def test_bytes_bound_an_epoch_as_records_do():
    (found,) = cut([lane(0, 500)], budget(1, 10**9, bytes_max=1000, sizes={0: 10.0}))

    assert span(0, 100) == found.covered


@pytest.mark.parametrize(
    ("records", "slice_bytes", "expected"),
    [
        (1000, 10**9, [[(0, 0, 1000)]]),
        (150, 100, [[(0, 0, 150)]]),  # one and a half tasks are one
        (200, 100, [[(0, 0, 100)], [(0, 100, 200)]]),
    ],
)
def test_one_task_takes_a_lane_whole_up_to_one_and_a_half_slices(records, slice_bytes, expected):
    assert expected == slices([lane(0, records)], budget(1, slice_bytes))


def test_lanes_worth_one_task_share_a_slice_in_the_order_of_partitions():
    lanes = [lane(number, records) for number, records in enumerate((1, 5, 3))]

    assert [[(0, 0, 1), (1, 0, 5), (2, 0, 3)]] == slices(lanes, budget(1, 10**9))


def test_the_largest_lane_in_bytes_has_a_slice_to_itself():
    lanes = [lane(0, 100), lane(1, 2), lane(2, 1)]
    bound = budget(2, 10**9, sizes={0: 1.0, 1: 60.0, 2: 20.0})

    assert [[(1, 0, 2)], [(0, 0, 100), (2, 0, 1)]] == slices(lanes, bound)


def test_what_waits_is_not_known_while_a_partition_has_no_leader():
    wanted, read = [part(0), part(1)], positions({0: 4})
    bounds = {at: Bounds(start=2, stop=5, high=5) for at in wanted}

    assert 1 + 3 == waiting_beyond(read, wanted, bounds)
    assert 0 == waiting_beyond(positions({0: 5}), wanted[:1], bounds)
    assert 0 == waiting_beyond({}, [], {})
    assert waiting_beyond(positions({0: 5}), wanted, {part(0): bounds[part(0)]}) is None
