"""Write the live rows of files again, and read back that they are the same; on workers as well.

Theory of operation: a job is groups of files that the driver listed, with their deleted rows. Each
group is read, written by the table's own writer, and read back. Nothing else is known here: no
catalog is opened, and nothing is committed. A job that is done twice leaves files that nothing
names, for the sweep (docs/design/0330).

Invariants:
- what was written has the rows that were read; else the job fails, and nothing lands. Where rows
  keep their order the columns are compared, else the sums of a hash of each row;
- a job and its result survive `from_json(to_json(x)) == x`, and hold no secret of the spec.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.commits import DataFile
from penstock.core.errors import BugError
from penstock.core.serialization import file_from_data, file_to_data
from penstock.ports.increments import FileRows
from penstock.ports.runtime import Observer
from penstock.ports.writers import Placing, WriterFactory
from penstock.rows.row_digest import RowDigest
from penstock.rows.row_hashes import RowSum

if TYPE_CHECKING:
    from penstock.ports.writers import Places

JOB_VERSION = 1
IN_ORDER, UNKNOWN = "in order", "unknown"
"""What a result says of places: they follow from the files, or it does not say."""


@dataclass(frozen=True, slots=True)
class CopyJob:
    """Groups of files of one table, each file as a worker reads it with `work` (`FileRows`).

    `target` is the table's, for a writer of the connector; `prefix` begins the names of what is
    written. `is_sorted`: rows get into the table's sort order. `row_ids` are columns that are read
    behind those of the table, and written. Of `places_max` rows at most the result says where they
    went, where that does not follow from the files.
    """

    table: str
    connector: str
    target: str
    prefix: str
    is_sorted: bool
    row_ids: tuple[str, ...]
    work: str
    groups: tuple[tuple[str, ...], ...]
    places_max: int


@dataclass(frozen=True, slots=True, eq=False)
class CopiedGroup:
    """The files that a group was written as, and where each of its rows went, in their order; None
    where that would be too much to tell.
    """

    files: tuple[DataFile, ...]
    places: Places | None


def copied(
    job: CopyJob, open_writer: WriterFactory, rows: FileRows, observer: Observer
) -> Sequence[CopiedGroup]:
    """Write each group of a job again.

    Raises BugError (P847), UnavailableError, and what reading and writing raise.
    """
    return [_copied(job, files, open_writer, rows, observer) for files in job.groups]


def _copied(
    job: CopyJob,
    former: Sequence[str],
    open_writer: WriterFactory,
    rows: FileRows,
    observer: Observer,
) -> CopiedGroup:
    placing = Placing(is_sorted=job.is_sorted, row_ids=job.row_ids)
    writer = open_writer(
        job.target, prefix=job.prefix, observer=observer, places=True, placing=placing
    )
    read = RowDigest()
    try:
        for batch in _read(job, rows, former):
            read.add(batch)
            writer.write(batch)
        files, places = tuple(writer.close()), writer.places()
    except BaseException:
        writer.abandon()
        raise
    new = [rows.written(job.work, each) for each in files]
    if _keeps_order(places):
        back = RowDigest()
        for batch in _read(job, rows, new):
            back.add(batch)
        _require(job, read.rows, back.rows, agree=read.agrees(back))
    else:
        sums = [_sum(_read(job, rows, each)) for each in (former, new)]
        _require(job, sums[0].rows, sums[1].rows, agree=sums[0] == sums[1])
    return CopiedGroup(files, places)


def _read(job: CopyJob, rows: FileRows, details: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read rows of files, without their positions."""
    for each in details:
        for batch in rows.read(job.work, each):
            yield batch.select(range(batch.num_columns - 1))


def _sum(batches: Iterator[pa.RecordBatch]) -> RowSum:
    found = RowSum()
    for batch in batches:
        found.add(batch)
    return found


def _require(job: CopyJob, read: int, back: int, *, agree: bool) -> None:
    if not agree:
        raise BugError(
            f"{job.table}: of {read} rows that were read, {back} were written again, or others",
            code="P847",
            hint="nothing was committed; report this with the log",
        )


def _keeps_order(places: Places) -> bool:
    """Return whether rows lie in files, one after the other, in the order in which they came."""
    files, rows = places
    counts = np.bincount(files)
    ordered = _in_order(counts)
    return bool((files == ordered[0]).all() and (rows == ordered[1]).all())


def _in_order(counts: Sequence[int] | np.ndarray[Any, Any]) -> Places:
    """Return the places of rows that fill files of so many rows one after the other."""
    ends = np.cumsum(counts, dtype=np.int64)
    files = np.repeat(np.arange(len(ends), dtype=np.int32), counts)
    return files, np.arange(len(files)) - np.repeat(ends - counts, counts)


def job_to_json(job: CopyJob) -> str:
    """Write a job."""
    return json.dumps({"v": JOB_VERSION, **asdict(job)})


def job_from_json(text: str) -> CopyJob:
    """Read a job, of the same release: engines compare the versions of workers (P608)."""
    data = json.loads(text)
    version = data.pop("v")
    assert version == JOB_VERSION, f"a job of version {version}"
    groups = tuple(map(tuple, data["groups"]))
    return CopyJob(**{**data, "row_ids": tuple(data["row_ids"]), "groups": groups})


def result_to_json(groups: Sequence[CopiedGroup], places_max: int) -> str:
    """Write what became of groups: places of so many rows, or those that follow from the files."""
    data, told = [], 0
    for group in groups:
        places: str | Sequence[str] = IN_ORDER
        if group.places is None or not _keeps_order(group.places):
            told += sum(each.record_count for each in group.files)
            known = told <= places_max
            places = [_packed(each) for each in group.places or ()] if known else UNKNOWN
        data.append({"files": [file_to_data(each) for each in group.files], "places": places})
    return json.dumps(data)


def result_from_json(text: str) -> Sequence[CopiedGroup]:
    """Read what became of groups."""
    return [_group(each["files"], each["places"]) for each in json.loads(text)]


def _group(files: Sequence[Any], places: str | Sequence[str]) -> CopiedGroup:
    found = tuple(map(file_from_data, files))
    if places == IN_ORDER:
        return CopiedGroup(found, _in_order([each.record_count for each in found]))
    if places == UNKNOWN:
        return CopiedGroup(found, None)
    numbers, rows = map(_unpacked, places)
    return CopiedGroup(found, (numbers.astype(np.int32), rows))


def _packed(numbers: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(zlib.compress(numbers.astype("<i4").tobytes(), 1)).decode()


def _unpacked(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i4").astype(np.int64)
