"""The contract of increments against memory, Iceberg on a SQLite catalog, and Delta.

PyIceberg and deltalake play the other writers.
"""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from tests.story.iceberg_other_writers import delete_positions, places_of
from tests.story.iceberg_third_format import delete_by_vectors, let_pyiceberg_write

from penstock.connectors.delta import connector as delta
from penstock.connectors.iceberg import connector as iceberg
from penstock.connectors.iceberg.catalogs.by_pointer import OwnSql
from penstock.connectors.memory.increments import (
    MemoryFileRows,
    MemoryHistory,
    MemoryIncrements,
)
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.observe.fanout import UNHEARD
from penstock.ports.increments import FileRows, Increments
from penstock.ports.sources import EpochLimit
from penstock.publishing.table_source import TableSource
from penstock.publishing.table_work import TableReader
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.increments import IncrementsContract, Ticks

NAME = "bronze.numbers"


def rows(*ids: int) -> pa.Table:
    names = pa.array([f"n{each % 2}" for each in ids], pa.string())
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names})


class Rewriting(_OverwriteFiles):
    """PyIceberg has no snapshots of rewritten files: the word in the summary is ours."""

    def _summary(self, snapshot_properties: dict[str, str] = MappingProxyType({})) -> Summary:
        found = super()._summary(dict(snapshot_properties))
        return Summary(Operation.REPLACE, **found.additional_properties)


class TestMemory(IncrementsContract):
    def make(self, place: Path) -> None:
        del place
        self.history = MemoryHistory()

    def open_increments(self) -> Increments:
        return MemoryIncrements(self.history)

    def open_file_rows(self) -> FileRows:
        return MemoryFileRows()

    def append(self, *ids: int) -> None:
        self.history.append(ids)

    def compact(self) -> None:
        paths = [each.path for each in self.history.files]
        self.history.compact(paths, keeps_sequence=False)

    def delete(self, *ids: int) -> None:
        self.history.delete(lambda row: row in ids, by_position=True)

    def overwrite(self, *ids: int) -> None:
        self.history.overwrite(ids)

    def roll_back(self, snapshot: int) -> None:
        self.history.roll_back(snapshot)

    def expire(self) -> None:
        self.history.expire(1)

    def make_again(self) -> None:
        self.history.make_again()


class TestIceberg(IncrementsContract):
    """Rows are deleted by writing files again."""

    partitioned = False

    def make(self, place: Path) -> None:
        self.settings = {"uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}
        self.catalog.create_namespace("bronze")
        self.make_table()

    @cached_property
    def catalog(self) -> SqlCatalog:
        return SqlCatalog("lake", **self.settings)

    def make_table(self) -> None:
        few = {"write.parquet.row-group-limit": "2"}
        table = self.catalog.create_table(NAME, rows().schema, properties=few)
        if self.partitioned:
            with table.update_spec() as update:
                update.add_identity("name")

    @property
    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def open_increments(self) -> Increments:
        assert iceberg.open_increments is not None
        settings = {"type": "sql", "name": "lake", **self.settings}
        return iceberg.open_increments(settings, ProcessSecrets(), UNHEARD, NAME)

    def open_file_rows(self) -> FileRows:
        assert iceberg.open_file_rows is not None
        return iceberg.open_file_rows(ProcessSecrets())

    def append(self, *ids: int) -> None:
        self.table.append(rows(*ids))

    def compact(self) -> None:
        """As a rewrite of Java does: new files in place of all, and `replace` in the summary."""
        table = self.table
        files = [task.file for task in table.scan().plan_files()]
        held = table.scan().to_arrow()
        transaction = Transaction(table)
        with Rewriting(Operation.OVERWRITE, transaction, table.io) as update:
            for file in files:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(
                table_metadata=table.metadata, df=held, io=table.io
            ):
                update.append_data_file(file)
        transaction.commit_transaction()

    def delete(self, *ids: int) -> None:
        self.table.delete(f"id in ({', '.join(map(str, ids))})")

    def overwrite(self, *ids: int) -> None:
        self.table.overwrite(rows(*ids))

    def roll_back(self, snapshot: int) -> None:
        self.table.manage_snapshots().rollback_to_snapshot(snapshot).commit()

    def expire(self) -> None:
        table = self.table
        newest = table.metadata.current_snapshot_id
        ids = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != newest]
        table.maintenance.expire_snapshots().by_ids(ids).commit()

    def make_again(self) -> None:
        self.catalog.drop_table(NAME)
        self.make_table()


class TestReferencesOfIceberg:
    """Branches and tags of a table, read as sources."""

    def test_a_branch_is_read_and_not_what_others_get(self, tmp_path: Path) -> None:
        own = TestIceberg()
        own.make(tmp_path)
        own.append(1, 2)
        table = own.table
        table.manage_snapshots().create_branch(
            table.metadata.current_snapshot_id, "audited"
        ).commit()
        source = self.source(own, "audited")
        first, stands = own.read(source, source.starts("earliest"))
        own.append(3)
        own.table.append(rows(4), branch="audited")
        later, stands = own.read(self.source(own, "audited"), stands)
        whole = self.source(own, "main")
        main, _ = own.read(whole, whole.starts("earliest"))

        assert ([1, 2], [4], [1, 2, 3]) == (sorted(first), later, sorted(main))

    def test_a_tag_is_read_once(self, tmp_path: Path) -> None:
        own = TestIceberg()
        own.make(tmp_path)
        own.append(1, 2)
        table = own.table
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "monday").commit()
        own.append(3)
        source = self.source(own, "monday")
        first, stands = own.read(source, source.starts("earliest"))
        own.append(4)

        assert [1, 2] == sorted(first)
        assert ([], stands) == own.read(self.source(own, "monday"), stands)

    def test_one_that_is_not_there_is_told_with_those_that_are(self, tmp_path: Path) -> None:
        own = TestIceberg()
        own.make(tmp_path)
        own.append(1)
        with pytest.raises(InvalidError) as caught:
            self.source(own, "audited").starts("earliest")

        assert ("P831", True) == (caught.value.code, "it has main:" in caught.value.hint)

    def source(self, own: TestIceberg, ref: str) -> TableSource:
        assert iceberg.open_increments is not None
        settings = {"type": "sql", "name": "lake", **own.settings}
        name = NAME if ref == "main" else f"{NAME}@{ref}"
        increments = iceberg.open_increments(settings, ProcessSecrets(), UNHEARD, name)
        return TableSource(increments, f"lake.{NAME}", "stop", Ticks().monotonic)


class TestIcebergByPosition(TestIceberg):
    """Rows are deleted by position delete files."""

    def delete(self, *ids: int) -> None:
        table = self.table
        delete_positions(table, [at for each in ids for at in places_of(table, "id", each)])


class TestIcebergByVectors(TestIceberg):
    """Rows are deleted by deletion vectors, in format version 3."""

    @pytest.fixture(autouse=True)
    def writers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        let_pyiceberg_write(monkeypatch)

    @cached_property
    def catalog(self) -> SqlCatalog:
        return OwnSql("lake", **self.settings)

    def make_table(self) -> None:
        self.catalog.create_table(NAME, rows().schema, properties={"format-version": "3"})

    def delete(self, *ids: int) -> None:
        table = self.table
        delete_by_vectors(table, [at for each in ids for at in places_of(table, "id", each)])


class TestIcebergInPartitions(TestIceberg):
    partitioned = True


class TestDelta(IncrementsContract):
    def make(self, place: Path) -> None:
        self.root = place / "delta"
        self.make_table()

    @property
    def place(self) -> Path:
        return self.root / "bronze" / "numbers"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.place)

    def make_table(self) -> None:
        DeltaTable.create(self.place, rows().schema)

    def open_increments(self) -> Increments:
        assert delta.open_increments is not None
        settings = {"type": "delta", "name": "lake", "root": str(self.root)}
        return delta.open_increments(settings, ProcessSecrets(), UNHEARD, NAME)

    def open_file_rows(self) -> FileRows:
        assert delta.open_file_rows is not None
        return delta.open_file_rows(ProcessSecrets())

    def append(self, *ids: int) -> None:
        few = WriterProperties(max_row_group_size=2)
        write_deltalake(self.place, rows(*ids), mode="append", writer_properties=few)

    def compact(self) -> None:
        self.table.optimize.compact()

    def delete(self, *ids: int) -> None:
        self.table.delete(f"id in ({', '.join(map(str, ids))})")

    def overwrite(self, *ids: int) -> None:
        write_deltalake(self.place, rows(*ids), mode="overwrite")

    def roll_back(self, snapshot: int) -> None:
        self.table.restore(snapshot)

    def expire(self) -> None:
        """As log clean-up does: a checkpoint, and the entries below it are gone."""
        table = self.table
        table.create_checkpoint()
        for version in range(table.version()):
            (self.place / "_delta_log" / f"{version:020d}.json").unlink()

    def make_again(self) -> None:
        shutil.rmtree(self.place)
        self.make_table()

    def test_what_a_vacuum_took_before_it_was_read_is_gone_on_from_by_a_seek(self) -> None:
        """The log has the versions for longer than the storage their files: no gap is seen there."""
        self.append(1, 2)
        stands = self.source("stop").starts("latest")
        self.append(3)
        self.append(4)
        self.compact()
        self.table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        with pytest.raises(DecisionNeededError) as stopped:
            self.read(self.source("stop"), stands)
        accepted = self.source("stop").readable(stands)
        sought = self.source("stop").places(["earliest"])

        assert ("P828", True) == (stopped.value.code, "penstock seek" in stopped.value.hint)
        assert accepted == stands
        assert [1, 2, 3, 4] == sorted(self.read(self.source("stop"), sought)[0])

    def test_a_file_whose_column_has_another_type_now_is_refused_for_good(self) -> None:
        self.append(1, 2)
        begun, was = self.source("stop").starts("earliest"), self.source("stop").ends()
        other = rows(3).set_column(1, "name", pa.array([7], pa.int64()))
        write_deltalake(self.place, other, mode="overwrite", schema_mode="overwrite")
        (stretch,) = self.source("stop").plan(begun, was, EpochLimit(1000, 1 << 30))
        with pytest.raises(InvalidError, match="Failed to parse string") as refused:
            [*TableReader(self.open_file_rows(), Ticks()).read(stretch, deadline=float("inf"))]

        assert "P438" == refused.value.code
