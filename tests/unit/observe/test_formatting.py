import pytest
from rich.cells import cell_len

from penstock.observe.formatting import (
    age_text,
    count_text,
    name_text,
    number_of,
    one_line,
    padded,
    rate_text,
    seconds_text,
    size_text,
)


@pytest.mark.parametrize(
    ("expected", "age_ms"),
    [
        ("-", None),
        ("0s", -5),
        ("0s", 999),
        ("59s", 59_999),
        ("1m 00s", 60_000),
        ("59m 59s", 3_599_999),
        ("1h 00m", 3_600_000),
        ("23h 59m", 86_399_999),
        ("2d 3h", (51 * 3600 + 59) * 1000),
    ],
)
def test_ages(expected: str, age_ms: int | None) -> None:
    assert expected == age_text(age_ms)


@pytest.mark.parametrize(
    ("expected", "size_bytes"),
    [("0 B", 0), ("999 B", 999), ("1.0 kB", 1_000), ("1.2 MB", 1_299_999), ("3.0 GB", 3 * 10**9)],
)
def test_sizes_are_cut_off(expected: str, size_bytes: int) -> None:
    assert expected == size_text(size_bytes)


@pytest.mark.parametrize(
    ("expected", "seconds"), [("24 ms", 0.0249), ("1.5 s", 1.5), ("2m 05s", 125.2)]
)
def test_durations(expected: str, seconds: float) -> None:
    assert expected == seconds_text(seconds)


def test_counts_and_rates() -> None:
    assert ["336,776", "-", "0"] == [count_text(336_776), count_text(None), count_text(0)]
    assert ["-", "0.3", "4,812"] == [rate_text(0), rate_text(0.31), rate_text(4_812.9)]
    assert ["1 row", "0 rows"] == [number_of(1, "row"), number_of(0, "row")]


def test_foreign_text_stays_on_its_line() -> None:
    assert "a b  [31mred" == one_line("a\nb\r\x1b[31mred")


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("lake.orders", 11, "lake.orders"),
        ("lake.orders", 7, "lak…ers"),
        ("lake.orders", 1, "…"),
        ("東京の売上", 10, "東京の売上"),
        ("東京の売上", 7, "東京…上"),
        ("a\x1b[2J\u202eb", 80, "a\\x1b[2J\\u202eb"),
    ],
)
def test_a_name_is_shown_in_so_many_cells_and_steers_nothing(
    name: str, cells: int, expected: str
) -> None:
    shown = name_text(name, cells)

    assert expected == shown
    assert cells >= cell_len(shown)


def test_a_count_that_is_not_known_is_no_zero() -> None:
    assert ("? records", "0 records") == (number_of(None, "record"), number_of(0, "record"))


def test_wide_signs_fill_two_cells() -> None:
    assert ("東京  ", "abcdefg") == (padded("東京", 6), padded("abcdefg", 6))
