"""Every crash point, struck by SIGKILL, by an error, by SIGSTOP with a successor, by a lost reply.

`make test` plays a fixed few, `make crash` all of them; lost replies of commits are also covered by
tests/integration/landing/test_lying_catalogs.py.
"""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from tests.crash.field import expected_row, folded
from tests.crash.matrix import CELLS, SCENES, Blow, Cell, Fields, Histogram
from tests.processes.broker import wait_until
from tests.processes.sigstop import sleeps
from tests.story.oracle import Coordinate, Record, Row, compare

from penstock.core.crash_points import OF_PUBLISHING, OF_UPKEEP, CrashPoint

EPOCH = datetime.fromtimestamp(0, UTC)
SOURCE = Path(__file__).parents[2] / "src/penstock"
FEW = (
    Cell(CrashPoint.CREATE_AFTER, Blow.KILL, "iceberg", 3),
    Cell(CrashPoint.EVOLVE_AFTER, Blow.RAISE, "iceberg", 3),
    Cell(CrashPoint.COMMIT_BEFORE, Blow.STOP, "iceberg", 3),
    Cell(CrashPoint.FILE_CLOSED, Blow.RAISE, "delta", 3),
    Cell(CrashPoint.COMMIT_BEFORE, Blow.STOP, "delta", 3),
    Cell(CrashPoint.QUARANTINE_AFTER, Blow.KILL, "delta", 3),
    Cell(CrashPoint.SETTLE_BEFORE, Blow.LOSE, "delta", 3),
    Cell(CrashPoint.RESOLVE_AFTER, Blow.STOP, "iceberg", 1, keyed=True),
    Cell(CrashPoint.ROW_DELETES_WRITTEN, Blow.KILL, "delta", 1, keyed=True),
    Cell(CrashPoint.FILES_REWRITTEN, Blow.KILL, "iceberg", 1, keyed=True),
    Cell(CrashPoint.FILES_REWRITTEN, Blow.KILL, "delta", 1, keyed=True),
)


def test_every_crash_point_has_its_scene() -> None:
    assert set(CrashPoint) - OF_PUBLISHING - OF_UPKEEP == {*SCENES}


def test_every_crash_point_is_passed_by_the_code() -> None:
    """A name that nothing passes would be hit by nobody and prove nothing."""
    rooms = [path for path in SOURCE.rglob("*.py") if path.parent.name not in {"testing", "core"}]
    named = {name for path in rooms for name in re.findall(r"Point\.([A-Z_]+)", path.read_text())}

    assert {point.name for point in CrashPoint} == named


def test_a_process_that_has_ended_is_not_taken_for_a_stopped_one() -> None:
    """It would be given a successor, and the signal to go on, though it is away."""
    ended = subprocess.Popen(["sleep", "60"])
    process = psutil.Process(ended.pid)
    process.suspend()
    wait_until(lambda: sleeps(process), "stopped")

    ended.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "killed")

    assert not sleeps(process)
    ended.wait()
    assert not sleeps(process)


def test_the_fold_finds_what_is_not_the_last_row_of_its_key() -> None:
    said = [b'{"id": 1}', b'{"id": 1, "text": "last"}', b'{"id": 2}', None, b"bad"]
    keys = [b"1", b"1", b"2", b"2", b"1"]
    records = [
        Record(Coordinate("t", 0, at), 0, key, value)
        for at, (key, value) in enumerate(zip(keys, said, strict=True))
    ]
    row = {"_kafka_topic": "t", "_kafka_partition": 0, "_kafka_timestamp": EPOCH, "id": 1}
    former, last = (
        {**row, "_kafka_offset": at, "text": text} for at, text in ((0, None), (1, "last"))
    )
    deleted = {**row, "_kafka_offset": 2, "id": 2}
    refused = [{"table": "t", "topic": "t", "partition": 0, "offset": 4, "code": "P302"}]
    refused = [{**each, "key": b"1", "value": b"bad"} for each in refused]

    def kinds(*rows: Row) -> list[str]:
        found = compare("t", folded(records), expected_row, rows, refused)
        return [f"{each.kind} {each.at.offset}" for each in found]

    assert [] == kinds(last)
    assert ["lost 1"] == kinds()
    assert ["foreign 0"] == kinds(former, last)
    assert ["foreign 2"] == kinds(last, deleted)
    assert ["doubled 1"] == kinds(last, last)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", FEW, ids=str)
def test_a_blow_at_a_point_loses_and_doubles_nothing(fields: Fields, cell: Cell) -> None:
    fields.play(cell)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_blow_at_every_point_loses_and_doubles_nothing(fields: Fields, cell: Cell) -> None:
    fields.play(cell)


@pytest.mark.timeout(600)
def test_metadata_says_what_the_files_of_all_tables_hold(fields: Fields) -> None:
    """Runs after the rounds above: it checks all that they have landed."""
    found = fields.compared()

    assert () == found.wrong
    assert bool(fields.histogram.hits) == bool(found.rows)


@pytest.mark.slow
def test_every_point_was_hit_in_every_way(histogram: Histogram) -> None:
    """Runs last: it checks what the rounds above have hit."""
    assert {(cell.point, cell.blow) for cell in CELLS} == set(histogram.hits)
