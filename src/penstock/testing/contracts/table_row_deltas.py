# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The part of the table contract in which the rows that a commit replaces are found by their keys.

Rows are found by `RowDeltaResolver`, as a run finds them, and read by the format's own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.commit.row_deltas import ResolvedRows, RowDeltaResolver
from penstock.core import serialization
from penstock.core.commits import CommitKind, Committable, Keyed
from penstock.core.errors import InvalidError
from penstock.core.offsets import Positions
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.rows.keyed.merge import merge_touched
from penstock.rows.keyed.net import Changes
from penstock.rows.keyed.touched import touched_to_bytes
from penstock.testing.contracts.table_fixture import COLUMNS, RETAIN, Quiet, batch_of
from penstock.testing.contracts.table_row_deletes import RowDeleteTests
from penstock.testing.prepared import TOPIC, origin, part, positions

ODD_NAMES = ("a b", "Ö%20ü", "100%", "日本=x:y", "#?&+", "..")
ODD_PLACE = "Läger 50% voll"
ODD_PREFIX = "shöp 1%20%-0-"


class RowDeltaTests(RowDeleteTests):
    """Row deltas of one table whose rows are found by key."""

    has_odd_paths = True
    """Whether its data files lie in directories of odd names."""

    # What the tests are given.

    @pytest.fixture
    def by_name(self, place: Path) -> Iterator[Table]:
        """Create an empty table in a directory of an odd name, partitioned by name."""
        odd = place / ODD_PLACE
        odd.mkdir()
        catalog = self.open_catalog(odd)
        definition = replace(self.keyed, partition_by=("name",))
        yield catalog.create(self.name, definition, [origin(self.chain, {0: 0})])
        catalog.close()

    # Acts.

    def touching(
        self, state: TableState, offset: int, upserts: Mapping[int, str], deletes: Sequence[int]
    ) -> Committable:
        """Write a row for each id and name, and prepare the commit that touches these ids."""
        rows: list[dict[str, Any]] = [
            {
                "id": number,
                "name": upserts.get(number),
                "_kafka_topic": TOPIC,
                "_kafka_partition": 0,
                "_kafka_offset": offset + place,
            }
            for place, number in enumerate([*upserts, *deletes])
        ]
        count = len(rows)
        upsert = np.arange(count) < len(upserts)
        writer = self.open_writer()(state.target, prefix=ODD_PREFIX, observer=Quiet(), places=True)
        if upserts:
            writer.write(batch_of(state.schema, rows[: len(upserts)]))
        files = tuple(writer.close())
        file, row = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
        if upserts:
            file[upsert], row[upsert] = writer.places()
        changes = Changes(
            batch_of(state.schema, rows),
            upsert,
            np.ones(count, np.bool_),
            np.zeros(count, np.int32),
            np.arange(offset, offset + count, dtype=np.int64),
            np.zeros(count, np.int8),
        )
        content = touched_to_bytes(changes, ["id"], [part(0)], (file, row), COLUMNS)
        merged = merge_touched([(content, 0)], [each.record_count for each in files])
        ranges = {0: (offset, offset + count)}
        own = [files[ordinal] for ordinal in merged.files]
        commit = self.prepare(state, ranges, files=own, kind=CommitKind.ROW_DELTA)
        return replace(commit, keys=("id",), compares_offsets=True, touched=merged.touched)

    def upsert(
        self, table: Table, upserts: Mapping[int, str], deletes: Sequence[int] = ()
    ) -> ResolvedRows:
        """Land changes from the ledger's position on; their rows are found by key."""
        state, [offset] = table.state(self.chain), self.offsets(table)
        commit = self.touching(state, offset, upserts, deletes)
        found = RowDeltaResolver(commit).resolve(state, table, self.landed(table))
        table.commit(
            state,
            replace(commit, compares_offsets=found.compares_offsets),
            retain=RETAIN,
            row_deletes=found.row_deletes,
        )
        return found

    def ids_by_name(self, table: Table) -> dict[str, set[int]]:
        """Read the ids of each name through the port."""
        state = table.state(self.chain)
        found: dict[str, set[int]] = {}
        for file in table.live_files(state):
            for batch in table.read_live(state, file, ["id", "name"]):
                for row in batch.select(["id", "name"]).to_pylist():
                    found.setdefault(row["name"], set()).add(row["id"])
        return found

    # Promises.

    def test_a_search_on_another_state_finds_what_a_fresh_one_does(self, orders: Table) -> None:
        upserts = dict.fromkeys((1, 7, 12), "new")
        sent = self.touching(orders.state(self.chain), 10, upserts, [3])
        resolver = RowDeltaResolver(sent)
        acts: tuple[tuple[Callable[[], object], dict[str, int]], ...] = (
            (dict, {"inserted": 1, "updated": 2, "deleted": 1}),
            (dict, {"inserted": 1, "updated": 2, "deleted": 1}),
            (partial(self.foreign_append, orders), {"inserted": 1, "updated": 2, "deleted": 1}),
            (
                partial(self.foreign_delete, orders, 1),
                {"inserted": 2, "updated": 1, "deleted": 1},
            ),
            (
                partial(self.change, orders, 10, upserts=[12], deletes=[3]),
                {"inserted": 1, "updated": 2, "absent": 1},
            ),
            (partial(self.foreign_compaction, orders), {"inserted": 1, "updated": 2, "absent": 1}),
        )
        for act, counts in acts:
            act()
            state, landed = orders.state(self.chain), self.landed(orders)
            again = resolver.resolve(state, orders, landed)
            fresh = RowDeltaResolver(sent).resolve(state, orders, landed)

            assert counts == again.counts
            assert _plain(fresh) == _plain(again)

    def test_of_a_touched_key_with_several_rows_one_is_left(self, orders: Table) -> None:
        self.foreign_append(orders)
        self.foreign_append(orders)
        state = orders.state(self.chain)
        orders.commit(state, self.delta(state, 10, [3, 3, 4, 4], 4), retain=RETAIN)
        assert [3, 3, 3, 4, 4, 4] == [n for n in self.ids(orders) if n in {3, 4}]

        found = self.upsert(orders, {3: "healed", -1: "ours"}, deletes=[4])
        names = self.names(orders)
        assert {-1, *range(10)} - {4} == set(names)
        assert ["healed", "ours"] == [names[3], names[-1]]
        assert {"updated": 2, "deleted": 1, "healed": 5} == found.counts

    def test_rows_are_found_in_files_of_odd_names(self, by_name: Table) -> None:
        count = len(ODD_NAMES)
        first = {n: ODD_NAMES[n % count] for n in range(2 * count)}
        second = {n: ODD_NAMES[(n + 1) % count] for n in range(0, 2 * count, 3)}
        self.upsert(by_name, first)
        self.upsert(by_name, second, deletes=[1, 2])
        expected = {n: name for n, name in (first | second).items() if n not in {1, 2}}
        assert expected == self.names(by_name)

        self.foreign_delete(by_name, 4)
        self.upsert(by_name, {5: ODD_NAMES[0], 4: ODD_NAMES[1]})
        assert expected | {5: ODD_NAMES[0], 4: ODD_NAMES[1]} == self.names(by_name)
        files = by_name.live_files(by_name.state(self.chain))
        assert self.has_odd_paths == any("%" in file.path for file in files)

    def test_a_row_that_moves_to_another_partition_leaves_the_former(self, by_name: Table) -> None:
        self.upsert(by_name, {1: "a", 2: "a", 3: "b", 4: "c"})
        self.upsert(by_name, {1: "b", 4: "a"})

        assert {1: "b", 2: "a", 3: "b", 4: "a"} == self.names(by_name)
        assert {"a": {2, 4}, "b": {1, 3}} == self.ids_by_name(by_name)

    def test_a_table_says_where_its_topic_grew(self, catalog: TableFormat) -> None:
        ledger = replace(origin(self.chain, {0: 0}), keyed=Keyed(("id",), compares_offsets=True))
        table = catalog.create(self.name, self.keyed, [ledger])
        self.change(table, 0, upserts=range(3))
        ends = self.landed(table).offsets
        added = positions({1: 0})
        for nonce, given in (("first", ends), ("late", added)):
            state = table.state(self.chain)
            begin = self.prepare(state, {}, nonce=nonce, origins={1: 0})
            table.commit(state, replace(begin, ends=given), retain=RETAIN)

        assert (ends,) == self.landed(table).grown
        assert {**ends, **added} == self.landed(table).offsets
        self.change(table, 3, upserts=[1])
        assert (ends,) == self.landed(table).grown

    @pytest.mark.parametrize(
        ("sequence", "grown", "former"),
        [((), (), 1), (("name",), (), 2), ((), (positions({0: 0}),), 3)],
        ids=["keys", "sequence", "growth"],
    )
    def test_a_release_that_does_not_know_how_rows_are_changed_refuses_the_table(
        self,
        catalog: TableFormat,
        monkeypatch: pytest.MonkeyPatch,
        sequence: tuple[str, ...],
        grown: tuple[Positions, ...],
        former: int,
    ) -> None:
        keyed = Keyed(("id",), compares_offsets=True, sequence=sequence)
        ledger = replace(origin(self.chain, {0: 0}), keyed=keyed, grown=grown)
        table = catalog.create(self.name, self.keyed, [ledger])
        for land in (dict, partial(self.change, table, 0, upserts=range(3))):
            land()
            assert keyed == self.landed(table).keyed
            with monkeypatch.context() as released:
                released.setattr(serialization, "LEDGER_VERSION", former)
                with pytest.raises(InvalidError) as refused:
                    table.state(self.chain)
            assert "P190" == refused.value.code


def _plain(found: ResolvedRows) -> tuple[object, ...]:
    deletes = sorted((e.path, e.delete_state, e.positions.tolist()) for e in found.row_deletes)
    return deletes, found.counts, found.moved, found.across, found.compares_offsets
