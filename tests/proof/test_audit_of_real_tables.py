"""`penstock audit --count` is shown faults in real Iceberg and Delta tables, and finds each.

Every fault is planted alone, by the hands that would do it: the table's own library, or an editor.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from tests.crash.field import Field
from tests.processes.process import Driver
from tests.servers.warm import WarmProcess

from penstock.app.inspect.audit import audit
from penstock.connectors.delta.log.ledger import MARK_KEY
from penstock.dev.broker import Running
from penstock.spec.load import load

NAME = "field.one"
CONNECTORS = ("iceberg", "delta")


@pytest.fixture(scope="module", params=CONNECTORS)
def landed(
    request: pytest.FixtureRequest, broker: Running, tmp_path_factory: pytest.TempPathFactory
) -> Field:
    """A table of three commits, with refused records."""
    place = tmp_path_factory.mktemp(f"audited-{request.param}") / "field"
    ground = Field(place, broker.bootstrap, place.parent.name, request.param, 1)
    for bad in (False, True, True):
        ground.send(bad=bad)
        with Driver(ground.spec, "--until-caught-up", start=WarmProcess) as driver:
            assert 0 == driver.end().code, driver.log
    return ground


@pytest.fixture
def ground(landed: Field, tmp_path: Path) -> Iterator[Field]:
    """The same table, put right again afterwards."""
    lake = landed.directory / "lake"
    shutil.copytree(lake, tmp_path / "kept")
    yield landed
    shutil.rmtree(lake)
    shutil.move(tmp_path / "kept", lake)


def found(ground: Field) -> set[str]:
    """Audit, and give the kinds of what is broken."""
    outcome = audit(load(ground.spec), rows=True)
    [table] = outcome.tables
    kinds = {each.kind for each in table.breaks}
    assert (4 if kinds else 0) == outcome.exit_code, table
    return kinds


def iceberg(ground: Field) -> Any:
    return load_catalog("lake", **ground.catalog).load_table(NAME)


def delta(ground: Field) -> DeltaTable:
    return DeltaTable(str(delta_place(ground)))


def delta_place(ground: Field) -> Path:
    return Path(ground.catalog["root"]) / "field/one"


def newest_entry(ground: Field) -> Path:
    return max((delta_place(ground) / "_delta_log").glob("*.json"))


def lines_of(entry: Path) -> list[str]:
    """Read a log entry: statistics may hold what `splitlines` takes for the end of a line."""
    return entry.read_text().strip().split("\n")


def by(ground: Field, **acts: Callable[[Field], None]) -> None:
    acts[ground.connector](ground)


def test_tables_that_are_right_break_nothing(ground: Field) -> None:
    assert set() == found(ground)
    assert 28 == len(ground.rows(NAME)) + len(ground.rows("ops.quarantine")) - 6
    assert [] == ground.differences()


def test_a_lost_row_is_found(ground: Field) -> None:
    by(
        ground,
        iceberg=lambda g: iceberg(g).delete("id = 3"),
        delta=lambda g: delta(g).delete("id = 3"),
    )
    assert "lost" in found(ground)


def test_a_doubled_row_is_found(ground: Field) -> None:
    def again_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        table.append(table.scan(row_filter="id = 3").to_arrow())

    def again_delta(ground: Field) -> None:
        row = delta(ground).to_pyarrow_table(filters=[("id", "=", 3)])
        write_deltalake(delta(ground), row, mode="append")

    by(ground, iceberg=again_iceberg, delta=again_delta)
    assert {"doubled"} == found(ground)


def test_one_record_in_the_place_of_another_is_found(ground: Field) -> None:
    def swap_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        other = table.scan(row_filter="id = 4").to_arrow()
        table.delete("id = 3")
        table.append(other)

    def swap_delta(ground: Field) -> None:
        other = delta(ground).to_pyarrow_table(filters=[("id", "=", 4)])
        delta(ground).delete("id = 3")
        write_deltalake(delta(ground), other, mode="append")

    by(ground, iceberg=swap_iceberg, delta=swap_delta)
    assert {"lost", "doubled"} <= found(ground)


def test_a_torn_commit_is_found(ground: Field) -> None:
    """The ledger says all of it, and one of its files is not in the table."""

    def tear_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        newest = table.current_snapshot().snapshot_id
        [*_, file] = [
            each.file
            for each in table.scan().plan_files()
            if each.file.file_path in _added(table, newest)
        ]
        with table.transaction() as change, change.update_snapshot().overwrite() as update:
            update.delete_data_file(file)

    def tear_delta(ground: Field) -> None:
        entry = newest_entry(ground)
        lines = lines_of(entry)
        torn = next(line for line in lines if "add" in json.loads(line))
        entry.write_text("\n".join(line for line in lines if line != torn))

    by(ground, iceberg=tear_iceberg, delta=tear_delta)
    assert "lost" in found(ground)


def _added(table: Any, snapshot: int) -> set[str]:
    entries = table.inspect.entries(snapshot).to_pylist()
    return {each["data_file"]["file_path"] for each in entries if each["snapshot_id"] == snapshot}


def test_a_missing_file_is_found(ground: Field) -> None:
    def remove_iceberg(ground: Field) -> None:
        file = next(iter(iceberg(ground).scan().plan_files())).file
        Path(file.file_path.removeprefix("file://")).unlink()

    def remove_delta(ground: Field) -> None:
        Path(delta(ground).file_uris()[0].removeprefix("file://")).unlink()

    by(ground, iceberg=remove_iceberg, delta=remove_delta)
    assert "file" in found(ground)


def test_a_file_added_twice_is_found(ground: Field) -> None:
    def add_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        file = next(iter(table.scan().plan_files())).file
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            append.append_data_file(file)

    def add_delta(ground: Field) -> None:
        """A log knows a path once, so the file is added under a second name."""
        entry = newest_entry(ground)
        [add, *_] = [json.loads(line) for line in lines_of(entry) if '"add"' in line]
        path = delta_place(ground) / add["add"]["path"]
        shutil.copy(path, path.with_name(f"copy-{path.name}"))
        add["add"]["path"] = f"copy-{path.name}"
        number = int(entry.stem) + 1
        info = {"commitInfo": {"operation": "WRITE", "timestamp": add["add"]["modificationTime"]}}
        text = "\n".join(json.dumps(each) for each in (info, add))
        entry.with_name(f"{number:020}.json").write_text(text)

    by(ground, iceberg=add_iceberg, delta=add_delta)
    assert {"iceberg": {"file", "doubled"}, "delta": {"doubled"}}[ground.connector] == found(ground)


def test_a_rollback_by_others_is_found(ground: Field) -> None:
    def roll_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        before = table.current_snapshot().parent_snapshot_id
        table.manage_snapshots().rollback_to_snapshot(before).commit()

    def roll_delta(ground: Field) -> None:
        delta(ground).restore(delta(ground).version() - 1)

    by(ground, iceberg=roll_iceberg, delta=roll_delta)
    assert "witnesses" in found(ground)


@pytest.mark.parametrize("moved", [-1, 1])
def test_a_ledger_that_was_edited_is_found(ground: Field, moved: int) -> None:
    def edit_iceberg(ground: Field) -> None:
        table = iceberg(ground)
        [key] = [each for each in table.properties if each.startswith("penstock.ledger.")]
        ledger = json.loads(table.properties[key])
        [topic] = ledger["topics"].values()
        topic["offsets"] = {at: n + moved for at, n in topic["offsets"].items()}
        with table.transaction() as change:
            change.set_properties({key: json.dumps(ledger)})

    def edit_delta(ground: Field) -> None:
        entry = newest_entry(ground)
        lines = [json.loads(line) for line in lines_of(entry)]
        [info] = [each["commitInfo"] for each in lines if "commitInfo" in each]
        for mark in info[MARK_KEY]["chains"]:
            for topic in mark["ledger"]["topics"].values():
                topic["offsets"] = {at: n + moved for at, n in topic["offsets"].items()}
        entry.write_text("\n".join(json.dumps(line) for line in lines))

    by(ground, iceberg=edit_iceberg, delta=edit_delta)
    assert found(ground) & {"ledger", "witnesses", "gap", "lost"}
