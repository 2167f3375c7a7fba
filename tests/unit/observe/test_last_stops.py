from __future__ import annotations

from pathlib import Path

from tests.story.clock import ManualClock

from penstock.core.publication_events import PublicationStarted, PublicationStopped
from penstock.observe.last_stops import LastStop, LastStops, last_stop

NAME = "a/b"


def test_why_a_publication_stopped_is_known_until_a_run_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    stops = LastStops(tmp_path / "state", "shop", clock)
    assert last_stop(tmp_path / "state", "shop", NAME) is None

    stops(PublicationStopped(NAME, "a row is no message", clean=False, code="P840"))
    stops(PublicationStopped("other", "asked to stop", clean=True))
    found = last_stop(tmp_path / "state", "shop", NAME)
    assert LastStop("P840", "a row is no message", clock.now_ms()) == found
    assert last_stop(tmp_path / "state", "shop", "other") is None

    stops(PublicationStarted(NAME, "into", 2, 1, 0))
    assert last_stop(tmp_path / "state", "shop", NAME) is None


def test_what_is_in_the_way_of_a_file_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    stops = LastStops(tmp_path / "state", "shop", ManualClock())
    stops(PublicationStopped(NAME, "a row is no message", clean=False, code="P840"))

    assert last_stop(tmp_path / "state", "shop", NAME) is None
