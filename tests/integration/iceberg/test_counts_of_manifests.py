"""Lists of the first format may leave out how many files and rows a manifest has; the second's not."""

from pathlib import Path

import fastavro
import pytest
from pyiceberg.manifest import clear_manifest_cache

from penstock.connectors.iceberg.files.manifests import MERGE_AT

COUNTS = tuple(
    f"{status}_{counted}_count"
    for status in ("added", "existing", "deleted")
    for counted in ("files", "rows")
)


def lose_counts(lake):
    """Write the newest manifest list once more, as a writer does that counts nothing."""
    listed = Path(lake.foreign().current_snapshot().manifest_list.removeprefix("file://"))
    with listed.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, rows = reader.writer_schema, list(reader)
    with listed.open("wb") as stream:
        fastavro.writer(stream, schema, [{**row, **dict.fromkeys(COUNTS)} for row in rows])


def counts_of(lake):
    clear_manifest_cache()
    foreign = lake.foreign()
    manifests = foreign.current_snapshot().manifests(foreign.io)
    return sorted(tuple(getattr(each, name) for name in COUNTS) for each in manifests)


@pytest.mark.parametrize("version", [1, 2])
def test_manifests_that_no_list_counted_are_counted_by_the_next_commit(lake, version):
    table = lake.create(properties={"format-version": "1"})
    lake.land(table, {0: (0, 3)})
    lake.land(table, {0: (3, 4)})
    lose_counts(lake)
    with lake.foreign().transaction() as transaction:
        transaction.upgrade_table_version(version)
    assert {None} == {count for counts in counts_of(lake) for count in counts}
    lake.land(table, {0: (4, 6)})

    assert [0, 1, 2, 3, 4, 5] == lake.ids()
    assert [(1, rows, 0, 0, 0, 0) for rows in (1, 2, 3)] == counts_of(lake)


def test_manifests_that_no_list_counted_are_merged_and_keep_their_rows(lake):
    table = lake.create(properties={"format-version": "1"})
    for turn in range(MERGE_AT):
        lake.land(table, {0: (turn, turn + 1)})
    lose_counts(lake)
    lake.land(table, {0: (MERGE_AT, MERGE_AT + 1)})

    assert list(range(MERGE_AT + 1)) == lake.ids()
    assert [(0, 0, MERGE_AT, MERGE_AT, 0, 0), (1, 1, 0, 0, 0, 0)] == counts_of(lake)
