"""The table contract against Iceberg on a SQLite catalog; PyIceberg plays the other writer."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import LongType
from tests.story.iceberg_other_writers import compact, delete_positions, places_of
from tests.story.iceberg_third_format import delete_by_vectors, let_pyiceberg_write

from penstock.connectors.iceberg import connector
from penstock.connectors.iceberg.catalogs.by_pointer import OwnSql
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows
from penstock.core.commits import Chain, CommitKind, Landed
from penstock.core.errors import InvalidError
from penstock.core.offsets import span
from penstock.ports.exchange import ExchangeFactory
from penstock.ports.increments import FileRows
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.tables import Table, TableDefinition, TableFormat, Verdict
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table import TableContract
from penstock.testing.contracts.table_changes import ByHandTests, WideningTests
from penstock.testing.contracts.table_exchange import ExchangeTests
from penstock.testing.contracts.table_fixture import (
    COLUMNS,
    RETAIN,
    Quiet,
    TableBench,
    foreign_row,
)
from penstock.testing.contracts.table_history import HistoryTests
from penstock.testing.contracts.table_landing import LandingTests
from penstock.testing.contracts.table_maintenance import MaintenanceTests
from penstock.testing.contracts.table_purges import PurgeTests
from penstock.testing.contracts.table_upkeep import UpkeepTests
from penstock.testing.contracts.table_writers import WriterTests
from penstock.testing.prepared import ORDERS, TOPIC, origin, positions


class Plain:
    def resolve(self, text: str) -> str:
        return text


AT_ONCE = {"history.expire.max-snapshot-age-ms": "0"}
"""Lets go of snapshots whatever their age, so that trimming can be seen."""
THIRD = {"format-version": "3", **AT_ONCE}


class IcebergFixture(TableBench):
    """The hooks; another writer knows the catalog by the same name."""

    def create(self, catalog: TableFormat, *ledgers: Landed) -> Table:
        return catalog.create(self.name, TableDefinition(ORDERS, properties=AT_ONCE), ledgers)

    def open_catalog(self, place: Path) -> TableFormat:
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"file://{place}/warehouse",
        }
        return connector.open_catalog({"name": "lake", **self.settings}, Plain(), Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(connector.open_writer, secrets=ProcessSecrets({}))

    def open_file_rows(self) -> FileRows:
        return connector.open_file_rows(ProcessSecrets({}))

    def foreign(self, table: Table):
        return SqlCatalog("lake", **self.settings).load_table(table.name.partition("@")[0])

    def rows(self, table: Table):
        return self.foreign(table).scan().to_arrow().to_pylist()

    def foreign_append(self, table: Table) -> None:
        foreign = self.foreign(table)
        row = foreign_row()
        columns = [name for name in foreign.schema().column_names if name in row]
        assert columns == foreign.schema().column_names
        foreign.append(pa.Table.from_pylist([row], schema=foreign.schema().as_arrow()))

    def roll_back(self, table: Table, snapshot: str) -> None:
        self.foreign(table).manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        SqlCatalog("lake", **self.settings).drop_table(name)

    def snapshots(self, table: Table) -> list[str]:
        return [str(each.snapshot_id) for each in self.foreign(table).snapshots()]


class TestIcebergExchanges(IcebergFixture, ExchangeTests):
    """Rows of a partition meet through files in its directory."""

    def open_exchange(self) -> ExchangeFactory:
        return partial(connector.open_exchange, secrets=ProcessSecrets({}))


class TestIcebergTables(IcebergFixture, TableContract):
    layouts = (
        *TableContract.layouts,
        TableDefinition(ORDERS, partition_by=("truncate(10, id)",)),
        TableDefinition(ORDERS, identifier_fields=("id",)),
    )


class TestIcebergUpkeep(IcebergFixture, UpkeepTests):
    """Snapshots expire, and files that nothing names go."""


class TestIcebergRowDeletes(IcebergFixture, MaintenanceTests, PurgeTests):
    """Another writer deletes by position delete files about one data file each."""

    keyed = TableDefinition(ORDERS, keys=("id",), properties=AT_ONCE)
    bounds = True
    branch = "main"

    def foreign_delete(self, table: Table, number: int) -> None:
        foreign = self.foreign(table)
        places = places_of(foreign, "id", number, self.branch)
        delete_positions(foreign, places, self.branch, bounds=self.bounds)

    def foreign_compaction(self, table: Table) -> None:
        compact(self.foreign(table), self.branch)

    def test_files_of_a_former_layout_are_rewritten_as_the_table_is_now(self, orders):
        rows = {row["id"]: row for row in self.rows(orders)}
        foreign = self.foreign(orders)
        with foreign.update_schema() as change:
            change.rename_column("name", "title")
        with foreign.update_schema() as change:
            change.add_column("name", LongType())
        with foreign.update_spec() as change:
            change.add_field("id", TruncateTransform(2), "pair")
        self.rewrite(orders, deletes=[3])
        expected = {
            number: {**row, "title": row["name"], "name": None}
            for number, row in rows.items()
            if number != 3
        }

        assert expected == {row["id"]: row for row in self.rows(orders)}
        head = self.foreign(orders).snapshot_by_name(self.branch)
        found = self.foreign(orders).inspect.files(head.snapshot_id).to_pylist()
        pairs = {each["partition"]["pair"]: each["record_count"] for each in found}
        assert {0: 2, 2: 1, 4: 1, None: 5} == pairs


class TestIcebergRowDeletesOfPartitions(TestIcebergRowDeletes):
    """Another writer deletes by files about whatever data file of a partition they name."""

    keyed = TableDefinition(
        ORDERS, ("_kafka_topic", "_kafka_partition"), properties=AT_ONCE, keys=("id",)
    )
    bounds = False

    def test_a_delete_file_goes_with_the_last_data_file_that_it_is_about(self, orders):
        self.foreign_delete(orders, 2)
        self.maintain(orders)
        summary = self.foreign(orders).snapshot_by_name(self.branch).summary

        assert {"total-delete-files": "0", "total-position-deletes": "0"} == {
            key: summary[key] for key in ("total-delete-files", "total-position-deletes")
        }
        assert [0, 1, *range(3, 10)] == self.ids(orders)

    def test_a_delete_file_stays_for_a_data_file_that_it_is_about(self, orders):
        foreign = self.foreign(orders)
        [one], [other] = (places_of(foreign, "id", number, self.branch) for number in (1, 6))
        delete_positions(foreign, [one, other], self.branch, bounds=False)
        left = [row for row in self.rows(orders) if row["id"] < 5]
        state = orders.state(self.chain)
        gone = orders.delete_states(state, [one[0].file_path])
        orders.rearrange(state, [Rearrangement(gone, self.write(state, left))])

        assert [0, *range(2, 6), *range(7, 10)] == self.ids(orders)


class TestIcebergTablesOfTheFirstFormat(TestIcebergTables):
    """Format version 1 counts no sequence numbers, and knows branches all the same."""

    def create(self, catalog: TableFormat, *ledgers: Landed) -> Table:
        definition = TableDefinition(ORDERS, properties={"format-version": "1", **AT_ONCE})
        return catalog.create(self.name, definition, ledgers)


class ThirdFormat(IcebergFixture):
    """The hooks for format version 3; another writer has what PyIceberg lacks of it."""

    @pytest.fixture(autouse=True)
    def writers(self, monkeypatch):
        let_pyiceberg_write(monkeypatch)

    def create(self, catalog: TableFormat, *ledgers: Landed) -> Table:
        return catalog.create(self.name, TableDefinition(ORDERS, properties=THIRD), ledgers)

    def foreign(self, table: Table):
        return OwnSql("lake", **self.settings).load_table(table.name.partition("@")[0])


class TestIcebergTablesOfTheThirdFormat(ThirdFormat, LandingTests, HistoryTests):
    """What its metadata tell: row ids, lists and manifests of its own."""

    layouts = (TableDefinition(ORDERS, properties=THIRD),)


@pytest.mark.slow  # next to those of the second format
class TestIcebergUpkeepOfTheThirdFormat(ThirdFormat, UpkeepTests):
    """Snapshots expire and files are swept where rows have ids."""


class TestChangesOfTheThirdFormat(ThirdFormat, WideningTests, ByHandTests, WriterTests):
    layouts = TestIcebergTablesOfTheThirdFormat.layouts


class TestIcebergVectors(ThirdFormat, MaintenanceTests, PurgeTests):
    """Rows are deleted by deletion vectors, by us and by another writer; rows keep their ids."""

    keyed = TableDefinition(ORDERS, keys=("id",), properties=THIRD)

    def foreign_delete(self, table: Table, number: int) -> None:
        foreign = self.foreign(table)
        delete_by_vectors(foreign, places_of(foreign, "id", number))

    def foreign_compaction(self, table: Table) -> None:
        compact(self.foreign(table))

    def row_ids(self, table: Table) -> dict[int, tuple[int, int]]:
        """Return row id and sequence number of the last change, by the rows' own ids."""
        state = table.state(self.chain)
        columns = ["id", *state.row_ids]
        return {
            number: (row_id, changed)
            for file in table.live_files(state)
            for batch in table.read_live(state, file, columns)
            for number, row_id, changed in zip(
                *batch.select(columns).to_pydict().values(), strict=True
            )
        }

    def test_rows_keep_their_ids_wherever_they_go(self, rewritten):
        before = self.row_ids(rewritten)
        self.rewrite(rewritten, upserts=[3], deletes=[7])
        after = self.row_ids(rewritten)
        stay = before.keys() - {3, 7}
        assert {each: before[each] for each in stay} == {each: after[each] for each in stay}
        assert after[3][0] > max(each for each, _ in before.values())

        done = self.maintain(rewritten, lambda: self.change(rewritten, 12, deletes=[1]))
        assert (1, 1, 0) == (done.groups, done.carried, done.given_up)
        assert {each: after[each] for each in after if each != 1} == self.row_ids(rewritten)
        assert 8 == len({each for each, _ in self.row_ids(rewritten).values()})

    def test_each_data_file_has_one_vector_whoever_deleted(self, orders):
        self.foreign_delete(orders, 3)
        for number in (4, 5):
            self.change(orders, *self.offsets(orders), deletes=[number])
        live = KeptRows("orders", "main").of(self.foreign(orders))
        vectors = {path: [*each] for path, each in live.about_one.items()}

        assert {1} == {len(each) for each in vectors.values()}
        assert 3 == sum(len(live.deleted_in(path)) for path in vectors)
        assert 3 == sum(each.data_file.record_count for [each] in vectors.values())


class BranchFixture(IcebergFixture):
    """The hooks for a branch, which another writer knows by its name."""

    name = "bronze.orders@audited"

    def rows(self, table: Table):
        foreign = self.foreign(table)
        there = "audited" in foreign.metadata.refs
        scan = foreign.scan().use_ref("audited") if there else foreign.scan()
        return scan.to_arrow().to_pylist()

    def foreign_append(self, table: Table) -> None:
        foreign = self.foreign(table)
        row = pa.Table.from_pylist([foreign_row()], schema=foreign.schema().as_arrow())
        there = "audited" in foreign.metadata.refs
        foreign.append(row, branch="audited" if there else "main")

    def roll_back(self, table: Table, snapshot: str) -> None:
        self.foreign(table).manage_snapshots().create_branch(int(snapshot), "audited").commit()

    def drop(self, catalog: TableFormat, name: str) -> None:
        super().drop(catalog, name.partition("@")[0])

    def snapshots(self, table: Table) -> list[str]:
        """List them but for the empty one on main, at which the branch begins."""
        begun = str(self.foreign(table).metadata.refs["main"].snapshot_id)
        return [each for each in super().snapshots(table) if each != begun]


class TestIcebergRowDeletesOnBranches(BranchFixture, TestIcebergRowDeletes):
    """Rows are deleted on a branch, and main has none of it."""

    branch = "audited"


class TestIcebergUpkeepOfABranch(BranchFixture, TestIcebergUpkeep):
    """The same where the pipeline lands on a branch."""


class TestIcebergBranches(BranchFixture, TestIcebergTables):
    """All is as on main, which nothing of this reaches."""

    def test_main_stays_as_it_is(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})

        assert [] == self.foreign(table).scan().to_arrow().to_pylist()
        refs = self.foreign(table).metadata.refs
        assert {"main", "audited", "penstock-shop.audited"} == set(refs)

    def test_main_and_a_branch_have_ledgers_of_their_own(self, catalog: TableFormat) -> None:
        chain = Chain(self.chain.name, "lake.bronze.orders")
        main = catalog.create("bronze.orders", TableDefinition(ORDERS), [origin(chain, {0: 0})])
        state = main.state(chain)
        main.commit(state, self.append(state, {0: (0, 2)}, chain=chain), retain=RETAIN)
        branch = self.found(catalog)

        assert branch.state(self.chain).landed is None
        state = branch.state(self.chain)
        commit = self.append(state, {0: (2, 5)}, origins={0: 2})
        branch.commit(state, commit, retain=RETAIN)
        state = main.state(chain)
        main.commit(state, self.append(state, {0: (2, 3)}, chain=chain), retain=RETAIN)

        assert [0, 1, 2, 3, 4] == self.ids(branch)
        assert positions({0: 5}) == self.landed(branch).offsets
        assert positions({0: 3}) == self.landed(main, chain).offsets
        assert [3] == [each.rows for each in branch.history(self.chain).commits]
        assert [2, 1] == [each.rows for each in main.history(chain).commits]

    def test_the_rows_of_a_branch_that_was_published_and_dropped_are_seen(
        self, table: Table
    ) -> None:
        self.land(table, {0: (0, 3)})
        self._publish(table)
        state = table.state(self.chain)
        reported = table.file_sources(state, COLUMNS, {(TOPIC, 0): 0})

        assert Verdict.ROLLED_BACK == state.verdict
        assert [{(TOPIC, 0): span(0, 3)}] == [dict(each.found.ranges) for each in reported]
        assert 3 == table.row_coordinates(COLUMNS).num_rows

    def test_a_branch_does_not_start_over_on_a_main_that_moved(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        self._publish(table)
        state = table.state(self.chain)
        self.foreign_append(table)
        commit = self.prepare(state, {}, kind=CommitKind.SEEK, origins={0: 3}, nonce="seek")
        with pytest.raises(self.refused):
            table.commit(state, replace(commit, segment=1), retain=RETAIN)

        assert state.head != table.state(self.chain).head

    def _publish(self, table: Table) -> None:
        """Make the branch main's head, and drop it."""
        foreign = self.foreign(table)
        head = foreign.metadata.refs["audited"].snapshot_id
        foreign.manage_snapshots().set_current_snapshot(snapshot_id=head).commit()
        self.foreign(table).manage_snapshots().remove_branch("audited").commit()

    def test_a_branch_of_the_name_of_a_tag_is_refused(self, table: Table) -> None:
        self.land(table, {0: (0, 3)})
        foreign = self.foreign(table)
        head = foreign.metadata.refs["audited"].snapshot_id
        with foreign.manage_snapshots() as snapshots:
            snapshots.remove_branch("audited").create_tag(head, "audited")

        with pytest.raises(InvalidError, match="a tag named audited"):
            table.state(self.chain)
