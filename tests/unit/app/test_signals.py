"""How a run is asked to stop."""

import os
import signal
import threading

from penstock.cli import run
from penstock.cli.run import Voice, signals


def test_a_signal_stops_a_run_though_nobody_reads_what_is_said_of_it(monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(run, "STDERR", writing)
    stop = threading.Event()

    with signals(stop, Voice()):
        signal.raise_signal(signal.SIGTERM)

    os.close(writing)
    assert stop.is_set()


class Display:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_what_a_signal_does_is_said_within_the_display_that_is_up(monkeypatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    monkeypatch.setattr(run, "STDERR", writing)
    stop, voice, display = threading.Event(), Voice(), Display()
    voice.display = display

    with signals(stop, voice):
        signal.raise_signal(signal.SIGINT)
    voice.say_last("leaving")
    said = os.read(reading, 1000)
    os.close(reading)
    os.close(writing)

    assert stop.is_set()
    (note,) = display.notes
    assert note.startswith("Stopping after the current epoch")
    assert b"\r\n\x1b[?25hleaving\n" == said
