"""A heartbeat, and other background work of a run, ends when it is asked to, and only then."""

import threading

from tests.story.single_thread import BEATS_SHARE, OneThread

from penstock.ownership.claim import Heartbeat

SOON_SECONDS = 0.001
PATIENCE_SECONDS = 60.0


def test_an_act_is_done_over_and_over_until_it_gives_false():
    numbers, done = iter((1, 2, 3)), threading.Event()

    def act():
        if next(numbers) < 3:
            return True
        done.set()
        return False

    beats = Heartbeat(act, SOON_SECONDS)

    assert done.wait(PATIENCE_SECONDS)
    beats.end()
    assert [] == [*numbers]


def test_nothing_begins_after_the_end():
    begun = []

    def act():
        begun.append(True)
        return True

    beats = Heartbeat(act, SOON_SECONDS)
    beats.end()
    count = len(begun)

    assert not threading.Event().wait(20 * SOON_SECONDS)
    assert count == len(begun)


def test_in_one_thread_it_is_done_at_a_share_of_the_waits_until_it_ends():
    thread, times = OneThread(7), []
    hands = thread.hands(8)
    beats = thread.beats(lambda: not times.append(1), 3.0)
    for _ in range(1000):
        assert hands.before_wait(0.2) == 0.0
    counted = len(times)
    beats.end()
    hands.before_wait(0.2)

    assert 0.5 < counted / (1000 * BEATS_SHARE) < 1.5
    assert counted == len(times)
