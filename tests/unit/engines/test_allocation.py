"""A process that writes files keeps what it freed, and uses it again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.engines.allocation import KEEPING_ENVIRONMENT

PIECE = """
import numpy as np
import pyarrow as pa
from penstock.engines.allocation import keep_freed_memory

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def freed():
    piece = pa.allocate_buffer(1 << 27)
    np.frombuffer(piece, np.uint8)[:] = 1

keep_freed_memory({environment!r})
before = resident_bytes()
freed()
print(pa.default_memory_pool().backend_name, (resident_bytes() - before) >> 26)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "system 2"),
        ({"MALLOC_TRIM_THRESHOLD_": "1"}, "mimalloc 0"),
        (KEEPING_ENVIRONMENT, "mimalloc 0"),
    ],
)
def test_what_is_freed_is_kept_unless_the_environment_says_otherwise(
    environment: dict[str, str], said: str
) -> None:
    program = PIECE.format(environment=environment)
    found = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MIMALLOC_PURGE_DELAY": "0"},
    )

    assert said == found.stdout.strip()
