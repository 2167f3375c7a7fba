"""Lent credentials are renewed in time, whatever becomes of one of the machine's two clocks."""

from tests.story.clock import START_MS, ManualClock

from penstock.connectors.iceberg.io.credentials import expiry


def test_a_wait_has_passed_at_its_end_and_not_before():
    clock = ManualClock()
    is_due = expiry(60_000, clock.now_ms, clock.monotonic)

    clock.advance(59)
    assert not is_due()
    clock.advance(1)
    assert is_due()


def test_a_wall_clock_that_is_set_back_puts_nothing_off():
    clock = ManualClock()
    is_due = expiry(60_000, clock.now_ms, clock.monotonic)

    clock.set_wall_clock(START_MS - 7_200_000)
    assert not is_due()
    clock.advance(60)
    assert is_due()


def test_a_machine_that_slept_asks_when_it_wakes():
    clock = ManualClock()
    is_due = expiry(60_000, clock.now_ms, clock.monotonic)

    clock.set_wall_clock(START_MS + 60_000)
    assert 0 == clock.monotonic()
    assert is_due()
