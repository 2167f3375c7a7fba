"""Positions of rows are joined as a set of numbers is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.files.positions import NONE, joined, without

PARTS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)), max_size=4)


@given(PARTS)
def test_positions_are_ascending_and_each_once(parts: list[list[int]]) -> None:
    found = joined([np.array(each, np.int64) for each in parts])

    assert sorted({number for each in parts for number in each}) == found.tolist()
    assert np.int64 == found.dtype


@pytest.mark.parametrize("parts", [[], [NONE], [NONE, NONE]])
def test_nothing_is_joined_to_nothing(parts: list[np.ndarray]) -> None:
    assert [] == joined(parts).tolist()


@given(PARTS, st.lists(st.integers(0, 9)))
def test_positions_that_are_among_others_are_left_out(
    parts: list[list[int]], gone: list[int]
) -> None:
    all_of_them = joined([np.array(each, np.int64) for each in parts])
    others = joined([np.array(gone, np.int64)])

    assert [each for each in all_of_them.tolist() if each not in gone] == without(
        all_of_them, others
    ).tolist()
