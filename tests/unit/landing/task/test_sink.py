"""What a worker does where there is no table yet, without a log and without writers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.story.clock import ManualClock

from penstock.core.offsets import span
from penstock.core.planning import Lane
from penstock.core.schema import Struct
from penstock.landing.task.context import TaskContext
from penstock.landing.task.messages import Job, TableJob, WriteTarget
from penstock.landing.task.sink import TaskSink
from penstock.rows.options import RowOptions
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import part

NAME = "lake.b.unborn"
LANE = Lane(part(0), span(0, 9), (NAME,))


class Kept:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def bench(kept: Kept) -> TaskSink:
    """Return a worker of a table that no record has given a column."""
    job = Job(
        pipeline="shop",
        epoch=1,
        number=0,
        survey=False,
        prefix="x",
        lanes=(LANE,),
        tables={NAME: TableJob(Struct(()), RowOptions({}), None)},
        quarantine=WriteTarget("memory", "q"),
        timeout_seconds=1.0,
        now_ms=0,
        log={},
    )
    writers = {"memory": lambda _target, **_given: kept}
    return TaskSink(job, TaskContext(None, writers, Quiet(), ManualClock()))


def batch(*records: object) -> pa.RecordBatch:
    values = [json.dumps(each).encode() for each in records]
    columns = {
        "offset": pa.array(range(len(values)), pa.int64()),
        "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
        "key": pa.array([None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_record_beyond_the_survey_that_gives_columns_waits_for_the_next_epoch(bench) -> None:
    bench.write(LANE, batch({"n": 1}))

    assert {NAME: "P462"} == {name: error.code for name, error in bench.output.failed.items()}


def test_a_record_that_gives_no_column_is_refused(bench, kept) -> None:
    bench.write(LANE, batch({}, {"n": None}))

    assert {} == bench.output.failed
    assert ["P371", "P371"] == [code for each in kept.batches for code in each["code"].to_pylist()]
