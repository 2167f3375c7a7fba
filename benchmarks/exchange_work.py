"""What the tasks of the exchange figure do: cut a slice's rows by key, join a bucket's.

Invariants: files and blobs cut the same rows in the same way; `collapsed` keeps the last
row of each key, whichever way the rows came.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

RANGES = 64
"""A slice's rows are kept in so many ranges of the key's hash, for any number of buckets."""
LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_MIX = np.uint64(0x9E3779B97F4A7C15)


def made(slice_number: int, rows: int) -> pa.Table:
    """Return a slice's rows: eleven columns, about 300 bytes, random keys."""
    random = np.random.default_rng(slice_number)
    keys = random.integers(0, 1 << 40, rows)
    texts = pa.array([f"city-{key % 997}-{'x' * (int(key) % 40)}" for key in keys])
    columns: dict[str, Any] = {"id": keys, "offset": np.arange(rows) + slice_number * rows}
    columns |= {f"n{i}": random.integers(0, 1 << 50, rows) for i in range(4)}
    columns |= {f"d{i}": random.random(rows) for i in range(3)}
    return pa.table({**columns, "city": texts, "note": texts})


def read(path: str) -> pa.Table:
    """Return the rows of a slice, as a task has them when it has converted its records."""
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()


def cut_by_hash(table: pa.Table, parts: int) -> list[pa.Table]:
    """Cut rows by ranges of their key's hash."""
    hashed = (table["id"].to_numpy().astype(np.uint64) * _MIX) >> np.uint64(48)
    place = (hashed * np.uint64(parts) >> np.uint64(16)).astype(np.uint16)
    order = np.argsort(place, kind="stable")
    sorted_rows = table.take(pa.array(order))
    edges = np.searchsorted(place[order], np.arange(parts + 1))
    return [sorted_rows.slice(a, b - a) for a, b in itertools.pairwise(edges)]


def collapsed(tables: Sequence[pa.Table]) -> int:
    """Count the rows that stay when each key keeps its last."""
    table = pa.concat_tables(tables)
    table = table.sort_by([("id", "ascending"), ("offset", "ascending")])
    keys = table["id"].to_numpy()
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + bool(len(keys))


def work(job: str) -> str:
    """Do one job of the exchange by files: write a slice's file, or read a bucket's ranges."""
    given = json.loads(job)
    return json.dumps(_slice(**given) if "rows" in given else _bucket(**given))


def _slice(rows: str, into: str) -> dict[str, Any]:
    ends = [0]
    with Path(into).open("wb") as file:
        for part in cut_by_hash(read(rows), RANGES):
            with pa.ipc.new_stream(file, part.schema, options=LZ4) as stream:
                stream.write_table(part)
            ends.append(file.tell())
    return {"file": into, "ends": ends}


def _bucket(ranges: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
    return {"rows": collapsed([each for given in ranges for each in _streams(*given)])}


def _streams(path: str, start: int, stop: int) -> Iterator[pa.Table]:
    with Path(path).open("rb") as file:
        file.seek(start)
        content = pa.BufferReader(file.read(stop - start))
    while content.tell() < stop - start:
        yield pa.ipc.open_stream(content).read_all()


def bucket_jobs(written: Sequence[str], buckets: int) -> list[str]:
    """Return the second half's jobs: neighbouring ranges of every file, evenly by number."""
    found = [json.loads(each) for each in written]
    cuts = [RANGES * number // buckets for number in range(buckets + 1)]
    return [
        json.dumps({"ranges": [(f["file"], f["ends"][a], f["ends"][b]) for f in found]})
        for a, b in itertools.pairwise(cuts)
    ]


def by_blobs(batches: Iterator[pa.RecordBatch], paths: Sequence[str], buckets: int) -> Any:
    """Yield a slice's rows as one blob for each bucket, for Spark to place."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            parts = cut_by_hash(read(paths[number]), buckets)
            yield pa.record_batch(
                {
                    "bucket": pa.array(range(buckets), pa.int32()),
                    "blob": pa.array([_blob(part) for part in parts], pa.binary()),
                }
            )


def _blob(part: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema, options=LZ4) as stream:
        stream.write_table(part)
    return bytes(sink.getvalue())


def together(batches: Iterator[pa.RecordBatch]) -> Any:
    """Yield how many rows stay of the blobs that met here."""
    found = [
        pa.ipc.open_stream(blob).read_all() for batch in batches for blob in batch[1].to_pylist()
    ]
    yield pa.record_batch({"rows": pa.array([collapsed(found) if found else 0], pa.int64())})


def by_rows(batches: Iterator[pa.RecordBatch], paths: Sequence[str]) -> Any:
    """Yield a slice's rows as they are, for Spark to place by their key."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(paths[number]).to_batches(10_000)


def rows_together(batches: Iterator[pa.RecordBatch]) -> Any:
    """Yield how many rows stay of the rows that met here."""
    found = [pa.Table.from_batches([batch]) for batch in batches]
    yield pa.record_batch({"rows": pa.array([collapsed(found) if found else 0], pa.int64())})
