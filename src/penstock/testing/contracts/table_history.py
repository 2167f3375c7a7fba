# ruff: noqa: D102, PLR2004, SIM300 - the names of the tests are their sentences, and offsets are examples
"""The history half of the table contract: rollbacks, coordinates, missing files, trimming.

Each test names what protocol.md 3 and the audit of protocol.md 1 ask of a table's metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pyarrow as pa
import pytest

from penstock.core.commits import Chain, Committable
from penstock.core.errors import BugError, InvalidError
from penstock.core.offsets import gaps_and_overlaps, span
from penstock.core.scratch import SCRATCH
from penstock.core.serialization import progress_to_json
from penstock.core.statistics import mismatches
from penstock.files.contents import contents_of
from penstock.ports.histories import CommitRecord, CommitsBehind, History
from penstock.ports.tables import (
    StatedFile,
    Table,
    TableDefinition,
    TableFormat,
    TableState,
    Verdict,
)
from penstock.testing.contracts.table_fixture import COLUMNS, RETAIN, TableBench
from penstock.testing.prepared import (
    ORDERS,
    TOPIC,
    TOPIC_ID,
    claim,
    orders,
    origin,
    positions,
)


class HistoryTests(TableBench):
    """What a table reports of its past, and a catalog of a table that does not exist yet."""

    @pytest.mark.parametrize(
        "definition",
        [
            TableDefinition(ORDERS),
            TableDefinition(ORDERS, partition_by=("nowhere",)),
            TableDefinition(ORDERS, partition_by=("day(id)",)),
            TableDefinition(ORDERS, sort_by=("nowhere",)),
            TableDefinition(ORDERS, identifier_fields=("nowhere",)),
            TableDefinition(ORDERS, keys=("id",)),
            TableDefinition(ORDERS, keys=("id", "nowhere")),
        ],
    )
    def test_a_definition_is_checked_as_create_checks_it_and_no_table_is_made(
        self, catalog: TableFormat, definition: TableDefinition
    ) -> None:
        refusal = _refusal(lambda: catalog.preview(self.name, definition))

        assert catalog.load(self.name) is None
        assert refusal == _refusal(lambda: catalog.create(self.name, definition, ()))

    def test_a_preview_says_which_records_a_new_table_takes(self, catalog: TableFormat) -> None:
        fitting = attrgetter(
            "schema", "can_widen", "not_empty", "identifiers", "reserved", "least", "demands"
        )
        for number, definition in enumerate(self.layouts):
            name = self.name.replace("orders", f"orders_{number}")
            preview = catalog.preview(name, definition)
            created = catalog.create(name, definition, ()).state(self.chain)

            assert fitting(created) == fitting(preview), definition

    def test_a_rollback_is_reported(self, table: Table) -> None:
        self.rolled_back(table)

        assert [0, 1] == self.ids(table)
        assert Verdict.ROLLED_BACK == table.state(self.chain).verdict
        assert table.state(self.chain).evidence

    def test_a_rollback_stays_reported_after_a_foreign_append(self, table: Table) -> None:
        self.rolled_back(table)
        self.foreign_append(table)

        assert Verdict.ROLLED_BACK == table.state(self.chain).verdict

    def test_a_fence_after_a_rollback_moves_the_head_and_stays_reported(self, table: Table) -> None:
        self.rolled_back(table)
        before = table.state(self.chain)
        table.commit(before, self.fence(before, held=claim(2)), retain=RETAIN)
        after = table.state(self.chain)

        assert before.head != after.head
        assert (Verdict.ROLLED_BACK, before.landed) == (after.verdict, after.landed)
        assert [0, 1] == self.ids(table)

    def test_a_rollback_arms_no_attempt(self, table: Table) -> None:
        armed, attempt = self._armed(table)
        with pytest.raises(self.refused):
            table.commit(armed, attempt, retain=RETAIN)

        assert [0, 1] == self.ids(table)

    def test_a_fence_after_a_rollback_kills_the_attempt_it_armed(self, table: Table) -> None:
        armed, attempt = self._armed(table)
        state = table.state(self.chain)
        table.commit(state, self.fence(state, held=claim(2)), retain=RETAIN)
        with pytest.raises(self.refused):
            table.commit(armed, attempt, retain=RETAIN)

        assert [0, 1] == self.ids(table)

    def test_files_that_are_there_are_not_missing(self, table: Table) -> None:
        files = self.append(table.state(self.chain), {0: (0, 3)}).files

        assert [] == list(table.missing_files(files))

    def test_removed_and_truncated_files_are_missing(self, table: Table) -> None:
        state = table.state(self.chain)
        kept, removed, cut = (self.write(state, orders({0: (n, n + 1)}))[0] for n in range(3))
        self.remove_file(table, removed.path)
        self.truncate_file(table, cut.path)

        assert sorted([removed.path, cut.path]) == sorted(table.missing_files([kept, removed, cut]))

    def test_missing_finds_nothing_in_nothing(self, table: Table) -> None:
        assert [] == list(table.missing_files([]))

    def test_what_is_stated_of_files_is_what_they_hold(self, table: Table) -> None:
        assert [] == [*table.stated()]
        self.land(table, {0: (0, 2), 1: (0, 1)}, {0: (2, 5)})
        stated = [each for each in table.stated() if isinstance(each, StatedFile)]

        assert len(stated) == len([*table.stated()])
        assert 6 == sum(each.statistics.records or 0 for each in stated)
        for each in stated:
            with each.open() as source:
                held = contents_of(source, each.statistics)
            assert each.statistics.records == held.records
            assert [] == mismatches(each.statistics, held)

    def test_a_file_that_is_gone_is_stated_and_cannot_be_opened(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        self.remove_file(table, table.history(self.chain).paths[0])
        (stated,) = table.stated()
        assert isinstance(stated, StatedFile)

        with pytest.raises(FileNotFoundError):
            stated.open()

    def test_history_of_a_new_table_is_empty(self, table: Table) -> None:
        history = table.history(self.chain)

        assert (True, [], 0) == (history.complete, list(history.paths), history.foreign_commits)
        assert {} == ranges_of(history)

    def test_history_reports_a_gapless_chain(self, table: Table) -> None:
        self.land(table, {0: (0, 2), 1: (0, 1)})
        self.anchor(table, {0: (2, 9)})
        state = table.state(self.chain)
        table.commit(state, self.fence(state), retain=RETAIN)
        self.land(table, {0: (9, 12), 1: (1, 2)})
        history = table.history(self.chain)

        assert history.complete
        assert {0: [(0, 2), (2, 9), (9, 12)], 1: [(0, 1), (1, 2)]} == ranges_of(history)

    def test_history_reports_each_commit_as_it_was_made(self, table: Table) -> None:
        state = table.state(self.chain)
        commit = self.append(state, {0: (0, 3)})
        snapshot = table.commit(state, commit, retain=RETAIN)
        reported = table.history(self.chain).commits[-1]

        shown = attrgetter("commit_id", "snapshot", "kind", "rows", "files")
        assert (commit.commit_id, snapshot, "append", 3, 1) == shown(reported)
        assert progress_to_json(commit.progress) == [list(row) for row in reported.progress]
        assert reported.timestamp_ms > 1_600_000_000_000

    def test_history_lists_each_live_file_once(self, table: Table) -> None:
        commits = []
        for turn in range(3):
            state = table.state(self.chain)
            commits.append(self.append(state, {0: (turn, turn + 1)}))
            table.commit(state, commits[-1], retain=RETAIN)
        written = sorted(file.path for commit in commits for file in commit.files)

        assert written == sorted(table.history(self.chain).paths)

    def test_commits_behind_a_snapshot_are_those_of_the_history(self, table: Table) -> None:
        assert ([], True) == said_of(table.commits(self.chain, table.state(self.chain)))
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        self.foreign_append(table)
        self.anchor(table, {0: (4, 9)})
        state, listed = table.state(self.chain), table.history(self.chain).commits

        for number, each in enumerate([None, *listed]):
            behind = "" if each is None else each.snapshot
            found = table.commits(self.chain, state, behind)
            assert (listed[number:], True) == said_of(found), behind

    def test_commits_behind_what_is_not_known_do_not_follow(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        assert not table.commits(self.chain, table.state(self.chain), "4711").follows

    def test_history_counts_foreign_commits(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        assert 0 == table.history(self.chain).foreign_commits
        self.foreign_append(table)
        self.land(table, {0: (2, 4)})
        history = table.history(self.chain)

        assert 1 == history.foreign_commits
        assert {0: [(0, 2), (2, 4)]} == ranges_of(history)

    def test_coordinates_gives_every_row(self, table: Table) -> None:
        self.land(table, {0: (0, 3), 1: (0, 2)}, {0: (3, 4)})
        read = table.row_coordinates(COLUMNS)

        assert ["topic", "partition", "offset"] == read.column_names
        assert ["string", "int32", "int64"] == [str(kind) for kind in read.schema.types]
        expected = [(TOPIC, 0, n) for n in range(4)] + [(TOPIC, 1, n) for n in range(2)]
        assert expected == coordinates_of(read)

    def test_history_and_coordinates_of_a_state_are_as_they_were_then(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        state = table.state(self.chain)
        before = (table.history(self.chain), coordinates_of(table.row_coordinates(COLUMNS)))
        self.land(table, {0: (2, 5), 1: (0, 1)})

        assert before == (
            table.history(self.chain, state),
            coordinates_of(table.row_coordinates(COLUMNS, state)),
        )
        assert 6 == len(coordinates_of(table.row_coordinates(COLUMNS)))

    def test_coordinates_at_some_offsets_gives_those_rows_alone(self, table: Table) -> None:
        assert 0 == table.row_coordinates(COLUMNS, offsets=pa.array([1])).num_rows
        for turn in range(3):
            self.land(table, {0: (4 * turn, 4 * turn + 4), 1: (turn, turn + 1)})
        wanted = pa.array([1, 6, 99], pa.int64())
        read = table.row_coordinates(COLUMNS, offsets=wanted)

        assert [(TOPIC, 0, 1), (TOPIC, 0, 6), (TOPIC, 1, 1)] == coordinates_of(read)
        assert ["string", "int32", "int64"] == [str(kind) for kind in read.schema.types]
        assert 0 == table.row_coordinates(COLUMNS, offsets=wanted.slice(0, 0)).num_rows

    def test_coordinates_keeps_duplicates(self, table: Table) -> None:
        state = table.state(self.chain)
        twice = [*self.write(state, orders({0: (0, 1)})), *self.write(state, orders({0: (0, 1)}))]
        self.anchor(table, {0: (0, 1)}, files=twice)

        assert [0, 0] == table.row_coordinates(COLUMNS)["offset"].to_pylist()

    def test_coordinates_of_an_empty_table_are_none(self, table: Table) -> None:
        assert 0 == table.row_coordinates(COLUMNS).num_rows

    def test_quarantined_finds_a_chains_coordinates_within_ranges(
        self, catalog: TableFormat
    ) -> None:
        chain, other = (Chain(f"shop/lake.b.{n}", "lake.ops.quarantine") for n in ("a", "b"))
        table = self.create_quarantine(catalog, origin(chain, {0: 0, 1: 0}), origin(other, {0: 0}))
        self.reject(table, chain, [(0, 1), (0, 5), (1, 5), (0, 9)])
        self.reject(table, other, [(0, 2), (0, 6)])
        asked = [[TOPIC_ID, 0, TOPIC, 1, 9], [TOPIC_ID, 1, TOPIC, 6, 9]]

        assert [(TOPIC_ID, 0, 1), (TOPIC_ID, 0, 5)] == sorted(table.quarantined(chain, asked))
        assert [(TOPIC_ID, 0, 2), (TOPIC_ID, 0, 6)] == sorted(table.quarantined(other, asked))
        assert [] == list(table.quarantined(chain, []))
        assert [] == list(table.quarantined(chain, [["another topic", 0, TOPIC, 0, 99]]))

    def test_refused_gives_columns_of_a_chains_rows_or_of_all_of_a_pipeline(
        self, catalog: TableFormat
    ) -> None:
        chain, other = (Chain(f"shop/lake.b.{n}", "lake.ops.quarantine") for n in ("a", "b"))
        table = self.create_quarantine(catalog, origin(chain, {0: 0, 1: 0}), origin(other, {0: 0}))
        self.reject(table, chain, [(0, 1), (1, 5)])
        self.reject(table, other, [(0, 2)])
        columns = ("offset", "code", "table")

        def read(name: str, ranges: list[list[object]] | None = None) -> list[tuple[object, ...]]:
            batches = table.read_quarantine(Chain(name, "lake.ops.quarantine"), columns, ranges)
            return sorted(tuple(row[c] for c in columns) for b in batches for row in b.to_pylist())

        assert [(1, "P301", "lake.b.a"), (5, "P301", "lake.b.a")] == read(chain.name)
        assert [(2, "P301", "lake.b.b")] == read(other.name)
        assert [(1, "P301", "lake.b.a"), (2, "P301", "lake.b.b"), (5, "P301", "lake.b.a")] == read(
            "shop/*"
        )
        assert [] == read("another/*")
        assert (1, "P301", "lake.b.a") in read(chain.name, [[TOPIC_ID, 0, TOPIC, 1, 2]])
        assert [] == read(chain.name, [])

    def test_own_snapshots_beyond_retain_are_trimmed_and_no_others(self, table: Table) -> None:
        self.land(table, {0: (0, 1)})
        self.foreign_append(table)
        own = [self.land(table, {0: (n, n + 1)}, retain=3) for n in range(1, 8)]
        history = table.history(self.chain)

        assert [-1, *range(8)] == self.ids(table)
        assert positions({0: 8, 1: 0}) == self.landed(table).offsets
        assert Verdict.AGREED == table.state(self.chain).verdict
        assert [] == gaps_and_overlaps(span(a, b) for a, b in ranges_of(history)[0])
        assert 8 == ranges_of(history)[0][-1][1]
        if self.trims:
            kept = self.snapshots(table)
            assert own[-3:] == [snapshot for snapshot in own if snapshot in kept]
            assert 4 == len(kept), "three of ours and the foreign one"
            assert not history.complete

    def test_a_table_says_what_it_is_and_how_much_a_commit_goes_through(self, table: Table) -> None:
        self.land(table, {0: (0, 1)})
        before = table.describe()
        self.land(table, {0: (1, 2)})
        after = table.describe()

        assert (before.format, 1) == (after.format, after.history_length - before.history_length)
        assert (1, 2) == (before.rows, after.rows)

    def test_a_scratch_table_is_dropped_with_its_files_and_no_other_table_is(
        self, catalog: TableFormat, table: Table
    ) -> None:
        name = f"bronze.{SCRATCH}1"
        scratch = catalog.create(name, TableDefinition(ORDERS), (origin(self.chain, {0: 0}),))
        snapshot = self.land(scratch, {0: (0, 3)})
        catalog.discard(name)
        catalog.discard(name)
        with pytest.raises(BugError):
            catalog.discard(self.name)

        assert snapshot
        assert None is catalog.load(name)
        assert ["bronze.orders"] == list(catalog.names("bronze"))
        assert [] == self.rows(table)

    def test_housekeeping_changes_nothing_that_can_be_reported(self, table: Table) -> None:
        for turn in range(3):
            self.land(table, {0: (turn, turn + 1)})
        before = table.state(self.chain)
        table.housekeep()
        after = table.state(self.chain)

        reported = attrgetter("head", "landed", "verdict")
        assert reported(before) == reported(after)
        assert [0, 1, 2] == self.ids(table)
        self.land(table, {0: (3, 4)})
        assert [0, 1, 2, 3] == self.ids(table)

    def _armed(self, table: Table) -> tuple[TableState, Committable]:
        """Prepare a commit on a state that others replaced, and then rolled back to."""
        first = self.land(table, {0: (0, 2)})
        armed = table.state(self.chain)
        attempt = self.append(armed, {0: (2, 4)})
        self.land(table, {0: (2, 5)}, held=claim(2))
        self.roll_back(table, first)
        return armed, attempt


def said_of(found: CommitsBehind) -> tuple[list[CommitRecord], bool]:
    """Return what commits behind a snapshot are, and whether they follow."""
    return [*found.commits], found.follows


def ranges_of(history: History) -> dict[int, list[tuple[int, int]]]:
    """List the ranges of a history by partition, in the order of the commits."""
    reported: dict[int, list[tuple[int, int]]] = {}
    for commit in history.commits:
        for _, partition, _, start, stop in commit.progress:
            reported.setdefault(partition, []).append((start, stop))
    return reported


def coordinates_of(read: pa.Table) -> list[tuple[str, int, int]]:
    """List coordinates in order."""
    return sorted(tuple(row.values()) for row in read.to_pylist())


def _refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except InvalidError as error:
        return error.code
    return ""
