"""The process that maintains tables beside a run: how it ends, and what is said of it."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict

import pytest
from tests.story.clock import ManualClock

from penstock.app.maintenance_process import (
    LOOK_SECONDS,
    LOOK_SECONDS_HELD,
    Looks,
    MaintenanceProcess,
    _done,
)
from penstock.core.events import Event
from penstock.core.leadership_events import LeadershipGained, StandbyChanged
from penstock.core.maintenance import LastMaintenance, TableHealth
from penstock.core.maintenance_events import (
    EpochsWidened,
    LayoutMeasured,
    MaintenanceFailed,
    TableMaintained,
)
from penstock.observe.status import StatusBoard

HEALTH = TableHealth(9, 2, 3, 4, 5, 6, 7, 8, 9, LastMaintenance(10, "spark"))
LOOKED = {"table": "lake.b", "health": asdict(HEALTH)}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def passed(self, point: object) -> None:
        raise AssertionError(point)


def run(program: str, heard: Heard) -> None:
    MaintenanceProcess(heard).run(command(program), _done)


def command(program: str) -> list[str]:
    return [sys.executable, "-c", program]


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
    run(program, heard)
    assert [MaintenanceFailed("", reason)] == heard.events


def test_what_cannot_be_started_is_reported() -> None:
    heard = Heard()
    MaintenanceProcess(heard).run(["/not/there"], _done)
    [failed] = heard.events
    assert isinstance(failed, MaintenanceFailed)
    assert "no process could be started" in failed.reason


def test_it_ends_with_the_run_and_nothing_is_said_or_started_then() -> None:
    heard = Heard()
    found, forever = MaintenanceProcess(heard), command("import time; time.sleep(600)")
    running = threading.Thread(target=lambda: found.run(forever, _done))
    running.start()
    while found._running is None:
        assert running.is_alive()
    found.close()
    running.join()
    found.run(forever, _done)
    assert [] == heard.events


UNTIL_TOLD = """
import json, os, pathlib
score = pathlib.Path("/proc/self/oom_score_adj")
while os.nice(0) != 19 or score.read_text() != "1000\\n":
    pass
print(json.dumps({"error": {"code": "P1", "message": "ready"}}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is another one")
def test_it_has_the_lowest_priority_and_is_the_first_to_end_where_memory_is_short() -> None:
    heard = Heard()
    run(UNTIL_TOLD, heard)
    assert [MaintenanceFailed("", "P1  ready")] == heard.events


def test_tables_are_looked_at_once_an_hour_and_more_often_while_one_is_held(
    clock: ManualClock,
) -> None:
    heard, board = Heard(), StatusBoard("shop", clock)
    said = json.dumps({"tables": [{"table": "lake.a", "health": None}, LOOKED]})
    process = MaintenanceProcess(heard)
    looks = Looks(process, command(f"print({said!r})"), clock, board)

    counts = []
    for seconds in (0, LOOK_SECONDS - 1, 1, LOOK_SECONDS_HELD - 1, 1):
        clock.advance(seconds)
        looks.look_if_due()
        counts.append(len(heard.events))
        if len(counts) == 3:
            board(EpochsWidened("lake.b", 20_001, 2.0, 1.0))

    assert [1, 1, 2, 2, 3] == counts
    [measured, *_] = heard.events
    assert isinstance(measured, LayoutMeasured)
    assert (HEALTH, "lake.b") == (measured.health, measured.table)


def test_a_stand_by_does_not_look_and_looks_at_once_when_its_turn_begins(
    clock: ManualClock,
) -> None:
    heard, board = Heard(), StatusBoard("shop", clock)
    looks = Looks(MaintenanceProcess(heard), ["/not/there"], clock, board)
    looks.look_if_due()
    assert 1 == len(heard.events)

    board(StandbyChanged("shop", "there 7", ""))
    looks.look_if_due()
    assert 1 == len(heard.events)

    board(LeadershipGained("shop", "there is none"))
    looks.look_if_due()
    assert 2 == len(heard.events)


def test_what_maintenance_did_and_yielded_is_reported() -> None:
    heard = Heard()
    done = {"files_before": 9, "files_after": 1, "written_bytes": 77, "given_up": 2}
    swept = {"deleted": 3, "noted": 4}
    table = {"table": "lake.a", "errors": [], "done": done, "expired": 5, "swept": swept}
    nothing = {**done, "files_before": 0, "given_up": 0}
    idle = {**table, "done": nothing, "expired": 0, "swept": {"deleted": 0, "noted": 0}}
    said = json.dumps({"tables": [], "done": [table, idle]})
    run(f"print({said!r})", heard)

    assert [TableMaintained("lake.a", 9, 1, 5, 3, 4, 77, 2)] == heard.events


@pytest.mark.parametrize(("groups", "failures"), [([], 0), ([{}], 1)])
def test_what_may_not_be_rearranged_is_said_where_there_is_something_to_rearrange(
    groups: list[object], failures: int
) -> None:
    heard = Heard()
    alone = {"rearrange": {"code": "P846", "message": "rolled back"}}
    table = {"table": "lake.a", "error": None, "groups": groups, "left_alone": alone}
    said = json.dumps({"tables": [table], "done": None})
    run(f"print({said!r})", heard)

    assert [MaintenanceFailed("lake.a", "P846  rolled back")] * failures == heard.events
