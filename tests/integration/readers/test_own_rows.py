"""Commits that delete rows of their own files: what is left is read by everybody, row by row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.delta.keyed import counted, queried
from tests.integration.iceberg.keyed import read_by_duckdb
from tests.integration.readers.lakes import Lakes, by_id, chain
from tests.integration.readers.own_rows import (
    FILE_BYTES,
    FILTERS,
    GROUP_BYTES,
    SCHEMA,
    OwnRows,
    comparable,
    lived,
)

from penstock.app.inspect.metadata_audit import values_of
from penstock.ports.row_deletes import POSITION
from penstock.ports.tables import TableDefinition, Verdict

ICEBERG = {
    "flat": (),
    "by_kind": ("kind",),
    "by_bucket": ("bucket(3, id)",),
    "by_day": ("day(at)", "kind"),
}
DELTA = {"flat": (), "by_kind": ("kind",), "by_day": ("on_day", "kind")}
SMALL = {
    "write.target-file-size-bytes": str(FILE_BYTES),
    "write.parquet.row-group-size-bytes": str(GROUP_BYTES),
}


def made(lakes: Lakes, name: str, by: tuple[str, ...]) -> OwnRows:
    """Create a keyed table with small files, and let it live."""
    properties = SMALL if name.startswith("lake.") else {}
    lakes.create(name, TableDefinition(SCHEMA, by, properties, keys=("id",)))
    return lived(OwnRows(lakes, name))


def small(lakes: Lakes) -> Lakes:
    """Return the same lakes, with small files in the Delta catalog."""
    sizes = {"penstock.target_file_bytes": FILE_BYTES, "penstock.row_group_bytes": GROUP_BYTES}
    return replace(lakes, sizes=sizes, catalogs={})


def read_by_us(table: OwnRows) -> list[dict[str, Any]]:
    state = table.table.state(chain(table.name))
    found = [
        batch
        for file in table.table.live_files(state)
        for batch in table.table.read_live(state, file, list(SCHEMA.names))
    ]
    return by_id(pa.Table.from_batches(found).drop_columns([POSITION]).to_pylist())


def require_sound(table: OwnRows) -> None:
    """Compare with what we read, and metadata with the files."""
    catalog, _, name = table.name.partition(".")
    assert comparable(table.rows) == comparable(read_by_us(table))
    assert Verdict.AGREED is table.table.state(chain(table.name)).verdict
    assert () == values_of(table.lakes.catalogs[catalog], name).mismatches


@pytest.fixture
def places(tmp_path: Path):
    opened = small(Lakes(tmp_path))
    yield opened
    opened.close()


@pytest.mark.parametrize("layout", ICEBERG)
def test_pyiceberg_and_duckdb_read_what_is_left(places: Lakes, layout: str) -> None:
    table = made(places, f"lake.shop.{layout}", ICEBERG[layout])
    require_sound(table)
    scan = places.known(table.name).scan

    assert comparable(table.rows) == comparable(places.by_own(table.name))
    assert comparable(table.rows) == comparable(read_by_duckdb(places, table.name))
    for where, holds in FILTERS:
        expected = table.where(holds)
        assert expected, where
        found = by_id(scan(row_filter=where.replace("DATE ", "")).to_arrow().to_pylist())
        assert expected == comparable(found), where
        assert expected == comparable(read_by_duckdb(places, table.name, where)), where


@pytest.mark.parametrize("layout", DELTA)
def test_deltalake_reads_what_is_left(places: Lakes, layout: str) -> None:
    table = made(places, f"delta.shop.{layout}", DELTA[layout])
    require_sound(table)
    ids = [each["id"] for each in table.rows]

    assert comparable(table.rows) == comparable(places.by_own(table.name))
    assert [len(ids), ids[0], ids[-1]] == counted(places.handle(table.name))
    for where, holds in FILTERS:
        found = queried(places.handle(table.name), where)
        assert table.where(holds) == comparable(found), where


@pytest.mark.spark
@pytest.mark.parametrize(
    ("catalog", "layout"),
    [
        ("lake", "flat"),
        ("lake", "by_bucket"),
        ("lake", "by_day"),
        ("delta", "flat"),
        ("delta", "by_day"),
    ],
)
def test_spark_reads_what_is_left(lakes: Lakes, catalog: str, layout: str) -> None:
    by = (ICEBERG if catalog == "lake" else DELTA)[layout]
    table = made(small(lakes), f"{catalog}.shop.own_{layout}", by)
    ids = [each["id"] for each in table.rows]
    summed = "SELECT count(*) AS n, min(id) AS low, max(id) AS high FROM {t}"

    assert comparable(table.rows) == comparable(lakes.by_spark(table.name))
    assert [{"n": len(ids), "low": ids[0], "high": ids[-1]}] == lakes.sql(summed, t=table.name)
    for where, holds in FILTERS:
        found = lakes.sql(f"SELECT * FROM {{t}} WHERE {where}", t=table.name)
        assert table.where(holds) == comparable(by_id(found)), where
