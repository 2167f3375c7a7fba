"""When a table is sick, and how far apart epochs are then."""

from __future__ import annotations

import pytest

from penstock.core.hold import HELD, Hold, held
from penstock.core.maintenance import TableHealth, worst_first

HOLD = Hold(excess_files=100, every_most_seconds=10.0)


def tables(**excess: int) -> dict[str, TableHealth]:
    return {name: TableHealth(files + 5, 5, 1, 1, 0, 1, 1) for name, files in excess.items()}


def test_a_table_is_sick_above_the_limit_until_it_is_below_half_of_it() -> None:
    found = tables(a=101, b=100, c=50, d=49)

    assert {"a"} == HOLD.sick(found, ())
    assert {"a", "b", "c"} == HOLD.sick(found, "abcd")


def test_a_table_with_as_many_files_of_late_rows_is_as_sick() -> None:
    found = {
        "a": TableHealth(101, 101, 1, 1, 0, 1, 1, late=101),
        "b": TableHealth(9, 9, 1, 1, 0, 1, 1),
    }

    assert {"a"} == HOLD.sick(found, ())
    assert ["a"] == [*worst_first(found)]


@pytest.mark.parametrize(
    ("present", "most_files", "expected"),
    [
        (1, 101, 2),
        (8, 101, 10),
        (10, 101, 10),
        (10, 100, 10),
        (10, 50, 10),
        (10, 49, 5),
        (1.5, 49, 1),
        (1, 0, 1),
    ],
)
def test_epochs_are_twice_as_far_apart_with_each_look_and_come_back_by_halves(
    present: float, most_files: int, expected: float
) -> None:
    assert expected == HOLD.interval(present, 1.0, most_files)


def test_epochs_never_become_narrower_than_the_spec_says() -> None:
    assert [60.0, 60.0] == [HOLD.interval(60.0, 60.0, files) for files in (1_000, 0)]


def test_the_error_of_a_parked_table_says_how_to_make_it_well() -> None:
    error = held("lake.a", 23_104, HOLD)

    assert (HELD, 75) == (error.code, error.exit_code)
    assert "23,104 files more than would do" in error.message
    assert error.hint.endswith("penstock maintain lake.a")
