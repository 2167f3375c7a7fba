"""The process that maintains tables beside a run: how it ends, and what is said of it."""

from __future__ import annotations

import sys
import threading

import pytest

from penstock.app.maintenance_process import MaintenanceProcess
from penstock.core.events import Event
from penstock.core.maintenance_events import MaintenanceFailed


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def passed(self, point: object) -> None:
        raise AssertionError(point)


def process(program: str, heard: Heard) -> MaintenanceProcess:
    return MaintenanceProcess([sys.executable, "-c", program], heard)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import sys; sys.exit('no memory')", "no memory"),
        ('print(\'{"error": {"code": "P430", "message": "gone"}}\')', "P430  gone"),
    ],
)
def test_an_end_without_an_answer_is_reported(program: str, reason: str) -> None:
    heard = Heard()
    process(program, heard).run()
    assert [MaintenanceFailed("", reason)] == heard.events


def test_what_cannot_be_started_is_reported() -> None:
    heard = Heard()
    MaintenanceProcess(["/not/there"], heard).run()
    [failed] = heard.events
    assert isinstance(failed, MaintenanceFailed)
    assert "no process could be started" in failed.reason


def test_it_ends_with_the_run_and_nothing_is_said_or_started_then() -> None:
    heard = Heard()
    found = process("import time; time.sleep(600)", heard)
    running = threading.Thread(target=found.run)
    running.start()
    while found._running is None:
        assert running.is_alive()
    found.close()
    running.join()
    found.run()
    assert [] == heard.events
