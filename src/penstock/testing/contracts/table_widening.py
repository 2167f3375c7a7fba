# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and offsets are examples
"""The growing part of the table contract: a wider schema, made once, on what was examined."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.schema import Field, Kind, List, Schema, Struct
from penstock.ports.tables import Table, TableFormat
from penstock.testing.contracts.table_fixture import RETAIN, TableBench
from penstock.testing.prepared import ORDERS, origin

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

    def test_rows_from_before_and_after_stand_beside_each_other(self, table: Table) -> None:
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
