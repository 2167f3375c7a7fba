# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The part of the table contract in which rows of deleted keys are purged (docs/design/0267).

Rows are purged as `penstock purge` does it, and what is left is read by the format's own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from penstock.commit.attempt import CommitContext
from penstock.commit.purge import PurgedRows, PurgeSearch, purge_rows
from penstock.core.commits import CommitKind
from penstock.core.errors import ConflictError
from penstock.core.schema import Field, Kind, Schema
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.testing.contracts.table_fixture import RETAIN, Quiet, StillClock, TableBench
from penstock.testing.prepared import ORDERS, TOPIC, claim, origin

FLAG, TIME = "_is_deleted", "_deleted_at"
SOFT = Schema((*ORDERS.fields, Field(FLAG, Kind.BOOLEAN), Field(TIME, Kind.TIMESTAMPTZ)))
HOUR_MS = 3_600_000


def at_hour(hour: int) -> datetime:
    """Return a time, by hours since 1970."""
    return datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC)


class PurgeTests(TableBench):
    """Rows of deleted keys leave a table while others commit."""

    @pytest.fixture
    def soft(self, catalog: TableFormat) -> Table:
        """Create a table with the ids 0 to 5: 1, 2 and 4 were deleted in the hours 1, 2 and 4."""
        keyed = getattr(self, "keyed")  # noqa: B009  that of the tests of row deletes
        table = catalog.create(self.name, replace(keyed, schema=SOFT), [origin(self.chain, {0: 0})])
        self.put(table, {0: None, 1: 1, 2: 2})
        self.put(table, {3: None, 4: 4, 5: None})
        return table

    def put(self, table: Table, rows: Mapping[int, int | None]) -> None:
        """Land a row for each id; those with an hour were deleted then."""
        state = table.state(self.chain)
        [offset] = (int(each) for each in self.landed(table).offsets.values())
        written = self.write(
            state,
            [
                {
                    "id": number,
                    "name": "gone" if hour else f"row at {offset}",
                    "_kafka_topic": TOPIC,
                    "_kafka_partition": 0,
                    "_kafka_offset": offset + place,
                    FLAG: hour is not None,
                    TIME: None if hour is None else at_hour(hour),
                }
                for place, (number, hour) in enumerate(rows.items())
            ],
        )
        ranges = {0: (offset, offset + len(rows))}
        commit = self.prepare(state, ranges, files=written, kind=CommitKind.ROW_DELTA)
        table.commit(state, replace(commit, keys=("id",)), retain=RETAIN)

    def purge(
        self, table: Table, hour: int, *, meanwhile: Callable[[], None] = lambda: None
    ) -> PurgedRows:
        """Purge keys deleted until an hour; something may happen after the rows were found."""
        context = CommitContext(claim(), Quiet(), StillClock(), lambda: 0.5, RETAIN)
        happening = [meanwhile]

        def pauses() -> list[object]:
            while happening:
                happening.pop()()
            return []

        search = PurgeSearch(FLAG, TIME, hour * HOUR_MS)
        return purge_rows(search, self.chain, table, context, attempt=f"p{hour}", pauses=pauses)  # type: ignore[arg-type]

    def test_a_purge_takes_old_rows_of_deleted_keys_and_leaves_the_ledger(
        self, catalog: TableFormat, soft: Table
    ) -> None:
        before = self.landed(soft)
        done = self.purge(soft, 2)
        state = self.found(catalog).state(self.chain)
        after = self.landed(soft)

        assert PurgedRows(2, 1, at_hour(1), at_hour(2)) == done
        assert [0, 3, 4, 5] == self.ids(soft)
        assert (Verdict.AGREED, after) == (state.verdict, state.landed)
        assert before.recent == after.recent[:-1]
        assert 2 * HOUR_MS == after.purged_through_ms
        assert before == replace(after, recent=before.recent, purged_through_ms=None)

    def test_what_is_purged_stays_so_and_commits_after_it_land(self, soft: Table) -> None:
        self.purge(soft, 4)
        self.put(soft, {1: None, 7: None})
        again = self.purge(soft, 3)

        assert PurgedRows(0, 0) == again
        assert [0, 1, 3, 5, 7] == self.ids(soft)
        assert 4 * HOUR_MS == self.landed(soft).purged_through_ms

    def test_a_purge_that_meets_another_commit_looks_again(self, soft: Table) -> None:
        def another() -> None:
            self.put(soft, {6: 1, 7: 9})

        done = self.purge(soft, 2, meanwhile=another)

        assert (3, 2) == (done.rows, done.files)
        assert [0, 3, 4, 5, 7] == self.ids(soft)
        assert [8] == [int(each) for each in self.landed(soft).offsets.values()]

    def test_what_was_prepared_before_a_purge_lands_on_no_state_before_it(
        self, soft: Table
    ) -> None:
        state = soft.state(self.chain)
        files = self.write(state, [{"id": 9, "name": "nine"}])
        commit = self.prepare(state, {0: (6, 7)}, files=files, kind=CommitKind.ROW_DELTA)
        self.purge(soft, 4)
        with pytest.raises((ConflictError, *self.refused)):
            soft.commit(state, replace(commit, keys=("id",)), retain=RETAIN)
        fresh = soft.state(self.chain)
        soft.commit(fresh, replace(commit, keys=("id",)), retain=RETAIN)

        assert [0, 3, 5, 9] == self.ids(soft)
        assert 4 * HOUR_MS == self.landed(soft).purged_through_ms
        assert Verdict.AGREED is soft.state(self.chain).verdict
