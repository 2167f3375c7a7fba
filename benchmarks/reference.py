"""The bound path: the least that lands JSON records in an Iceberg table through Spark.

One batch job per epoch, a task for each partition: librdkafka, values wrapped and parsed as one
block by pyarrow.json, one Parquet file, one commit. It has the session, daemon and allocator
settings of our engine and nothing of what makes a pipeline: no quarantine, no accounting, no
ledger, no store, no fsync, no schema but the one it is given. So it shows what those cost.

Invariants: it reads the very topic that Penstock reads, and its table is checked in the same way.
"""

from __future__ import annotations

import gc
import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import json as arrow_json

from benchmarks import records

CHUNK = 50_000
CONSUME = 10_000
WRAPPED = pa.schema([("v", pa.struct(list(records.ARROW)))])
CLIENT: dict[str, Any] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 50,
    "group.id": "reference",
    "isolation.level": "read_committed",
    "log_level": 0,
    "max.partition.fetch.bytes": 4 << 20,
    "queued.max.messages.kbytes": 64 << 10,
    "queued.min.messages": 100_000,
}


@dataclass(frozen=True, slots=True)
class Job:
    """One epoch: a range of offsets, the same in all partitions."""

    brokers: str
    topic: str
    start: int
    stop: int
    place: str
    schema: Any  # PyIceberg's, for the field ids and the statistics
    properties: dict[str, str]


def read(brokers: str, topic: str, partition: int, start: int, stop: int) -> Iterator[pa.Array]:
    """Yield the values of a range in chunks."""
    from confluent_kafka import KafkaError, TopicPartition

    consumer = _consumer(brokers)
    consumer.assign([TopicPartition(topic, partition, start)])
    position = start
    found: list[bytes] = []
    while position < stop:
        for message in consumer.consume(min(CONSUME, stop - position), 5.0):
            error = message.error()
            offset = message.offset()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, str(error)  # noqa: SLF001
                position = max(position, offset)
            elif offset < stop:
                found.append(message.value())
                position = offset + 1
        if len(found) >= CHUNK or position >= stop:
            yield pa.array(found, pa.binary())
            found = []
    consumer.unassign()


def wrap(chunk: pa.BinaryArray) -> pa.Buffer:
    """Put every value into an object of its own, so that no two can be taken for one."""
    bounds = pa.array([0, len(chunk)], pa.int32())
    lines = pc.binary_join(pa.ListArray.from_arrays(bounds, chunk), b'}\n{"v":')[0].as_buffer()
    return pa.py_buffer(b'{"v":' + lines.to_pybytes() + b"}")


def parse(lines: pa.Buffer) -> pa.Table:
    """Parse wrapped values as one block."""
    return arrow_json.read_json(
        pa.BufferReader(lines),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(lines.size, 1 << 20)),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=WRAPPED, unexpected_field_behavior="ignore"
        ),
    )


def unwrap(parsed: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table's columns."""
    return pa.Table.from_struct_array(parsed["v"]).cast(schema)


def parquet(path: str, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a Parquet file as the reference writes it."""
    return pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, store_schema=False
    )


def land(job: Job, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Be the body of a task: a range to a file, and its description as bytes."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    gc.disable()
    pa.set_cpu_count(1)
    schema = schema_to_pyarrow(job.schema)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            path = f"{job.place}/data/{number}-{job.start}-{secrets.token_hex(4)}.parquet"
            with parquet(path, schema) as writer:
                for chunk in read(job.brokers, job.topic, number, job.start, job.stop):
                    writer.write_table(unwrap(parse(wrap(chunk)), schema))
            description = pickle.dumps(_described(path, job))
            yield pa.record_batch([pa.array([description], pa.binary())], names=["file"])


@cache
def _consumer(brokers: str) -> Any:
    from confluent_kafka import Consumer

    return Consumer({**CLIENT, "bootstrap.servers": brokers})


def _described(path: str, job: Job) -> Any:
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    found = data_file_statistics_from_parquet_metadata(
        pq.read_metadata(path),
        compute_statistics_plan(job.schema, job.properties),
        parquet_path_to_id_mapping(job.schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=Path(path).stat().st_size,
        sort_order_id=None,
        spec_id=0,
        equality_ids=None,
        key_metadata=None,
        **found.to_serialized_dict(),
    )
