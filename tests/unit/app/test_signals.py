"""How a run is asked to stop."""

import os
import signal
import threading

from penstock.cli import run
from penstock.cli.run import signals


def test_a_signal_stops_a_run_though_nobody_reads_what_is_said_of_it(monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(run, "STDERR", writing)
    stop = threading.Event()

    with signals(stop):
        signal.raise_signal(signal.SIGTERM)

    os.close(writing)
    assert stop.is_set()
