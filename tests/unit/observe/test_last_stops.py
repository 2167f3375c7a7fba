from __future__ import annotations

from pathlib import Path

import pytest
from tests.story.clock import ManualClock

from penstock.connectors.sql.reports import SqlReports, in_file
from penstock.core.publication_events import PublicationStarted, PublicationStopped
from penstock.observe.last_stops import LastStop, LastStops, last_stop

NAME = "a/b"
STOPPED = PublicationStopped(NAME, "a row is no message", clean=False, code="P840", generation=2)


def seen(folder: Path, clock: ManualClock, name: str = NAME) -> LastStop | None:
    return last_stop(folder, "shop", name, None, clock.now_ms())


def test_why_a_publication_stopped_is_known_until_a_run_goes_on(tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "state"
    stops = LastStops(folder, "shop", clock)
    assert seen(folder, clock) is None

    stops(STOPPED)
    stops(PublicationStopped("other", "asked to stop", clean=True))
    assert LastStop("P840", "a row is no message", clock.now_ms()) == seen(folder, clock)
    assert seen(folder, clock, "other") is None

    stops(PublicationStarted(NAME, "into", 2, 1, 0))
    assert seen(folder, clock) is None


def test_what_is_in_the_way_of_a_file_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    LastStops(tmp_path / "state", "shop", ManualClock())(STOPPED)

    assert seen(tmp_path / "state", ManualClock()) is None


def test_other_hosts_know_it_by_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time on both is the file's here: that of the host."""
    clock, reports = ManualClock(), SqlReports(in_file(tmp_path / "reports.db"))
    monkeypatch.setattr("time.time_ns", lambda: clock.now_ms() * 1_000_000)
    here, there = (LastStops(tmp_path / each, "shop", clock, reports) for each in ("a", "b"))

    def known() -> list[LastStop | None]:
        clock.advance(1)
        folders = [tmp_path / each for each in ("a", "b", "c")]
        return [last_stop(each, "shop", NAME, reports, clock.now_ms()) for each in folders]

    assert [None] * 3 == known()
    here(STOPPED)
    assert ["P840"] * 3 == [each.code for each in known() if each]
    there(PublicationStarted(NAME, "into", 3, 1, 0))
    assert [None] * 3 == known()
    here(PublicationStopped(NAME, "lost", clean=False, code="P804", generation=2))
    assert [None] * 3 == known()
    here(PublicationStopped(NAME, "it hung", clean=False, code="P814", generation=2))
    assert ["P814", None, None] == [each and each.code for each in known()]
    there.close()
