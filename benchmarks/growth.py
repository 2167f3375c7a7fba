"""What the metadata of a table weighs: of a commit, a file in it, a partition in its ledger.

Commits land in a bucket of an S3 that runs here (moto): some of one file and four partitions, some
of many files, some of more partitions; the differences show what one more costs. A commit says the
ranges it covers, in Iceberg up to a size, so partitions cost less beyond a number of them.

Invariant: all is counted and nothing is timed, so that a busy machine gives the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tests.servers.s3 import KEY, REGION, SECRET, S3Server, running

from benchmarks import commits, far
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import TABLE, Format
from penstock.connectors.iceberg.ledger.properties import RANGES_BYTES_MAX
from penstock.core.serialization import committable_to_json, ledger_to_json, progress_to_json

WARM = 30  # more than the snapshots that are kept
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """So many commits are counted, a multiple of ten, as manifests are merged by tens."""

    format: Format = "iceberg"
    commits: int = 20
    files: int = 101
    partitions: int = 104
    many_partitions: int = 2004


@dataclass(frozen=True, slots=True)
class Weight:
    """One kind of commits: bytes and requests of one; `head` is what a reader begins with."""

    put_bytes: float
    requests: float
    puts: float
    ledger_bytes: float
    pending_bytes: float
    head_bytes: float
    range_bytes: float

    def more(self, of: Weight, count: int) -> dict[str, float]:
        """Return what one more of something weighs, this kind having `count` more than another."""
        return {
            name: (getattr(self, name) - getattr(of, name)) / count
            for name in ("put_bytes", "ledger_bytes", "pending_bytes", "head_bytes")
        }


def measure(options: Options, place: Scratch) -> Measured:
    """Weigh small commits, then such with more files, then such with more partitions."""
    with running(place.subfolder("s3")) as s3, far.keys():
        small = _weighed(s3, options, place, files=1, partitions=PARTITIONS)
        wide = _weighed(s3, options, place, files=options.files, partitions=PARTITIONS)
        deep = _weighed(s3, options, place, files=1, partitions=options.partitions)
        most = _weighed(s3, options, place, files=1, partitions=options.many_partitions)
    file = wide.more(small, options.files - 1)
    partition = deep.more(small, options.partitions - PARTITIONS)
    nothing = small.put_bytes - file["put_bytes"] - PARTITIONS * partition["put_bytes"]
    beyond = (most.put_bytes - file["put_bytes"] - nothing) / options.many_partitions
    values = {
        "commit_bytes": nothing,
        "file_bytes": file["put_bytes"],
        "partition_bytes": partition["put_bytes"],
        "partition_beyond_bytes": beyond,
        "ranges_partitions": RANGES_BYTES_MAX / deep.range_bytes,
        "ledger_partition_bytes": partition["ledger_bytes"],
        "pending_file_bytes": file["pending_bytes"],
        "pending_partition_bytes": partition["pending_bytes"],
        "head_bytes": small.head_bytes,
        "head_file_bytes": file["head_bytes"] / (WARM + options.commits),
        "requests": small.requests,
        "puts": small.puts,
    }
    return Measured(values)


def _weighed(
    s3: S3Server, options: Options, place: Scratch, *, files: int, partitions: int
) -> Weight:
    bucket, folder = s3.bucket(), place.subfolder("g")
    spec = far.spec_in(folder, bucket, s3.port, options.format)
    size = commits.Options(format=options.format, files=files, partitions=partitions)
    with commits.table_of(spec, size) as fixture:
        for number in range(WARM):
            commits.settled(fixture.commit(number), fixture.made, fixture.two_phase)
        before, asked = _sizes(s3, bucket), len(s3.requests())
        for number in range(WARM, WARM + options.commits):
            commits.settled(fixture.commit(number), fixture.made, fixture.two_phase)
        made = s3.requests()[asked:]
        after = _sizes(s3, bucket)
        landed = fixture.made.table.state(fixture.made.chain).landed
        assert landed is not None, "the ledger is there"
        commit = fixture.commit(WARM + options.commits)
        ranges = json.dumps(progress_to_json(commit.progress), separators=(",", ":"))
        return Weight(
            put_bytes=sum(after[key] for key in after.keys() - before.keys()) / options.commits,
            requests=len(made) / options.commits,
            puts=sum(each.startswith(("PUT", "POST")) for each in made) / options.commits,
            ledger_bytes=len(ledger_to_json(landed)),
            pending_bytes=len(committable_to_json(commit)),
            head_bytes=_head_bytes(s3, bucket, options.format),
            range_bytes=len(ranges) / partitions,
        )


def _sizes(s3: S3Server, bucket: str) -> Mapping[str, int]:
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}


def _head_bytes(s3: S3Server, bucket: str, table_format: Format) -> float:
    """Weigh what a reader begins with: Iceberg's metadata file, Delta's checkpoint."""
    if table_format == "delta":
        _checkpoint(s3, bucket)
    ending = ".checkpoint.parquet" if table_format == "delta" else ".metadata.json"
    sizes = _sizes(s3, bucket)
    return sizes[max(key for key in sizes if key.endswith(ending))]


def _checkpoint(s3: S3Server, bucket: str) -> None:
    from deltalake import DeltaTable

    options = {
        "endpoint_url": s3.endpoint,
        "region": REGION,
        "allow_http": "true",
        "access_key_id": KEY,
        "secret_access_key": SECRET,
    }
    place = f"s3://{bucket}/delta/{TABLE.replace('.', '/')}"
    DeltaTable(place, storage_options=options).create_checkpoint()
