# ruff: noqa: D102, PLR2004, SIM300 - the names of the tests are their sentences, and offsets are examples
"""What changes a table besides landing: a wider schema, files replaced, positions put back.

Each test names what docs/design/0110 and 0111 ask of `Table.file_sources` and `Table.commit`, or
the port of `Table.evolve`: a change is made once, on what was examined.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.core.commits import Chain, CommitKind, Committable
from penstock.core.errors import InvalidError
from penstock.core.offsets import span
from penstock.core.schema import Field, Kind, List, Schema, Struct
from penstock.core.table_errors import FILES_REJECTED
from penstock.ports.tables import Table, TableFormat, TableState, Verdict
from penstock.testing.contracts.table_fixture import COLUMNS, RETAIN, TableBench
from penstock.testing.contracts.table_history import ranges_of
from penstock.testing.prepared import ORDERS, TOPIC, claim, orders, origin, positions

ALL = {(TOPIC, 0): 0, (TOPIC, 1): 0}
INNER = Struct((Field("a", Kind.LONG), Field("more", List(Struct((Field("b", Kind.DOUBLE),))))))
WIDE: Schema = Struct((*ORDERS.fields, Field("inner", INNER), Field("at", Kind.TIMESTAMPTZ)))
WIDER: Schema = Struct(
    (
        *ORDERS.fields,
        Field("inner", Struct((*INNER.fields, Field("c", Kind.STRING)))),
        Field("at", Kind.TIMESTAMPTZ),
    )
)


class WideningTests(TableBench):
    """Check `Table.evolve`."""

    def test_columns_are_added_and_nested_ones_too(self, table: Table) -> None:
        for schema in (WIDE, WIDER):
            before = table.state(self.chain)
            table.evolve(before, schema)
            after = table.state(self.chain)

            assert schema == after.schema
            assert before.uuid == after.uuid
            assert before.schema_id != after.schema_id
            assert before.landed == after.landed

    def test_rows_from_before_and_after_stand_together(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        table.evolve(table.state(self.chain), WIDE)
        state = table.state(self.chain)
        filler: dict[str, Any] = {"inner": {"a": 1, "more": [{"b": 0.5}]}, "at": None}
        rows: list[dict[str, Any]] = [
            {**filler, "id": n, "_kafka_partition": 0, "_kafka_offset": n, "_kafka_topic": "orders"}
            for n in (3, 4)
        ]
        commit = self.prepare(state, {0: (3, 5)}, files=self.write(state, rows))
        table.commit(state, commit, retain=RETAIN)

        assert [0, 1, 2, 3, 4] == self.ids(table)

    def test_a_change_on_a_stale_state_changes_nothing(self, table: Table) -> None:
        stale = table.state(self.chain)
        table.evolve(table.state(self.chain), WIDE)

        with pytest.raises(self.refused):
            table.evolve(stale, Struct((*ORDERS.fields, Field("other", Kind.LONG))))
        assert WIDE == table.state(self.chain).schema

    def test_another_handle_sees_the_change(self, catalog: TableFormat) -> None:
        table = self.create(catalog, origin(self.chain, {0: 0}))
        reader = self.found(catalog)
        reader.state(self.chain)
        table.evolve(table.state(self.chain), WIDE)

        assert WIDE == reader.state(self.chain).schema


class ByHandTests(TableBench):
    """Replacements and seeks."""

    def test_the_source_of_each_file_is_reported(self, table: Table) -> None:
        self.land(table, {0: (0, 3), 1: (0, 2)}, {0: (3, 5)})
        self.foreign_append(table)
        sources = table.file_sources(table.state(self.chain), COLUMNS, ALL)
        ranges = sorted(
            (sorted(each.found.ranges.items()), each.found.rows_without_source, each.found.rows)
            for each in sources
        )

        both = [((TOPIC, 0), span(0, 3)), ((TOPIC, 1), span(0, 2))]
        assert [([], 1, 1), (both, 0, 5), ([((TOPIC, 0), span(3, 5))], 0, 2)] == ranges

    def test_a_file_that_may_hold_rows_from_an_offset_on_is_not_left_out(
        self, table: Table
    ) -> None:
        for turn in range(4):
            self.land(table, {0: (turn * 3, turn * 3 + 3)})
        reported = table.file_sources(table.state(self.chain), COLUMNS, {(TOPIC, 0): 8})
        ends = {each.found.ranges[TOPIC, 0].stop for each in reported}

        assert {9, 12} <= ends

    def test_a_replacement_takes_files_away_and_brings_others_in_one_commit(
        self, table: Table
    ) -> None:
        self.land(table, {0: (0, 3)}, {0: (3, 5)})
        before = self.landed(table)
        snapshot = self._replace(table, (0, 3), {0: (0, 2)})
        after = self.landed(table)

        assert snapshot
        assert [0, 1, 3, 4] == self.ids(table)
        assert (before.offsets, before.segment) == (after.offsets, after.segment)
        assert Verdict.AGREED == table.state(self.chain).verdict
        history = table.history(self.chain)
        assert [(0, 3), (3, 5)] == ranges_of(history)[0]
        assert 2 == len(set(history.paths)) == len(history.paths)

    def test_a_replacement_by_nothing_takes_rows_away(self, table: Table) -> None:
        self.land(table, {0: (0, 3)}, {0: (3, 5)})
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
        replaced = self._paths(table, (0, 3))
        self._replace(table, (0, 3), {0: (0, 3)})
        state = table.state(self.chain)
        with pytest.raises(InvalidError) as caught:
            table.commit(state, self._replacement(state, replaced, ()), retain=RETAIN)

        assert FILES_REJECTED == caught.value.code
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
        self.land(table, {0: (0, 3)}, {0: (3, 5), 1: (0, 2)})
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

    def test_where_a_chain_began_is_reported(self, catalog: TableFormat) -> None:
        table = self.create(catalog, origin(self.chain, {0: 7, 1: 4}))
        assert positions({0: 7, 1: 4}) == table.history(self.chain).began
        self.land(table, {0: (7, 9)}, {0: (9, 12)})
        self._seek(table, {0: 9})

        assert positions({0: 7, 1: 4}) == table.history(self.chain).began

    def test_the_ledgers_of_all_chains_are_reported(self, catalog: TableFormat) -> None:
        other = Chain("other", self.chain.table)
        table = self.create(catalog, origin(self.chain, {0: 0}), origin(other, {0: 5}))
        reported = table.ledgers(table.state(self.chain))

        assert {self.chain.name: positions({0: 0}), "other": positions({0: 5})} == {
            each.chain: dict(each.offsets) for each in reported
        }

    def test_sources_of_very_many_partitions_are_reported(self, table: Table) -> None:
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
