"""A file is left out of a look-up only where its bounds prove that no touched key is in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.rows.keyed.file_bounds import KeyBounds

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((1, 2), False),
        ((1, 3), True),
        ((4, 6), False),
        ((4, 9), True),
        ((7, 8), True),
        ((7, 7), True),
        ((10, 20), False),
        ((-(2**40), 2**40), True),
    ],
)
def test_a_key_between_the_bounds_is_enough(bounds: tuple[int, int], expected: bool) -> None:
    assert expected == KeyBounds(["n"], [pa.array([7, 3, 9], pa.int32())]).may_be_in({"n": bounds})


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, True),
        ({"other": (0, 0)}, True),
        ({"a": (1, 1)}, True),
        ({"a": (1, 1), "b": ("x", "x")}, True),
        ({"a": (1, 1), "b": ("a", "w")}, False),
        ({"a": (2, 9), "b": ("x", "x")}, False),
    ],
)
def test_each_column_with_bounds_has_a_value_between_them(
    bounds: dict[str, tuple[Any, Any]], expected: bool
) -> None:
    keys = KeyBounds(["a", "b"], [pa.array([1, 1]), pa.array(["x", "y"])])
    assert expected == keys.may_be_in(bounds)


def test_an_upper_bound_that_was_cut_is_larger_than_what_it_was_cut_from() -> None:
    keys = KeyBounds(["s"], [pa.array(["abc" * 20])])
    assert keys.may_be_in({"s": ("abc" * 5, "abc" * 5 + "b")})
    assert not keys.may_be_in({"s": ("abc" * 5 + "b", "abd")})


def test_what_cannot_be_compared_leaves_no_file_out() -> None:
    late = KeyBounds(["t"], [pa.array([2**62], pa.timestamp("us", "UTC"))])
    assert late.may_be_in({"t": (MOMENT, MOMENT + timedelta(1))})
    local = KeyBounds(["t"], [pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us"))])
    assert local.may_be_in({"t": (MOMENT, MOMENT)})


def test_without_a_key_no_file_is_read() -> None:
    assert not KeyBounds(["n"], [pa.array([], pa.int64())]).may_be_in({})
