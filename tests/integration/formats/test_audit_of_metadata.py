"""`penstock audit --values` compares what metadata say twice: each planted fault turns it red.

Manifest lists count the entries of manifests; checkpoints have statistics and partition values as
columns, next to their texts or alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.manifest import ManifestFile
from tests.integration.formats.test_audit_values import NAME, Shop, row

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.iceberg.files.manifests import ManifestStack
from penstock.core.statistics import Fault

COUNTS = {
    "added_files": (7, "1 added files"),
    "existing_files": (8, "0 existing files"),
    "deleted_files": (9, "0 deleted files"),
    "added_rows": (10, "2 added rows"),
    "existing_rows": (11, "0 existing rows"),
    "deleted_rows": (12, "0 deleted rows"),
}
"""Where a manifest list has its counts, and what the manifest holds."""


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    opened = Shop(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", COUNTS)
def test_a_wrong_count_of_a_manifest_list_is_found(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place, held = COUNTS[name]
    reported = ManifestStack._written

    def planted(stack: ManifestStack, *given: Any) -> ManifestFile:
        manifest = reported(stack, *given)
        manifest[place] = 5
        return manifest

    rows = [{**row(number), "id": 3} for number in (3, 4)]
    shop.land("lake", rows)
    assert [] == shop.found("lake")
    monkeypatch.setattr(ManifestStack, "_written", planted)
    shop.land("lake", rows)
    (wrong,) = values_of(shop.catalogs["lake"], NAME).mismatches

    assert (Fault.COUNTS, "", held) == (wrong.fault, wrong.column, wrong.held)
    assert wrong.file.endswith(".avro")


DAY = dt.date(2024, 2, 29)
AT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "name": ["a", "z", "m"],
        "price": pa.array([Decimal("0.10"), Decimal("9.99"), None], pa.decimal128(9, 2)),
        "at": pa.array([AT, AT, AT], pa.timestamp("us", tz="UTC")),
        "ok": [True, True, True],
        "in": [{"x": 1.5}, {"x": 2.5}, None],
        "day": [DAY, DAY, DAY],
    }
)


def checkpointed(shop: Shop, change: Callable[[dict[str, Any]], None], *, alone: bool) -> None:
    """Make a checkpoint with statistics in columns, perhaps `alone`, and change those of its file."""
    place = f"{shop.place}/delta/shop/orders"
    as_struct = {"delta.checkpoint.writeStatsAsStruct": "true"}
    write_deltalake(place, ROWS, partition_by=["day"], configuration=as_struct)
    DeltaTable(place).create_checkpoint()
    (path,) = Path(place, "_delta_log").glob("*.checkpoint.parquet")
    checkpoint = pq.read_table(path)
    rows = checkpoint.to_pylist()
    (add,) = (each["add"] for each in rows if each["add"])
    assert "2024-02-29" == dict(add["partitionValues"])["day"]
    change(add)
    if alone:
        add["stats"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=checkpoint.schema), path)
    Path(place, "_delta_log", f"{0:020}.json").unlink()


def put(*names: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value into what a checkpoint says of a file, below names."""

    def change(add: dict[str, Any]) -> None:
        *above, last = names
        for name in above:
            add = add[name]
        assert last in add
        add[last] = value

    return change


PARSED: Mapping[str, tuple[Callable[[dict[str, Any]], None], tuple[Fault, str]]] = {
    "a lower bound": (put("stats_parsed", "minValues", "id", value=2), (Fault.LOWER, "id")),
    "an upper bound": (put("stats_parsed", "maxValues", "name", value="y"), (Fault.UPPER, "name")),
    "of decimals": (
        put("stats_parsed", "maxValues", "price", value=Decimal("9.98")),
        (Fault.UPPER, "price"),
    ),
    "of times": (
        put("stats_parsed", "maxValues", "at", value=AT.replace(microsecond=0)),
        (Fault.UPPER, "at"),
    ),
    "of a member": (put("stats_parsed", "minValues", "in", "x", value=2.0), (Fault.LOWER, "in.x")),
    "nulls": (put("stats_parsed", "nullCount", "id", value=0), (Fault.NULLS, "id")),
    "a partition value": (
        put("partitionValues_parsed", "day", value=DAY.replace(day=28)),
        (Fault.UNREADABLE, ""),
    ),
}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("fault", PARSED)
def test_a_wrong_column_of_a_checkpoint_is_found(shop: Shop, fault: str, *, alone: bool) -> None:
    change, expected = PARSED[fault]
    checkpointed(shop, change, alone=alone)

    assert [expected] == shop.found("delta")


@pytest.mark.parametrize("alone", [False, True])
def test_columns_of_a_checkpoint_that_nobody_touched_are_right(shop: Shop, *, alone: bool) -> None:
    checkpointed(shop, lambda _: None, alone=alone)
    audited = values_of(shop.catalogs["delta"], NAME)

    assert (1, 3, ()) == (audited.files, audited.rows, audited.mismatches)


def test_numbers_of_records_that_differ_within_a_checkpoint_are_found(shop: Shop) -> None:
    checkpointed(shop, put("stats_parsed", "numRecords", value=4), alone=False)

    assert (Fault.UNREADABLE, "") in shop.found("delta")


def test_a_wrong_number_of_records_in_a_column_alone_is_found(shop: Shop) -> None:
    checkpointed(shop, put("stats_parsed", "numRecords", value=4), alone=True)

    assert [(Fault.RECORDS, "")] == shop.found("delta")
