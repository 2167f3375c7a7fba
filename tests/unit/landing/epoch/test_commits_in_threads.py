"""The coordinator's wait for outcomes has an end, whatever signal comes in between."""

import os
import signal
import threading
import time

from penstock.app.assembly.process import SystemClock
from penstock.commit.attempt import CommitContext
from penstock.commit.two_phase import TwoPhase
from penstock.connectors.memory.store import MemoryStore
from penstock.landing.epoch.commit_queue import CommitQueue
from penstock.landing.settings import ThreadPoolCommits
from penstock.observe.fanout import Observers
from penstock.testing.prepared import claim

WAIT_SECONDS = 0.5


def test_a_wait_ends_though_a_signal_is_handled_beyond_its_end():
    """As when SIGTERM comes just before: SimpleQueue waited for ever then (docs/design/0230)."""
    conditions = CommitContext(claim(1), Observers(), SystemClock(), lambda: 0.0, retain=1)
    line = CommitQueue(TwoPhase("shop", MemoryStore(), conditions), ThreadPoolCommits(1))
    handled = []

    def handle(*_):
        time.sleep(began + WAIT_SECONDS + 0.1 - time.monotonic())
        handled.append(time.monotonic())

    former = signal.signal(signal.SIGUSR1, handle)
    striking = threading.Timer(WAIT_SECONDS / 5, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        began = time.monotonic()
        striking.start()
        taken = line.take(WAIT_SECONDS)
        ended = time.monotonic()
    finally:
        striking.join()
        signal.signal(signal.SIGUSR1, former)
        line.close()

    assert ([], 1) == (taken, len(handled))
    assert began + WAIT_SECONDS < handled[0] <= ended < handled[0] + WAIT_SECONDS
