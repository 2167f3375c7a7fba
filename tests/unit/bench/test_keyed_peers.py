"""How tables of other systems are compared with the fold of the changes, and how commits count."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks import keyed, records
from benchmarks.children import FailedError
from benchmarks.keyed_peers import Options, added, scaled
from benchmarks.peers import Reading

SMALL = Options(table_rows=40, changes=20, epochs=3)


@pytest.mark.parametrize("wrong", ["", "stale", "missing", "double"])
def test_a_table_that_is_not_the_fold_is_refused(wrong: str) -> None:
    made = SMALL.keyed
    drawn = keyed.keys(made)
    last = dict(enumerate(records.values(0, SMALL.table_rows)))
    last |= dict(zip(drawn.tolist(), keyed.values(drawn, SMALL.table_rows), strict=True))
    rows = [json.loads(each) for each in last.values()]
    key = int(drawn[-1])
    if wrong == "stale":
        (rows[key],) = map(json.loads, records.values(key, key + 1))
    if wrong == "missing":
        del rows[key]
    if wrong == "double":
        rows.insert(key, rows[key])
    found = pa.table({name: [row[name] for row in rows] for name in keyed.CHECKED})
    if not wrong:
        keyed.check(found, made, drawn)
        return
    with pytest.raises(FailedError, match="flink: its"):
        keyed.check(found, made, drawn, "flink")


def test_the_changes_of_an_epoch_are_the_same_for_all() -> None:
    assert SMALL.epochs * SMALL.changes == len(keyed.keys(SMALL.keyed))


def test_rows_that_a_table_has_lost_again_were_added(tmp_path: Path) -> None:
    assert 0 == added(tmp_path)
    metadata = tmp_path / "metadata"
    metadata.mkdir()
    (metadata / "version-hint.text").write_text("3\n")
    summaries = [
        {"added-records": "10", "total-records": "10"},
        {"added-records": "4", "total-records": "14"},
        {"deleted-records": "2", "total-records": "12"},
    ]
    snapshots = [{"snapshot-id": at, "summary": each} for at, each in enumerate(summaries)]
    (metadata / "v3.metadata.json").write_text(json.dumps({"snapshots": snapshots}))

    assert 14 == added(tmp_path)


def test_a_row_for_several_changes_counts_as_its_share_of_them() -> None:
    readings = [Reading(1.0, 90, 2.0), Reading(2.0, 135, 3.0), Reading(3.0, 180, 4.0)]

    assert [100, 150, 200] == [each.rows for each in scaled(readings, 200)]
    assert [] == scaled([], 200)
