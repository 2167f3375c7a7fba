# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The contract of `ports/reports.py`, as tests that whatever keeps reports must pass.

How to use: subclass `ReportsContract` in a test module, give `open_reports` (opened twice in one
place, both see the same) and `lose` (make all of it vanish), and run pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import UnavailableError
from penstock.ports.reports import HAPPENINGS_KEPT, Happening, Reports

PARKED = Happening(1_700_000_000_000, "TableParked", "error", "lake.orders", "parked, P430: why")


MINUTE_MS = 60_000


class ReportsContract:
    """Check one keeper of reports against the promises of its port."""

    def open_reports(self, place: Path) -> Reports:
        """Open the reports of a directory."""
        raise NotImplementedError

    def lose(self, place: Path) -> None:
        """Make what is kept vanish under those that have it open."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Return the directory that reports live in."""
        return tmp_path

    @pytest.fixture
    def reports(self, place: Path) -> Iterator[Reports]:
        """Open fresh reports."""
        opened = self.open_reports(place)
        yield opened
        opened.close()

    def test_before_a_report_nothing_is_known(self, reports: Reports) -> None:
        assert (None, []) == (reports.newest("shop"), list(reports.happenings("shop")))

    def test_the_newest_report_is_read_elsewhere_with_its_age(
        self, reports: Reports, place: Path
    ) -> None:
        other = self.open_reports(place)
        reports.keep("shop", 7, b"first", [])
        reports.keep("shop", 7, b'{"a": 1}', [])
        reports.keep("another", 7, b"other", [])
        found = other.newest("shop")
        other.close()

        assert found is not None
        assert b'{"a": 1}' == found.body
        assert 0 <= found.age_ms < MINUTE_MS

    def test_an_elder_owner_replaces_nothing(self, reports: Reports) -> None:
        reports.keep("shop", 7, b"younger", [])
        reports.keep("shop", 6, b"elder", [PARKED])
        found = reports.newest("shop")

        assert found is not None
        assert b"younger" == found.body
        assert [PARKED] == list(reports.happenings("shop")), "what happened to it has happened"

    def test_what_happened_is_listed_newest_first_by_pipeline(self, reports: Reports) -> None:
        first, second, third = (replace(PARKED, text=f"{n}") for n in range(3))
        reports.keep("shop", 1, b"", [first, second])
        reports.keep("another", 1, b"", [first])
        reports.keep("shop", 1, b"", [third])

        assert [third, second, first] == list(reports.happenings("shop"))

    def test_the_newest_of_what_happened_are_kept(self, reports: Reports) -> None:
        heard = [replace(PARKED, at_ms=n) for n in range(HAPPENINGS_KEPT + 30)]
        reports.keep("shop", 1, b"", heard[:20])
        reports.keep("shop", 1, b"", heard[20:-10])
        reports.keep("shop", 1, b"", heard[-10:])
        times = [each.at_ms for each in reports.happenings("shop")]

        assert [*range(HAPPENINGS_KEPT + 29, 29, -1)] == times

    def test_hostile_text_is_kept_without_what_no_database_takes(self, reports: Reports) -> None:
        name = "a\x00b'; DROP TABLE x; --\ud800 \N{SNOWMAN}"
        reports.keep("shop", 1, b"\x00\xff", [replace(PARKED, subject=name)])
        [found] = reports.happenings("shop")

        assert found.subject.startswith("ab'; DROP TABLE x; --")
        assert found.subject.endswith("\N{SNOWMAN}")

    def test_what_was_lost_is_written_again(self, reports: Reports, place: Path) -> None:
        reports.keep("shop", 1, b"before", [PARKED])
        self.lose(place)
        for _ in range(2):  # the first one may say that it was lost
            try:
                reports.keep("shop", 1, b"after", [])
            except UnavailableError as error:
                assert "lost" in str(error)  # noqa: PT017
        found = reports.newest("shop")

        assert found is not None
        assert b"after" == found.body
