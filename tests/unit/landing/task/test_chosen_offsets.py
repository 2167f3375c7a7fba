"""The records of a partition that land again: held by position, borne by jobs as texts."""

import numpy as np

from penstock.core.offsets import Offset, span
from penstock.core.planning import Lane
from penstock.landing.task.chosen_offsets import OffsetSet, are_chosen, next_chosen, packed_within
from penstock.testing.prepared import part

AT = part(0)


def chosen(*parts: list[int]) -> OffsetSet:
    found = OffsetSet()
    for each in parts:
        found.add(np.array(each, np.int64))
    return found


def test_offsets_are_kept_once_in_whatever_order_they_come() -> None:
    found = chosen([7, 5], [], [9, 5], [2])

    assert (4, span(2, 10)) == (len(found), found.covers())
    assert [5, 7, 9] == found.within(span(3, 20)).tolist()
    assert [] == found.within(span(20, 30)).tolist() == found.within(span(0, 2)).tolist()
    assert span(0, 0) == chosen([]).covers()
    assert [0, 1, 3, 4, 6] == found.others_in(span(0, 7)).within(span(0, 99)).tolist()
    assert [2, 5, None] == [found.next_from(at) for at in (0, 3, 10)]


def test_files_in_any_order_are_kept_whole() -> None:
    places = np.random.default_rng(7).permutation(400)
    found = chosen(*([int(at) * 3, int(at) * 3 + 1] for at in places))

    assert (800, span(0, 1199)) == (len(found), found.covers())
    assert [n for n in range(1200) if n % 3 < 2] == found.within(span(0, 5000)).tolist()


def test_a_position_goes_on_to_the_next_chosen_record_and_not_beyond_the_end() -> None:
    found, stop = {AT: chosen([5, 90])}, {AT: Offset(50)}

    assert {AT: 5} == next_chosen(found, {AT: Offset(0)}, stop)
    assert {AT: 50} == next_chosen(found, {AT: Offset(6)}, stop)
    assert {AT: 50} == next_chosen({}, {AT: Offset(6)}, stop)


def test_a_job_bears_those_that_its_lanes_cover() -> None:
    lanes = [Lane(AT, span(0, 6), ("t",)), Lane(AT, span(8, 9), ("t",))]
    texts = packed_within({AT: chosen([3, 5, 6, 7, 8, 9])}, lanes)

    offsets = np.arange(10)
    assert [3, 5, 8] == offsets[are_chosen(texts, AT, offsets)].tolist()
    assert not are_chosen(texts, part(1), offsets).any()
