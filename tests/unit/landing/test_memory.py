"""What a worker holds is bounded, whatever few bytes of Kafka's grow to."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs
from tests.story.clock import ManualClock

from penstock.core.offsets import span
from penstock.core.planning import Lane
from penstock.core.schema import Field, Kind, List, Schema, Struct
from penstock.files import FileOptions, ParquetEncoding, PartitionedWriter
from penstock.landing.task.context import TaskContext
from penstock.landing.task.messages import Job, TableJob, WriteTarget
from penstock.landing.task.sink import TaskSink
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.options import RowOptions
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import part

MIB = 1 << 20
RECORDS = 50
NAME = "lake.b.orders"
LANE = Lane(part(0), span(0, RECORDS), (NAME,))
TEXT = Struct((Field("s", Kind.STRING),))
ITEMS = Struct(
    (Field("items", List(Struct(tuple(Field(f"c{n}", Kind.LONG) for n in range(100))))),)
)
PEAK_MIB_MAX = 1000
"""Without a bound the first takes 1,900 MiB and the second 670; with it, 510 and 220."""


@pytest.mark.parametrize("kind", ["packed-texts", "empty-objects"])
def test_a_worker_holds_little_of_what_records_grow_to(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.landing.test_memory", kind, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    landed, before, peak = map(int, done.stdout.split())

    assert RECORDS == landed
    assert peak - before < (PEAK_MIB_MAX if kind == "packed-texts" else PEAK_MIB_MAX // 2)


def _land(values: list[bytes], schema: Schema, options: RowOptions, directory: str) -> None:
    numbers = iter(range(RECORDS))

    def writer(_target: str, **_given: object) -> PartitionedWriter:
        return PartitionedWriter(
            encoding=ParquetEncoding(arrow_schema(schema), FileOptions()),
            filesystem=fs.LocalFileSystem(),
            path_of=lambda *_: f"{directory}/{next(numbers)}.parquet",
            partition_of=lambda rows: [((), rows)],
            observer=Quiet(),
        )

    job = Job(
        pipeline="shop",
        epoch=1,
        number=0,
        survey=False,
        prefix="x",
        lanes=(LANE,),
        tables={NAME: TableJob(schema, options, WriteTarget("files", "t"))},
        quarantine=WriteTarget("files", "q"),
        timeout_seconds=60.0,
        now_ms=0,
        log={},
    )
    bench = TaskSink(job, TaskContext(None, {"files": writer}, Quiet(), ManualClock()))
    columns = {
        "offset": pa.array(range(len(values)), pa.int64()),
        "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
        "key": pa.array([None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    before = _peak_mib()
    bench.write(LANE, pa.RecordBatch.from_pydict(columns))
    print(bench.output.tallies[NAME][LANE.at].landed, before, _peak_mib())


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    _kind, _directory = sys.argv[1:]
    if _kind == "packed-texts":
        value = gzip.compress(json.dumps({"s": "a" * 17 * MIB}).encode())  # of 17 KiB
        packed = RowOptions({}, compression="gzip", record_bytes_max=32 * MIB)
        _land([value] * RECORDS, TEXT, packed, _directory)
    else:
        objects = json.dumps({"items": [{}] * 10_000}).encode()
        _land([objects] * RECORDS, ITEMS, RowOptions({}), _directory)
