# ruff: noqa: D102 - the names of the tests are their sentences
"""The contract of exchanges: rows of a partition meet, and what was written is read, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import pytest

from penstock.core.errors import UnavailableError
from penstock.core.exchange import ExchangeFile
from penstock.ports.exchange import Exchange, ExchangeFactory
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState
from penstock.ports.writers import Distribution
from penstock.testing.contracts.table_fixture import Quiet, TableBench, batch_of
from penstock.testing.prepared import ORDERS, orders, origin

_PREFIXES = ("shop-1-0-0c0ffee0", "shop-1-1-0c0ffee1")
_NAMES = 7


class ExchangeTests(TableBench):
    """Exchanges of one table format, of tables with `properties`."""

    properties: ClassVar[Mapping[str, str]] = {}

    def open_exchange(self) -> ExchangeFactory:
        """Return the connector's own factory of exchanges."""
        raise NotImplementedError

    def test_rows_of_a_partition_are_in_one_part_whichever_task_wrote_them(
        self, catalog: TableFormat
    ) -> None:
        exchange, files = self._exchanged(catalog)
        parts: defaultdict[str, set[int]] = defaultdict(set)
        read = []
        for file in files:
            for block in file.blocks:
                for rows in exchange.read((replace(file, blocks=(block,)),)):
                    assert rows.num_rows == block.rows
                    read += rows.to_pylist()
                    for name in rows.column("name").to_pylist():
                        parts[name].add(block.part)

        assert [len(each) for each in parts.values()] == [1] * _NAMES
        assert [*range(24)] == sorted(row["id"] for row in read)

    def test_rows_of_a_part_come_back_in_the_order_of_writing(self, catalog: TableFormat) -> None:
        exchange, files = self._exchanged(catalog)
        seen: defaultdict[str, list[int]] = defaultdict(list)
        for rows in exchange.read(tuple(files)):
            for row in rows.to_pylist():
                seen[row["name"]].append(row["id"])

        assert all(ids == sorted(ids) for ids in seen.values()), seen

    def test_an_exchange_file_that_is_gone_or_another_is_an_error(
        self, catalog: TableFormat
    ) -> None:
        exchange, (first, second) = self._exchanged(catalog)
        with pytest.raises(UnavailableError):
            [*exchange.read((replace(first, path=second.path),))]
        exchange.discard([first.path])
        with pytest.raises(UnavailableError):
            [*exchange.read((first,))]
        exchange.discard([first.path])  # what is gone is no error

    def test_only_a_table_with_partitions_and_a_word_for_it_has_an_exchange(
        self, catalog: TableFormat
    ) -> None:
        plain = self._state(self._created(catalog, "plain", ()))
        parted = self._state(self._created(catalog, "parted", ("name",)))
        opened = [
            self.open_exchange()(state.target, word, observer=Quiet())
            for state, word in (
                (plain, Distribution.HASH),
                (parted, Distribution.NONE),
                (parted, Distribution.AUTO),
            )
        ]

        assert opened == [None] * 3

    def _exchanged(self, catalog: TableFormat) -> tuple[Exchange, list[ExchangeFile]]:
        """Write 24 rows of 7 names by two tasks."""
        state = self._state(self._created(catalog, "exchanged", ("name",)))
        exchange = self.open_exchange()(state.target, Distribution.HASH, observer=Quiet())
        assert exchange is not None
        rows = [
            {**row, "id": number, "name": f"name {number % _NAMES}"}
            for number, row in enumerate(orders({0: (0, 24)}))
        ]
        files: list[ExchangeFile] = []
        for prefix, start in zip(_PREFIXES, (0, 12), strict=True):
            writer = exchange.writer(prefix)
            for at in (start, start + 5):
                stop = start + 5 if at == start else start + 12
                writer.write(batch_of(state.schema, rows[at:stop]))
            files += writer.close()
        return exchange, files

    def _created(self, catalog: TableFormat, name: str, by: tuple[str, ...]) -> Table:
        definition = TableDefinition(ORDERS, by, self.properties)
        named = self.name.replace("orders", name)
        return catalog.create(named, definition, [origin(self.chain, {0: 0})])

    def _state(self, table: Table) -> TableState:
        return table.state(self.chain)
