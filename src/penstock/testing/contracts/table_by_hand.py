# ruff: noqa: D102, PLR2004, SIM300 - the names of the tests are their sentences, and offsets are examples
"""The half of the table contract that a human's acts need: files replaced, positions put back.

Each test names what docs/design/0110 and 0111 ask of `Table.file_sources` and `Table.commit`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.core.commits import Chain, CommitKind, Committable
from penstock.core.errors import InvalidError
from penstock.core.offsets import span
from penstock.core.table_errors import FILES_UNFIT
from penstock.ports.tables import Table, TableFormat, TableState, Verdict
from penstock.testing.contracts.table_fixture import COLUMNS, RETAIN, TableBench
from penstock.testing.prepared import TOPIC, claim, orders, origin, positions

ALL = {(TOPIC, 0): 0, (TOPIC, 1): 0}


class ByHandTests(TableBench):
    """Replacements and seeks."""

    def test_the_source_of_each_file_is_told(self, table: Table) -> None:
        self.land(table, {0: (0, 3), 1: (0, 2)})
        self.land(table, {0: (3, 5)})
        self.foreign_append(table)
        told = [each.found for each in table.file_sources(table.state(self.chain), COLUMNS, ALL)]
        ranges = sorted(
            (sorted(each.ranges.items()), each.rows_without_source, each.rows) for each in told
        )

        both = [((TOPIC, 0), span(0, 3)), ((TOPIC, 1), span(0, 2))]
        assert [([], 1, 1), (both, 0, 5), ([((TOPIC, 0), span(3, 5))], 0, 2)] == ranges

    def test_a_file_that_may_hold_rows_from_an_offset_on_is_not_left_out(
        self, table: Table
    ) -> None:
        for turn in range(4):
            self.land(table, {0: (turn * 3, turn * 3 + 3)})
        told = table.file_sources(table.state(self.chain), COLUMNS, {(TOPIC, 0): 8})
        ends = {each.found.ranges[TOPIC, 0].stop for each in told}

        assert {9, 12} <= ends

    def test_a_replacement_takes_files_away_and_brings_others_in_one_commit(
        self, table: Table
    ) -> None:
        self.land(table, {0: (0, 3)})
        self.land(table, {0: (3, 5)})
        before = self.landed(table)
        snapshot = self._replace(table, (0, 3), {0: (0, 2)})
        after = self.landed(table)

        assert snapshot
        assert [0, 1, 3, 4] == self.ids(table)
        assert (before.offsets, before.segment) == (after.offsets, after.segment)
        assert Verdict.AGREED == table.state(self.chain).verdict
        history = table.history(self.chain)
        assert [0, 3, 5] == [history.commits[0].progress[0][3], *_stops(history.commits[:2])]
        assert 2 == len(set(history.paths)) == len(history.paths)

    def test_a_replacement_by_nothing_takes_rows_away(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        self.land(table, {0: (3, 5)})
        self._replace(table, (3, 5), {})

        assert [0, 1, 2] == self.ids(table)
        assert Verdict.AGREED == table.state(self.chain).verdict

    def test_what_follows_a_replacement_lands_as_ever(self, table: Table) -> None:
        for turn in range(12):
            self.land(table, {0: (turn, turn + 1)})
        self._replace(table, (4, 5), {0: (4, 5)})
        for turn in range(12, 15):
            self.land(table, {0: (turn, turn + 1)})
        table.housekeep()

        assert [*range(15)] == self.ids(table)
        assert Verdict.AGREED == table.state(self.chain).verdict

    def test_a_file_that_is_not_live_cannot_be_replaced(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        gone = self._paths(table, (0, 3))
        self._replace(table, (0, 3), {0: (0, 3)})
        state = table.state(self.chain)
        with pytest.raises(InvalidError) as caught:
            table.commit(state, self._replacement(state, gone, ()), retain=RETAIN)

        assert FILES_UNFIT == caught.value.code
        assert [0, 1, 2] == self.ids(table)

    def test_a_replacement_on_a_stale_state_is_refused(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        state = table.state(self.chain)
        paths = [each.found.path for each in table.file_sources(state, COLUMNS, ALL)]
        self.land(table, {0: (3, 5)})
        with pytest.raises(self.refused):
            table.commit(state, self._replacement(state, paths, ()), retain=RETAIN)

        assert [*range(5)] == self.ids(table)

    def test_a_seek_puts_positions_back_and_begins_a_segment(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        self.land(table, {0: (3, 5), 1: (0, 2)})
        self._seek(table, {0: 4})
        after = self.landed(table)

        assert positions({0: 4, 1: 2}) == after.offsets
        assert 1 == after.segment
        assert Verdict.AGREED == table.state(self.chain).verdict

    def test_a_seek_ends_a_rollback_and_what_it_took_lands_again(
        self, catalog: TableFormat, table: Table
    ) -> None:
        first = self.land(table, {0: (0, 3)})
        self.land(table, {0: (3, 5)})
        self.roll_back(table, first)
        self._seek(table, {0: 3})
        again = self.found(catalog)

        assert Verdict.AGREED == again.state(self.chain).verdict
        assert positions({0: 3, 1: 0}) == self.landed(again).offsets
        self.land(again, {0: (3, 5)}, held=claim(3))
        assert [*range(5)] == self.ids(again)
        assert Verdict.AGREED == again.state(self.chain).verdict

    def test_where_a_chain_began_is_told(self, catalog: TableFormat) -> None:
        table = self.create(catalog, origin(self.chain, {0: 7, 1: 4}))
        assert positions({0: 7, 1: 4}) == table.history(self.chain).began
        self.land(table, {0: (7, 9)})
        self.land(table, {0: (9, 12)})
        self._seek(table, {0: 9})

        assert positions({0: 7, 1: 4}) == table.history(self.chain).began

    def test_the_ledgers_of_all_chains_are_told(self, catalog: TableFormat) -> None:
        other = Chain("other", self.chain.table)
        table = self.create(catalog, origin(self.chain, {0: 0}), origin(other, {0: 5}))
        told = table.ledgers(table.state(self.chain))

        assert {self.chain.name: positions({0: 0}), "other": positions({0: 5})} == {
            each.chain: dict(each.offsets) for each in told
        }

    def test_sources_of_very_many_partitions_are_told(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        many = {(TOPIC, number): 0 for number in range(1200)}

        assert 1 == len(table.file_sources(table.state(self.chain), COLUMNS, many))

    def _paths(self, table: Table, taken: tuple[int, int]) -> list[str]:
        return [
            each.found.path
            for each in table.file_sources(table.state(self.chain), COLUMNS, ALL)
            if each.found.ranges.get((TOPIC, 0)) == span(*taken)
        ]

    def _replace(self, table: Table, taken: tuple[int, int], brought: Any) -> str:
        paths = self._paths(table, taken)
        state = table.state(self.chain)
        files = self.write(state, orders(brought)) if brought else ()
        return table.commit(state, self._replacement(state, paths, files), retain=RETAIN)

    def _replacement(self, state: TableState, paths: Any, files: Any) -> Committable:
        nonce = f"replace:{state.head}"
        commit = self.prepare(state, {}, kind=CommitKind.REPLACE, nonce=nonce, held=claim(2))
        return replace(commit, files=tuple(files), removes=tuple(paths))

    def _seek(self, table: Table, offsets: dict[int, int]) -> str:
        state = table.state(self.chain)
        commit = self.prepare(
            state, {}, kind=CommitKind.SEEK, origins=offsets, nonce="seek", held=claim(2)
        )
        return table.commit(state, replace(commit, segment=1), retain=RETAIN)


def _stops(commits: Any) -> list[int]:
    return [row[4] for commit in commits for row in commit.progress]
