"""Snapshots tell when files were last written again as others with the same rows, and by what."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from penstock.connectors.iceberg.facts import last_maintenance
from penstock.core.maintenance import LastMaintenance

REMOVED = {"deleted-data-files": "9"}
OWN = {"penstock.maintenance": "rearrange"}
SPARK = {"engine-name": "spark", "engine-version": "4.1.0"}


def snapshot(number: int, operation: Operation, **summary: str) -> Snapshot:
    return Snapshot(
        snapshot_id=number,
        sequence_number=number,
        timestamp_ms=1000 * number,
        manifest_list="",
        summary=Summary(operation, **summary),
    )


def table(*snapshots: Snapshot, head: int) -> TableMetadata:
    made = new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///nowhere"
    )
    main = SnapshotRef(snapshot_id=head, snapshot_ref_type=SnapshotRefType.BRANCH)
    return made.model_copy(update={"snapshots": [*snapshots], "refs": {"main": main}})


@pytest.mark.parametrize(
    ("summary", "by"),
    [({**OWN}, "penstock"), ({**SPARK}, "spark"), ({}, "another writer")],
)
def test_the_newest_replacement_of_data_files_is_told(summary: dict[str, str], by: str) -> None:
    metadata = table(
        snapshot(1, Operation.REPLACE, **REMOVED, **OWN),
        snapshot(2, Operation.REPLACE, **REMOVED, **summary),
        snapshot(3, Operation.APPEND),
        head=3,
    )
    assert LastMaintenance(2000, by) == last_maintenance(metadata, "main")


def test_what_moves_no_data_file_or_is_beyond_the_head_is_none() -> None:
    metadata = table(
        snapshot(1, Operation.REPLACE, **OWN),
        snapshot(2, Operation.REPLACE, **{"manifests-replaced": "7"}),
        snapshot(3, Operation.OVERWRITE, **REMOVED),
        snapshot(4, Operation.REPLACE, **REMOVED),
        head=3,
    )
    assert None is last_maintenance(metadata, "main")
    assert None is last_maintenance(table(head=3), "main")
