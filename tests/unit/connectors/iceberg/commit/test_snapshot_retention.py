"""How long own snapshots stay: long enough for what others rewrite, and never too many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from penstock.connectors.iceberg.commit.snapshot_retention import YOUNG_MAX, YOUNG_MS, trimmed

AGE_KEY = "history.expire.max-snapshot-age-ms"
NOW_MS = 1_800_000_000_000
SECOND_MS = 1000


def history(
    count: int,
    every_ms: int,
    properties: Mapping[str, str] | None = None,
    chains: Sequence[str] = ("shop",),
) -> TableMetadata:
    """Make a table with own snapshots 1, 2, ..., the last of which is as old as one interval; they
    are of its chains in turns.
    """
    schema = Schema(NestedField(1, "id", LongType()))
    metadata = new_table_metadata(
        schema, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t", dict(properties or {})
    )
    snapshots = [
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            sequence_number=number,
            timestamp_ms=NOW_MS - (count + 1 - number) * every_ms,
            manifest_list="file:///t/m.avro",
            summary=Summary(
                operation=Operation.APPEND,
                **{"penstock.pipeline": chains[number % len(chains)]},
            ),
        )
        for number in range(1, count + 1)
    ]
    return metadata.model_copy(update={"snapshots": snapshots})


def left(metadata: TableMetadata, retain: int = 25) -> list[int]:
    """Return which snapshots stay after a commit: the one it adds is not among them."""
    gone = trimmed(metadata, ("shop", "main"), retain=retain, released="t", now_ms=NOW_MS)
    return [each.snapshot_id for each in metadata.snapshots if each.snapshot_id not in gone]


def test_own_snapshots_of_the_last_hour_stay() -> None:
    every_ms = 30 * SECOND_MS
    in_an_hour = YOUNG_MS // every_ms

    assert list(range(500 - in_an_hour + 2, 501)) == left(history(500, every_ms))


def test_there_are_never_more_than_a_commit_can_bear() -> None:
    assert YOUNG_MAX == len(left(history(5000, SECOND_MS))) + 1


def test_co_g5_four_shards_at_one_second_are_one_pipeline() -> None:
    chains = [f"shop+{number}" for number in range(4)]
    shards = history(5000, SECOND_MS // 4, chains=[*chains, "shop+1/lake.orders"])

    assert YOUNG_MAX == len(left(shards)) + 1
    assert list(range(77, 101)) == left(history(100, 2 * YOUNG_MS, chains=chains))
    assert 100 == len(left(history(100, 2 * YOUNG_MS, chains=["shop-2+1"])))


def test_what_is_older_stays_while_there_are_no_more_than_retain() -> None:
    assert list(range(77, 101)) == left(history(100, 2 * YOUNG_MS))


@pytest.mark.parametrize(("age_ms", "count"), [("0", 24), (f"{400 * SECOND_MS}", 399)])
def test_what_the_table_says_of_age_goes_before(age_ms: str, count: int) -> None:
    metadata = history(5000, SECOND_MS, {AGE_KEY: age_ms})

    assert list(range(5001 - count, 5001)) == left(metadata)
