"""How many commits at once: the step that pays is kept."""

import pytest

from penstock.core.commit_pace import CPU_SHARE_MAX, HELD_MAX, LEAST, MOST, Pace

IDLE, BUSY = 0.1, CPU_SHARE_MAX


def reached(per_second_of, cpu_share_of, windows: int = 40) -> list[int]:
    """Give the numbers at once that a run comes to, window after window."""
    pace, numbers = Pace(), [LEAST]
    for _ in range(windows):
        pace = pace.after(per_second_of(pace.at_once), cpu_share_of(pace.at_once))
        numbers.append(pace.at_once)
    return numbers


def test_late_answers_and_an_idle_processor_lead_to_the_most():
    numbers = reached(lambda at_once: 4.0 * at_once, lambda _: IDLE)

    assert [LEAST, 12, 18, 27, 40, 60, MOST] == list(dict.fromkeys(numbers))


def test_a_full_processor_keeps_the_least():
    assert {LEAST} == set(reached(lambda at_once: 4.0 * at_once, lambda _: BUSY))


def test_a_step_that_does_not_pay_is_taken_back_and_tried_again_after_a_while():
    numbers = reached(lambda at_once: 4.0 * min(at_once, 18), lambda _: IDLE)

    assert [8, 12, 18, 27, 18, 18] == numbers[:6]
    assert [*[18] * HELD_MAX, 27, 18] == numbers[5 : 5 + HELD_MAX + 2]
    assert 4 > numbers.count(27)


def test_a_processor_that_fills_up_on_the_way_ends_it():
    numbers = reached(lambda at_once: 4.0 * at_once, lambda at_once: 0.03 * at_once)

    assert 27 == numbers[-1] == max(numbers)


def test_after_a_pause_it_is_tried_again_from_where_it_was():
    pace = Pace(at_once=18, most=18).resumed()

    assert (18, 27) == (pace.at_once, pace.after(100.0, IDLE).at_once)


@pytest.mark.parametrize("per_second", [0.0, 1e9])
def test_it_stays_within_its_bounds(per_second):
    assert {*reached(lambda _: per_second, lambda _: IDLE)} <= {*range(LEAST, MOST + 1)}
