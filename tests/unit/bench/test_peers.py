"""How the runs of other systems are timed, and how their tables are read."""

import json
from pathlib import Path

import pytest
from benchmarks.children import FailedError
from benchmarks.peers import Reading, committed, leg


def test_start_and_empty_backlog_do_not_count() -> None:
    readings = [
        Reading(10.0, 100, 5.0),
        Reading(11.0, 1_100, 6.0),
        Reading(13.0, 2_100, 9.0),
        Reading(60.0, 2_200, 30.0),
    ]

    reported = leg(readings, peak_mib=7.0)

    assert 2_000 / 3 == reported.rows_per_second
    assert 4.0 / 2_000 * 1e6 == reported.cpu
    assert (60.0, 30.0 / 2_200 * 1e6) == (reported.whole_seconds, reported.whole_cpu)
    assert (7.0, 4) == (reported.peak_mib, reported.commits)


def test_too_few_commits_measure_nothing() -> None:
    with pytest.raises(FailedError):
        leg([Reading(1.0, 10, 1.0), Reading(2.0, 20, 2.0)], peak_mib=0.0)


def test_rows_of_a_hadoop_table_are_those_of_its_current_snapshot(tmp_path: Path) -> None:
    assert 0 == committed(tmp_path)
    metadata = tmp_path / "metadata"
    metadata.mkdir()
    (metadata / "version-hint.text").write_text("2\n")
    assert 0 == committed(tmp_path)

    snapshots = [{"snapshot-id": n, "summary": {"total-records": str(10 * n)}} for n in (1, 2)]
    reported = {"current-snapshot-id": 1, "snapshots": snapshots}
    (metadata / "v2.metadata.json").write_text(json.dumps(reported))

    assert 10 == committed(tmp_path)


def test_rows_of_a_delta_table_are_the_sum_of_its_files(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    stats = [json.dumps({"numRecords": rows}) for rows in (3, 4)]
    first = [{"metaData": {}}, {"add": {"path": "a", "stats": stats[0]}}]
    (log / "00000000000000000000.json").write_text("\n".join(map(json.dumps, first)))
    (log / "00000000000000000001.json").write_text(json.dumps({"add": {"stats": stats[1]}}))

    assert 7 == committed(tmp_path)
