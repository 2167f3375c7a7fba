"""A checker counts only if it was shown a planted fault and found it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from tests.crash.stage import Stage
from tests.processes.broker import Cluster
from tests.servers.warm import WarmProcess, warm_penstock

from penstock.dev.broker import Running
from penstock.testing.sent import Sent

Plant = Callable[[pa.Table], pa.Table]
TABLES = ("lake.crash.orders", "delta.crash.orders", "lake.crash.clicks")
QUARANTINE = "lake.ops.quarantine"


def caught_up(stage: Stage) -> int:
    return warm_penstock("run", stage.spec, "--until-caught-up", environment={}).code


@pytest.fixture(scope="module")
def stage(broker: Running, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("oracle"), broker.bootstrap, "oracle", "inline")
    stage.build()
    assert 0 == caught_up(stage)
    cluster = Cluster(broker.bootstrap)
    for topic in stage.topics.values():
        cluster.send(topic, 0, [Sent(b"not json"), Sent(None), Sent(b'{"id": true}')])
        cluster.begin(topic, 1, [Sent(b'{"id": 7}')]).abort()
    assert 0 == caught_up(stage)
    return stage


@pytest.fixture
def planted(stage: Stage) -> Iterator[Callable[[Sequence[str], Plant], None]]:
    """Rewrite tables with a fault in each; they are put right again afterwards."""
    originals: dict[str, pa.Table] = {}

    def plant(tables: Sequence[str], fault: Plant) -> None:
        for table in tables:
            originals[table] = _read(stage, table)
            _write(stage, table, fault(originals[table]))

    yield plant
    for table, rows in originals.items():
        _write(stage, table, rows)


def _kinds(stage: Stage) -> set[tuple[str, str]]:
    return {(finding.table, finding.kind) for finding in stage.differences()}


def test_silence_means_that_all_is_there(stage: Stage) -> None:
    assert [] == stage.differences()
    assert 9 == _read(stage, QUARANTINE).num_rows


def test_a_lost_row_is_found_in_every_table(stage: Stage, planted) -> None:
    planted(TABLES, lambda rows: rows.slice(1))
    assert {(table, "lost") for table in TABLES} == _kinds(stage)


def test_a_doubled_row_is_found_in_every_table(stage: Stage, planted) -> None:
    planted(TABLES, lambda rows: pa.concat_tables([rows, rows.slice(5, 1)]))
    assert {(table, "doubled") for table in TABLES} == _kinds(stage)


def test_a_changed_value_is_found_in_every_table(stage: Stage, planted) -> None:
    planted(TABLES, lambda rows: _with(rows, "id", lambda ids: [ids[0] + 1, *ids[1:]]))
    assert {(table, "changed") for table in TABLES} == _kinds(stage)


def test_two_rows_that_swapped_their_places_are_found_in_every_table(stage: Stage, planted) -> None:
    planted(
        TABLES,
        lambda rows: _with(rows, "_kafka_offset", lambda all_: [all_[1], all_[0], *all_[2:]]),
    )
    changed = [finding for finding in stage.differences() if finding.kind == "changed"]
    assert 2 * len(TABLES) == len(changed)


def test_a_row_that_kafka_never_committed_is_found(stage: Stage, planted) -> None:
    planted(["lake.crash.clicks"], lambda rows: pa.concat_tables([rows, _at(rows, offset=20)]))
    assert {("lake.crash.clicks", "foreign")} == _kinds(stage)


def test_a_null_where_a_value_was_is_found(stage: Stage, planted) -> None:
    planted(
        ["delta.crash.orders"], lambda rows: _with(rows, "shop", lambda all_: [None, *all_[1:]])
    )
    assert {("delta.crash.orders", "changed")} == _kinds(stage)


def test_a_record_in_its_table_and_in_quarantine_is_found(stage: Stage, planted) -> None:
    both = Sent(b'{"id": 1, "page": null}')
    planted([QUARANTINE], lambda rows: pa.concat_tables([rows, _misplaced(rows, both)]))
    assert {("lake.crash.clicks", kind) for kind in ("both", "refused", "mangled")} == _kinds(stage)


def test_a_record_refused_for_a_fault_of_ours_is_found(stage: Stage, planted) -> None:
    planted([QUARANTINE], lambda rows: _with(rows, "code", lambda all_: ["P344", *all_[1:]]))
    assert {"refused"} == {kind for _, kind in _kinds(stage)}


def test_a_reject_lost_doubled_or_with_other_bytes_is_found(stage: Stage, planted) -> None:
    def fault(rows: pa.Table) -> pa.Table:
        values = ["other bytes" if v == b"not json" else v for v in rows["value"].to_pylist()]
        ordered = rows.set_column(
            rows.schema.get_field_index("value"), rows.schema.field("value"), [values]
        ).sort_by([("table", "ascending"), ("offset", "ascending")])
        return pa.concat_tables([ordered.slice(0, 7), ordered.slice(6, 1)])

    planted([QUARANTINE], fault)
    found = {kind for _, kind in _kinds(stage)}
    assert {"lost", "doubled", "mangled"} == found


def _with(rows: pa.Table, column: str, change: Callable[[list], list]) -> pa.Table:
    field = rows.schema.field(column)
    values = pa.array(change(rows[column].to_pylist()), field.type)
    return rows.set_column(rows.schema.get_field_index(column), field, values)


def _at(rows: pa.Table, *, offset: int) -> pa.Table:
    """Return one row of partition 1 as if it were at another offset."""
    one = rows.filter(pc.equal(rows["_kafka_partition"], 1)).slice(0, 1)
    return _with(one, "_kafka_offset", lambda _: [offset])


def _misplaced(rows: pa.Table, sent: Sent) -> pa.Table:
    """Return a reject of clicks for a record that landed: partition 0, offset 0."""
    one = rows.filter(pc.equal(rows["table"], "lake.crash.clicks")).slice(0, 1)
    one = _with(one, "offset", lambda _: [0])
    return _with(one, "value", lambda _: [sent.value])


def _iceberg(stage: Stage, table: str):
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{stage.directory}/lake/catalog.db")
    return catalog.load_table(table.removeprefix("lake."))


def _read(stage: Stage, table: str) -> pa.Table:
    if table.startswith("delta."):
        return DeltaTable(str(stage.directory / "delta/crash/orders")).to_pyarrow_table()
    return _iceberg(stage, table).scan().to_arrow()


def _write(stage: Stage, table: str, rows: pa.Table) -> None:
    if table.startswith("delta."):
        write_deltalake(str(stage.directory / "delta/crash/orders"), rows, mode="overwrite")
    else:
        _iceberg(stage, table).overwrite(rows)


def test_whoever_asks_a_process_for_its_code_gets_the_one_that_it_ended_with() -> None:
    """A pipeline's keeper and the watch of a storm ask from threads of their own."""
    process = WarmProcess(["--version"], dict(os.environ))

    def code(_: int) -> int:
        while process.poll() is None:
            continue
        return process.wait()

    with ThreadPoolExecutor(4) as threads:
        assert [0] * 4 == [*threads.map(code, range(4))]
