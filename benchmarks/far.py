"""What landing one prepared commit costs when each answer of the object store takes a while.

The same commits as in `commit`, in a bucket of an S3 that runs here (moto), once near and once
over a line that makes every answer late. The difference, in answers, is how many requests a
commit makes one after another: the number that gives the cost of another distance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from tests.servers.s3 import KEY, REGION, SECRET, S3Server, running

from benchmarks import commits, making, specs
from benchmarks.distance import farther
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

WARM = 10


@dataclass(frozen=True, slots=True)
class Options:
    """So many commits near and far, each answer of the far store so much later."""

    format: Format = "iceberg"
    commits: int = 30
    answer_ms: int = 50


def measure(options: Options, place: Scratch) -> Measured:
    """Land the commits near, then far."""
    with running(place.subfolder("s3")) as s3, keys():
        near = _landed(s3, s3.port, options, place.subfolder("n"))
        with farther(s3.port, options.answer_ms / 1e3) as port:
            far = _landed(s3, port, options, place.subfolder("f"))
    values = {
        "near_ms": median(near),
        "far_ms": median(far),
        "answers": (median(far) - median(near)) / options.answer_ms,
    }
    return Measured(values, {"near_ms": near, "far_ms": far})


def _landed(s3: S3Server, port: int, options: Options, folder: Path) -> list[float]:
    """Land commits in a bucket of its own; give the milliseconds of each after the first ones."""
    spec = spec_in(folder, s3.bucket(), port, options.format)
    size = commits.Options(format=options.format)
    with commits.table_of(spec, size) as fixture:
        took = [
            commits.settled(fixture.commit(number), fixture.made, fixture.two_phase)
            for number in range(WARM + options.commits)
        ]
        landed = fixture.made.table.state(fixture.made.chain).landed
        assert landed is not None, "the ledger is there"
        stop = commits.covered(size) * (WARM + options.commits)
        assert set(landed.offsets.values()) == {stop}, "all of it landed"
    return [round(each.settle, 2) for each in took[WARM:]]


def spec_in(folder: Path, bucket: str, port: int, table_format: Format) -> Path:
    """Write a spec whose tables are in a bucket of the S3 at a port of this machine."""
    path = specs.write(
        folder, commits.NOWHERE, making.TOPIC, table_format=table_format, partition_by=["qty"]
    )
    spec: dict[str, Any] = json.loads(path.read_text())
    endpoint = f"http://127.0.0.1:{port}"
    spec["catalogs"]["lake"] |= {
        "warehouse": f"s3://{bucket}/lake",
        "s3.endpoint": endpoint,
        "s3.region": REGION,
        "s3.access-key-id": "${env:BENCH_KEY}",
        "s3.secret-access-key": "${env:BENCH_SECRET}",
    }
    spec["catalogs"]["delta"] = {
        "type": "delta",
        "root": f"s3://{bucket}/delta",
        "storage_options": {
            "endpoint_url": endpoint,
            "region": REGION,
            "allow_http": "true",
            "access_key_id": "${env:BENCH_KEY}",
            "secret_access_key": "${env:BENCH_SECRET}",
        },
    }
    path.write_text(json.dumps(spec))
    return path


@contextmanager
def keys() -> Iterator[None]:
    """Put the bucket's keys where the spec expects them."""
    names: Mapping[str, str] = {"BENCH_KEY": KEY, "BENCH_SECRET": SECRET}
    with patch.dict(os.environ, names):
        yield
