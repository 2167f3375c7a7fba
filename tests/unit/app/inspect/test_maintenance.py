"""What `penstock maintain --dry-run` says of tables of both formats, without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.story.two_lakes import spec_of

from penstock.app.assembly import assembly, worker
from penstock.app.inspect.maintenance import plan_maintenance
from penstock.cli.maintain import maintain
from penstock.cli.output import guarded
from penstock.core.commits import Chain
from penstock.ports.tables import Table, TableDefinition
from penstock.spec.load import load
from penstock.spec.model import Pipeline
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import ORDERS, origin, prepared

NO_PROPERTIES: Mapping[str, str] = {}
LAKE, DELTA = "lake.bronze.orders", "delta.bronze.orders"
RULES = """
  - { from: orders, into: lake.bronze.orders, continue: true, schema: { create: true } }
  - { from: orders, into: delta.bronze.orders, continue: true, schema: { create: true } }
  - { from: orders, into: lake.bronze.later, schema: { create: true } }
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return spec_of(tmp_path, RULES)


@pytest.fixture
def pipeline(spec: Path) -> Pipeline:
    return load(spec)


def fill(
    pipeline: Pipeline,
    name: str,
    *rows: str | None,
    partition_by: str = "name",
    properties: Mapping[str, str] = NO_PROPERTIES,
) -> None:
    """Make a table and land each row in a commit of its own."""
    place, chain = assembly.place_of(pipeline, name), Chain("shop", name)
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        definition = TableDefinition(ORDERS, (partition_by,), properties)
        table = catalog.create(place.name, definition, [origin(chain, {0: 0})])
        for offset, each in enumerate(rows):
            land(table, chain, place.connector, offset, each)


def fill_more(pipeline: Pipeline, name: str, offset: int) -> None:
    """Land one more row."""
    place, chain = assembly.place_of(pipeline, name), Chain("shop", name)
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        table = catalog.load(place.name)
        assert table is not None
        land(table, chain, place.connector, offset, "more")


def land(table: Table, chain: Chain, connector: str, offset: int, name: str | None) -> None:
    """Land a row in a commit of its own."""
    state = table.state(chain)
    prefix = "shop-1-0-0c0ffee0"
    writer = worker.writer(connector)(state.target, prefix=prefix, observer=Quiet())
    writer.write(batch_of(ORDERS, [{"id": offset, "name": name}]))
    given = {"uuid": state.uuid, "schema_id": state.schema_id}
    ranges = {0: (offset, offset + 1)}
    table.commit(state, prepared(chain, ranges, files=writer.close(), **given), retain=25)


@pytest.mark.parametrize("name", [LAKE, DELTA])
def test_groups_are_of_partitions_which_are_told_apart(pipeline: Pipeline, name: str) -> None:
    fill(pipeline, name, "null", None, "DE", None, "null", "DE", "DE", "alone")

    [found] = plan_maintenance(pipeline, [name]).tables

    assert {'name="DE"': 3, 'name="null"': 2, "name=null": 2} == {
        each.partition: len(each.files) for each in found.groups
    }
    assert found.health is not None
    assert (8, 4, 8, 0, 3) == (
        found.health.files,
        found.health.files_after,
        found.health.rows,
        found.health.deleted,
        found.health.groups,
    )
    assert found.health.size_bytes > 0
    assert found.health.metadata_bytes > 1000


def test_metadata_grow_with_each_commit(pipeline: Pipeline) -> None:
    fill(pipeline, LAKE, "a")
    fill(pipeline, DELTA, "a")
    before = [each.health for each in plan_maintenance(pipeline, [LAKE, DELTA]).tables]
    fill(pipeline, "lake.bronze.later", "a", "b", "c")

    after = [each.health for each in plan_maintenance(pipeline, ["lake.bronze.later"]).tables]

    assert None not in (*before, *after)
    assert before[0].metadata_bytes < after[0].metadata_bytes  # type: ignore[union-attr]


def test_files_of_a_former_layout_are_a_partition_of_their_own(pipeline: Pipeline) -> None:
    fill(pipeline, LAKE, "x", "y", partition_by="bucket(1, id)")
    settings = {"uri": pipeline.catalogs["lake"].uri}  # type: ignore[union-attr]
    foreign = load_catalog("lake", type="sql", **settings).load_table("bronze.orders")

    before = plan_maintenance(pipeline, [LAKE]).tables
    with foreign.update_spec() as change:
        change.add_identity("name")
    after = plan_maintenance(pipeline, [LAKE]).tables

    assert [["id_bucket=0"], ["spec 0, id_bucket=0"]] == [
        [each.partition for each in found.groups] for [found] in (before, after)
    ]


def test_a_table_that_was_rolled_back_is_left_alone(pipeline: Pipeline) -> None:
    fill(pipeline, DELTA, "a", "a", "a")
    DeltaTable(delta_orders(pipeline)).restore(2)

    [found] = plan_maintenance(pipeline, [DELTA]).tables

    assert {("rearrange", "P455"), ("expire", "P455"), ("sweep", "P455")} >= {
        (act, error.code) for act, error in found.left_alone.items()
    }
    assert () == found.acts


def delta_orders(pipeline: Pipeline) -> str:
    return f"{pipeline.catalogs['delta'].root}/bronze/orders"  # type: ignore[union-attr]


def test_without_names_all_tables_are_looked_at_and_one_that_fails_hides_no_other(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, "a", "a")
    broken = Path(delta_orders(pipeline))
    fill(pipeline, DELTA, "a")
    next(broken.glob("_delta_log/*1.json")).write_text("{")

    code = guarded(lambda: maintain(spec=spec, dry_run=True), [])

    lines = capsys.readouterr().out.splitlines()
    assert 2 == code
    expected = [
        "delta.bronze.orders  P438",
        "  → ",
        "lake.bronze.later  is not created yet",
        "lake.bronze.orders  2 files where 1 would do, in 1 group; metadata ",
        '  name="a": 2 files, ',
        "  0 of 2 snapshots expire; kept: ",
        "lake.ops.quarantine  is not created yet",
    ]
    assert expected == [line[: len(begins)] for line, begins in zip(lines, expected, strict=True)]


def test_the_json_has_figures_and_no_paths(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, DELTA, "a", "a", "b")

    code = guarded(lambda: maintain(DELTA, spec=spec, dry_run=True, json=True), [])

    data = json.loads(capsys.readouterr().out)
    [table] = data["tables"]
    [group] = table["groups"]
    assert (0, "shop") == (code, data["pipeline"])
    assert (3, 2, 1) == tuple(table["health"][each] for each in ("files", "files_after", "groups"))
    expected = {"partition": 'name="a"', "late": False, "files": 2, "files_after": 1}
    assert {**expected, "rows": 2, "deleted": 0} == {
        key: value for key, value in group.items() if "bytes" not in key
    }


def test_a_table_of_the_first_format_is_refused_by_name(pipeline: Pipeline) -> None:
    place, chain = assembly.place_of(pipeline, LAKE), Chain("shop", LAKE)
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        definition = TableDefinition(ORDERS, properties={"format-version": "1"})
        catalog.create(place.name, definition, [origin(chain, {0: 0})])

    found = plan_maintenance(pipeline, [LAKE])

    [table] = found.tables
    assert table.error is not None
    assert ("P436", 2) == (table.error.code, found.exit_code)
