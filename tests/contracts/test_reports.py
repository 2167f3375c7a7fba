# ruff: noqa: ARG002 - hooks are given more than a database needs
"""Every keeper of reports against the contract of its port."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connectors.sql import open_postgresql, open_reports, open_reports_in_file
from penstock.core.errors import UnavailableError
from penstock.ports.reports import Reports
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.reports import PARKED, ReportsContract
from penstock.testing.contracts.store import take

SECRETS = ProcessSecrets({})


class TestReportsInAFile(ReportsContract):
    def open_reports(self, place: Path) -> Reports:
        return open_reports_in_file(f"sqlite:///{place}/state/shop.db", SECRETS)

    def lose(self, place: Path) -> None:
        (place / "state" / "shop.reports.db").unlink()

    def test_the_store_itself_is_not_touched(self, place: Path) -> None:
        reports = self.open_reports(place)
        reports.keep("shop", 1, b"", [PARKED])
        reports.close()

        assert {"shop"} == {each.name.split(".")[0] for each in (place / "state").iterdir()}
        assert not (place / "state" / "shop.db").exists()


class TestReportsInPostgresql(ReportsContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgresql):
        return postgresql.database()

    @pytest.fixture(autouse=True)
    def database(self, postgresql, shared):
        """Reports are of who claimed a pipeline, so the store is there."""
        self.server, self.name = postgresql, shared
        self.claim()
        yield
        postgresql.execute("DROP SCHEMA IF EXISTS penstock CASCADE", shared)

    def claim(self) -> None:
        store = open_postgresql(self.server.address(self.name), SECRETS)
        take(store)
        store.close()

    def open_reports(self, place: Path) -> Reports:
        return open_reports(self.server.address(self.name), SECRETS)

    def lose(self, place: Path) -> None:
        self.server.execute("DROP TABLE penstock.snapshots, penstock.happenings", self.name)

    def test_a_store_that_was_dropped_is_not_begun_by_a_report(self, place: Path) -> None:
        """Its tables alone would look like another program's schema."""
        reports = self.open_reports(place)
        self.server.execute("DROP SCHEMA penstock CASCADE", self.name)
        for _ in range(2):
            with pytest.raises(UnavailableError, match="lost"):
                reports.keep("shop", 1, b"", [])
        assert reports.newest("shop") is None
        reports.close()
        self.claim()

    def test_they_are_unlogged_and_written_without_the_lock_of_the_pipeline(
        self, place: Path
    ) -> None:
        store = open_postgresql(self.server.address(self.name), SECRETS)
        reports = self.open_reports(place)
        with store._database.writing("shop"):
            reports.keep("shop", 1, b"", [PARKED])
            reports.keep("shop", 1, b"", [PARKED])
        reports.close()
        store.close()
        with self.server.connect(self.name) as connection:
            [unlogged] = connection.execute(
                "SELECT array_agg(relname::text ORDER BY relname) FROM pg_class"
                " WHERE relpersistence = 'u' AND relkind = 'r'"
            )

        assert (["happenings", "snapshots"],) == unlogged
