"""A promise is judged by valid-through and the time; quiet tables keep it."""

from __future__ import annotations

import pytest

from penstock.core.freshness import Freshness, exit_code_of, judged

MINUTE = 60_000


@pytest.mark.parametrize(
    ("age_minutes", "lag", "state"),
    [
        (5, 7, Freshness.FRESH),
        (6, 7, Freshness.LATE),
        (10, 7, Freshness.LATE),
        (11, 7, Freshness.BROKEN),
        (11, None, Freshness.BROKEN),
        (9000, 0, Freshness.FRESH),
        (-3, 7, Freshness.FRESH),
        (None, 0, Freshness.FRESH),
        (None, 7, Freshness.BROKEN),
    ],
)
def test_a_promise_of_five_minutes(age_minutes, lag, state) -> None:
    """Also of a quiet topic, of a producer whose clock is ahead, and where nothing landed (CO-E1)."""
    now_ms = 1_000_000 * MINUTE
    through_ms = None if age_minutes is None else now_ms - age_minutes * MINUTE
    assert judged(5 * MINUTE, through_ms, lag, now_ms).state is state


def test_the_exit_code_is_that_of_the_worst() -> None:
    kept, late, broken = (judged(10, 100 - age, 1, 100) for age in (5, 15, 25))
    assert [0, 0, 10, 11] == [
        exit_code_of(each) for each in ([], [kept], [late, kept], [late, broken])
    ]
