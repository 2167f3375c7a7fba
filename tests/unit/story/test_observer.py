import subprocess
import sys

import pytest
from tests.story.clock import ManualClock
from tests.story.observer import Crash, CrashPlan, RecordingObserver, parse_plan

from penstock.core.crash_points import CrashPoint
from penstock.core.events import PartitionStalled, TableCreated


def test_events_and_points_are_kept_in_order():
    observer = RecordingObserver()
    observer(TableCreated("a", 2))
    observer.passed(CrashPoint.CLAIM_BEFORE)
    observer(PartitionStalled("orders[0]", "no leader"))
    observer.passed(CrashPoint.CLAIM_AFTER)

    assert [TableCreated("a", 2)] == observer.of(TableCreated)
    assert 2 == len(observer.events)
    assert [CrashPoint.CLAIM_BEFORE, CrashPoint.CLAIM_AFTER] == observer.points


def test_a_plan_crashes_at_its_passing_and_observes_nothing_after():
    observer = RecordingObserver("commit.after:2")
    observer.passed(CrashPoint.COMMIT_AFTER)
    with pytest.raises(Crash):
        observer.passed(CrashPoint.COMMIT_AFTER)
    with pytest.raises(Crash):
        observer.passed(CrashPoint.SETTLE_BEFORE)
    observer(TableCreated("a", 2))

    assert (True, 2, []) == (
        observer.crashed,
        observer.passings(CrashPoint.COMMIT_AFTER),
        observer.events,
    )


def test_a_crash_is_caught_by_no_handler_of_errors():
    assert not issubclass(Crash, Exception)


@pytest.mark.parametrize("point", list(CrashPoint))
def test_plans_are_read_as_they_are_written(point):
    for plan in (CrashPlan(point), CrashPlan(point, 7), CrashPlan(point, 2, kill=True)):
        assert plan == parse_plan(str(plan))


def test_no_text_is_no_plan():
    assert parse_plan("") is None
    assert parse_plan("  ") is None


@pytest.mark.parametrize("text", ["nowhere", "claim.after:0", "claim.after:x", "stop claim.after"])
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_plan(text)


def test_a_plan_that_kills_kills_the_process():
    script = (
        "from tests.story.observer import RecordingObserver\n"
        "from penstock.core.crash_points import CrashPoint\n"
        "observer = RecordingObserver('kill heartbeat.before:2')\n"
        "for number in range(3):\n"
        "    print(number, flush=True)\n"
        "    observer.passed(CrashPoint.HEARTBEAT_BEFORE)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (-9, "0\n1\n") == (done.returncode, done.stdout)


def test_a_manual_clock_moves_when_advanced():
    clock = ManualClock(now_ms=1_000)
    clock.wait(1.5)
    clock.advance(0.5)

    assert (3_000, 2.0, [1.5]) == (clock.now_ms(), clock.monotonic(), clock.waits)
    clock.set_wall_clock(500)
    assert (500, 2.0) == (clock.now_ms(), clock.monotonic())
    with pytest.raises(AssertionError):
        clock.advance(-1)
