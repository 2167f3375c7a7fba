# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The part of the table contract in which files are written again where a commit takes rows.

Files are rewritten by `FileRewriter`, as a run rewrites them, and read by the format's own reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from penstock.commit.rewriting import FileRewriter, Rewriting
from penstock.core.commits import CommitKind, Committable
from penstock.core.errors import BugError, ConflictError, DecisionNeededError
from penstock.core.schema import Decimal as DecimalType
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.ports.row_deletes import RowDeleteMode, RowDeletes
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState, Verdict
from penstock.testing.contracts.table_fixture import RETAIN, Quiet
from penstock.testing.contracts.table_row_deltas import RowDeltaTests
from penstock.testing.prepared import ORDERS, TOPIC, origin

PLENTY = 1 << 40
MANY: Struct = Struct(
    (
        *ORDERS.fields,
        Field("yes", Kind.BOOLEAN),
        Field("small", Kind.INT),
        Field("single", Kind.FLOAT),
        Field("twice", Kind.DOUBLE),
        Field("price", DecimalType(20, 4)),
        Field("day", Kind.DATE),
        Field("at", Kind.TIMESTAMPTZ),
        Field("bytes", Kind.BINARY),
        Field(
            "inside",
            Struct((Field("a", Kind.LONG), Field("b", Struct((Field("c", Kind.STRING),))))),
        ),
        Field("several", List(Struct((Field("x", Kind.DOUBLE), Field("y", Kind.STRING))))),
        Field("named", Map(Kind.STRING, List(Kind.LONG))),
    )
)
"""Columns of every kind that all formats have."""


def values_of(number: int) -> dict[str, Any]:
    """Return a row of many kinds; every third has nulls alone, the others odd values."""
    row = {**dict.fromkeys(MANY.names), "id": number}
    source = {"_kafka_topic": TOPIC, "_kafka_partition": 0, "_kafka_offset": number}
    if not number % 3:
        return {**row, **source}
    return {
        **source,
        "id": number,
        "name": f"\x00Ö\U0001f600 {'x' * 300}{number}",
        "yes": bool(number % 2),
        "small": -(2**31) + number,
        "single": [math.nan, -0.0, math.inf, 0.1][number % 4],
        "twice": [5e-324, -math.inf, -0.0, math.nan][number % 4],
        "price": Decimal("-9999999999999999.9999") + number,
        "day": date(1582, 10, number),
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999 - number, tzinfo=UTC),
        "bytes": bytes(range(number * 9)),
        "inside": {"a": -number, "b": None if number % 2 else {"c": ""}},
        "several": [] if number % 2 else [None, {"x": math.nan, "y": None}],
        "named": {} if number % 2 else {"": [], "k": [None, 2**63 - 1]},
    }


class RewriteTests(RowDeltaTests):
    """Row deltas of one table whose files are written again."""

    kinds: ClassVar[Struct] = MANY
    """Columns of as many kinds as its files can have."""

    # What the tests are given.

    @pytest.fixture
    def rewritten(self, catalog: TableFormat) -> Table:
        """Create a table whose files are rewritten, with the ids 0 to 9 in two files."""
        definition = replace(self.keyed, row_deletes=RowDeleteMode.REWRITE)
        table = catalog.create(self.name, definition, [origin(self.chain, {0: 0})])
        self.rewrite(table, upserts=range(5))
        self.rewrite(table, upserts=range(5, 10))
        return table

    # Acts.

    def rewriter(self, commit: Committable, bytes_max: int = PLENTY) -> FileRewriter:
        """Return what rewrites files for a commit."""
        return FileRewriter(commit, Rewriting(self.open_writer(), bytes_max), Quiet())

    def again(
        self,
        rewriter: FileRewriter,
        table: Table,
        state: TableState,
        row_deletes: Sequence[RowDeletes],
    ) -> tuple[RowDeletes, ...]:
        """Rewrite the files of row deletes."""
        live = {file.path: file for file in table.live_files(state)}
        return rewriter.rewrite(state, table, row_deletes, live)

    def rewrite(
        self, table: Table, *, upserts: Sequence[int] = (), deletes: Sequence[int] = ()
    ) -> str:
        """Upsert and delete ids from the ledger's position on, by rewritten files."""
        state, [offset] = table.state(self.chain), self.offsets(table)
        commit = self.delta(state, offset, upserts, len(upserts) + len(deletes))
        found = self.deletes_of(table, state, [*upserts, *deletes])
        found = [*self.again(self.rewriter(commit), table, state, found)]
        return table.commit(state, commit, retain=RETAIN, row_deletes=found)

    def paths(self, table: Table) -> set[str]:
        """List the live data files; fails where rows of one are deleted beside it."""
        files = table.live_files(table.state(self.chain))
        assert {(0, "")} >= {(each.deleted, each.delete_state) for each in files}
        return {each.path for each in files}

    # Promises.

    def test_rows_go_and_their_neighbours_come_again_in_one_commit(self, rewritten: Table) -> None:
        rewritten.require_row_deletes(rewritten.state(self.chain), RowDeleteMode.REWRITE)
        before, names = self.paths(rewritten), self.names(rewritten)
        self.rewrite(rewritten, upserts=[3, 12], deletes=[0])
        after = self.paths(rewritten)
        changed = {3: "order 3 at 10", 12: "order 12 at 10"}
        del names[0]

        assert names | changed == self.names(rewritten)
        assert (1, 2, [13]) == (
            len(before & after),
            len(after - before),
            self.offsets(rewritten),
        )
        assert Verdict.AGREED is rewritten.state(self.chain).verdict
        assert {*range(1, 10), 12} == set(self.located(rewritten, rewritten.state(self.chain)))

    def test_rows_that_are_rewritten_are_not_counted_as_landed(self, rewritten: Table) -> None:
        self.rewrite(rewritten, upserts=[3], deletes=[7])
        history = rewritten.history(self.chain)

        assert [5, 5, 1] == [each.rows for each in history.commits]
        assert ["row-delta"] * 3 == [each.kind for each in history.commits]
        assert sorted(history.paths) == sorted({*history.paths})

    def test_a_file_of_which_no_row_is_left_is_rewritten_to_none(self, rewritten: Table) -> None:
        before = self.paths(rewritten)
        self.rewrite(rewritten, deletes=range(5))

        assert set(range(5, 10)) == set(self.names(rewritten))
        assert (1, before) == (len(self.paths(rewritten)), before | self.paths(rewritten))

    def test_deletes_that_find_no_row_rewrite_nothing(self, rewritten: Table) -> None:
        before = self.paths(rewritten)
        self.rewrite(rewritten, deletes=[77])

        assert (before, [11]) == (self.paths(rewritten), self.offsets(rewritten))

    def test_values_of_every_kind_are_rewritten_as_they_are(self, catalog: TableFormat) -> None:
        definition = TableDefinition(self.kinds, keys=("id",), row_deletes=RowDeleteMode.REWRITE)
        table = catalog.create(self.name, definition, [origin(self.chain, {0: 0})])
        state = table.state(self.chain)
        values = [values_of(number) for number in range(12)]
        files = self.write(state, [{n: row[n] for n in self.kinds.names} for row in values])
        commit = self.prepare(state, {0: (0, 12)}, files=files, kind=CommitKind.ROW_DELTA)
        table.commit(state, commit, retain=RETAIN)
        rows = {row["id"]: repr(row) for row in self.rows(table)}
        del rows[4], rows[9]
        self.rewrite(table, deletes=[4, 9])

        assert rows == {row["id"]: repr(row) for row in self.rows(table)}
        assert {*range(12)} - {4, 9} == set(rows)

    def test_rows_that_others_had_deleted_do_not_come_back(self, orders: Table) -> None:
        self.change(orders, 10, deletes=[0])
        self.foreign_delete(orders, 1)
        self.foreign_delete(orders, 6)
        self.rewrite(orders, upserts=[2], deletes=[7])

        assert {2, 3, 4, 5, 8, 9} == set(self.names(orders))
        assert self.paths(orders)

    def test_one_that_was_rewritten_may_have_rows_deleted_beside_it(self, orders: Table) -> None:
        self.rewrite(orders, deletes=[0])
        self.change(orders, 11, deletes=[1])
        self.rewrite(orders, deletes=[2])

        assert set(range(3, 10)) == set(self.names(orders))
        assert [2] == [len(self.paths(orders))]

    def test_the_commit_s_own_file_is_rewritten_before_it_comes(self, rewritten: Table) -> None:
        state, before = rewritten.state(self.chain), self.names(rewritten)
        commit = self.delta(state, 10, [3, 12, 13], 3)
        own = RowDeletes(commit.files[0].path, "", np.array([0, 2], np.int64))
        found = self.again(self.rewriter(commit), rewritten, state, [own])
        rewritten.commit(state, commit, retain=RETAIN, row_deletes=found)

        assert before | {12: "order 12 at 10"} == self.names(rewritten)
        assert commit.files[0].path not in self.paths(rewritten)
        landed = rewritten.state(self.chain).landed
        assert landed is not None
        assert commit.digest == landed.digest_of(commit.commit_id)

    def test_a_commit_none_of_whose_own_rows_stays_lands_progress(self, rewritten: Table) -> None:
        state, before = rewritten.state(self.chain), self.paths(rewritten)
        commit = self.delta(state, 10, [3, 12], 2)
        own = RowDeletes(commit.files[0].path, "", np.array([0, 1], np.int64))
        found = self.again(self.rewriter(commit), rewritten, state, [own])
        rewritten.commit(state, commit, retain=RETAIN, row_deletes=found)

        assert (before, [12]) == (self.paths(rewritten), self.offsets(rewritten))

    def test_a_file_is_rewritten_again_where_its_rows_were_changed_meanwhile(
        self, orders: Table
    ) -> None:
        acts: tuple[tuple[Callable[[], None], set[int], bool], ...] = (
            (partial(self.foreign_append, orders), {-1}, True),
            (partial(self.foreign_delete, orders, 1), {-1}, False),
            (partial(self.foreign_compaction, orders), {-1}, False),
        )
        for number, (act, more, is_kept) in enumerate(acts):
            state, [offset] = orders.state(self.chain), self.offsets(orders)
            target = number + 2
            commit = self.delta(state, offset, [target], 1)
            rewriter = self.rewriter(commit)
            first = self.again(rewriter, orders, state, self.deletes_of(orders, state, [target]))
            act()
            with pytest.raises((ConflictError, *self.refused)):
                orders.commit(state, commit, retain=RETAIN, row_deletes=first)
            state = orders.state(self.chain)
            again = self.again(rewriter, orders, state, self.deletes_of(orders, state, [target]))
            orders.commit(state, commit, retain=RETAIN, row_deletes=again)
            gone = {1} if number else set()

            assert is_kept == (first[0].rewritten == again[0].rewritten)
            assert {*range(10), *more} - gone == set(self.names(orders))
            assert f"order {target} at {offset}" == self.names(orders)[target]

    def test_more_or_fewer_rows_than_stay_are_refused(self, rewritten: Table) -> None:
        state = rewritten.state(self.chain)
        commit = self.delta(state, 10, [], 1)
        [deletes] = self.deletes_of(rewritten, state, [3])
        [right] = self.again(self.rewriter(commit), rewritten, state, [deletes])
        more = self.write(state, [{"id": 99, "name": "one too many"}])
        assert right.rewritten is not None
        before = self.names(rewritten)

        for files in ((), (*right.rewritten, *more), more):
            with pytest.raises(BugError) as refused:
                rewritten.commit(
                    state,
                    commit,
                    retain=RETAIN,
                    row_deletes=[replace(deletes, rewritten=files)],
                )
            assert "P707" == refused.value.code
        assert before == self.names(rewritten)

    def test_more_bytes_than_a_commit_may_rewrite_wait_for_a_decision(
        self, rewritten: Table
    ) -> None:
        state = rewritten.state(self.chain)
        commit = self.delta(state, 10, [], 7)
        one = self.deletes_of(rewritten, state, [3])
        [file] = [f for f in rewritten.live_files(state) if f.path == one[0].path]
        both = self.deletes_of(rewritten, state, [3, 7])
        dead = self.deletes_of(rewritten, state, [*range(5), 7])
        rewriter = self.rewriter(commit, file.size_bytes)

        assert 1 == len(self.again(rewriter, rewritten, state, one))
        assert file.size_bytes == rewriter.size_bytes
        with pytest.raises(DecisionNeededError) as refused:
            self.again(rewriter, rewritten, state, both)
        assert "P265" == refused.value.code
        assert "rewrite_bytes_max" in refused.value.hint
        largest = max(f.size_bytes for f in rewritten.live_files(state))
        found = self.again(self.rewriter(commit, largest), rewritten, state, dead)
        assert [0, 1] == sorted(len(each.rewritten or ()) for each in found)

    def test_a_rollback_of_rewritten_files_is_noticed(self, rewritten: Table) -> None:
        snapshot = self.rewrite(rewritten, upserts=[3])
        self.rewrite(rewritten, deletes=[4])
        self.roll_back(rewritten, snapshot)

        assert Verdict.ROLLED_BACK is rewritten.state(self.chain).verdict

    def test_files_stay_in_their_partition(self, by_name: Table) -> None:
        self.upsert(by_name, {1: "a", 2: "a", 3: "b", 4: "a"})
        self.rewrite(by_name, deletes=[2, 3])

        assert {"a": {1, 4}} == self.ids_by_name(by_name)
        assert {1: "a", 4: "a"} == self.names(by_name)
        assert 1 == len(self.paths(by_name))

    def test_a_file_from_before_a_column_was_added_has_nulls_in_it(self, rewritten: Table) -> None:
        wider = Struct((*ORDERS.fields, Field("later", Kind.LONG)))
        rewritten.evolve(rewritten.state(self.chain), wider)
        self.rewrite(rewritten, deletes=[3])

        assert {*range(10)} - {3} == set(self.names(rewritten))
        assert {None} == {row.get("later") for row in self.rows(rewritten)}
