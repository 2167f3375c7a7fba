"""`maintain: { hold: … }` on real parts: a look in a process of its own makes epochs wider, and
maintenance beside the run lets them come back.
"""

from __future__ import annotations

import threading

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, within

from penstock.app import maintenance_process
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect import status
from penstock.app.inspect.reported import status_file
from penstock.app.run import run
from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event, TableCommitted
from penstock.core.maintenance_events import EpochsNarrowed, EpochsWidened, LayoutMeasured
from penstock.landing.epoch import hold
from penstock.observe.status import StatusBoard, StatusFile
from penstock.spec.load import load

PATIENCE_SECONDS = 90.0
LAKE = "lake.shop.orders"


class Until:
    """Remembers events, tells a board, and stops a run once epochs are back to usual."""

    def __init__(self, board: StatusBoard) -> None:
        self.board, self.stop = board, threading.Event()
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.board(event)
        self.events.append(event)
        if isinstance(event, EpochsNarrowed) and event.every_seconds == event.usual_seconds:
            self.stop.set()

    def passed(self, point: CrashPoint) -> None:
        self.board.passed(point)


def test_epochs_widen_for_files_that_landed_and_come_back_after_maintenance(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(maintenance_process, "LOOK_SECONDS_LEAST", 0.1)
    shop.spec["commit"] = {"every": "50ms"}
    shop.spec["maintain"] = {
        "every": "1s",
        "only": ["rearrange"],
        "hold": {"excess_files": 20, "every_most": "1s"},
    }
    pipeline, clock = load(shop.path), SystemClock()
    board = StatusBoard(pipeline.name, clock)
    seen = Until(board)
    watchdog = threading.Timer(PATIENCE_SECONDS, seen.stop.set)
    watchdog.start()
    with (
        shop.producing() as sent,
        maintenance_process.maintained_beside(pipeline, shop.path, seen, clock, board),
    ):
        run(pipeline, observer=seen, stop=seen.stop, until="stopped", health=board.health)
        assert sent()
    watchdog.cancel()

    kinds = [type(each) for each in seen.events]
    wider = [each.every_seconds for each in seen.events if isinstance(each, EpochsWidened)]
    assert 0.1 == wider[0]
    assert kinds.index(LayoutMeasured) < kinds.index(EpochsWidened) < kinds.index(EpochsNarrowed)
    assert TableCommitted in kinds[kinds.index(EpochsWidened) :]
    assert None is board.snapshot().widened
    assert 0 == shop.run().code
    shop.prove()


@pytest.fixture
def known(shop: Shop) -> Shop:
    """Land a file in each table; the last run knew of a table that it had far too many."""
    shop.send(0, 5)
    land(shop)
    shop.spec["maintain"] = {"hold": {"excess_files": 10, "then": "stop"}}
    pipeline, clock = load(shop.path), SystemClock()
    board = StatusBoard(pipeline.name, clock)
    board(LayoutMeasured(LAKE, 30, 1, 9_000, 5, 0, 777, 77, 1, 1000))
    with StatusFile(status_file(pipeline), board, clock, pytest.fail):
        return shop


def test_a_plan_says_which_tables_a_run_would_hold(known: Shop) -> None:
    said = within("plan", known.path)

    assert f"{LAKE} has 29 files too many: it would be parked, P895" in said.out
    assert {LAKE: 29} == within("plan", known.path, "--json").json["sick"]


def test_of_tables_with_too_many_files_to_look_at_status_says_what_the_run_knew(
    known: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "LOOKED_AT_MAX", 0)

    health = within("status", known.path, "--json").json["tables"][LAKE]["health"]
    assert (1, 1, 777) == tuple(health[k] for k in ("files", "files_after", "metadata_bytes"))
