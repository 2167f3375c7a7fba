"""A process that writes files keeps what it freed, and uses it again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from penstock.engines.allocation import KEEPING_ENVIRONMENT

PROGRAM = """
import os
from penstock.engines.allocation import keep_freed_memory
keep_freed_memory(os.environ)
import numpy as np
import pyarrow as pa

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def freed():
    np.frombuffer(pa.allocate_buffer(1 << 27), np.uint8)[:] = 1

before = resident_bytes()
freed()
print(pa.default_memory_pool().backend_name, (resident_bytes() - before) >> 26)
"""


COMMAND = """
from pathlib import Path
from penstock.cli.maintain import maintain
from penstock.core.errors import PenstockError
try:
    maintain(spec=Path("nowhere.yaml"), shard={shard!r})
except PenstockError:
    import pyarrow as pa
    print(pa.default_memory_pool().backend_name)
"""
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")


def said(program: str, environment: Mapping[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MIMALLOC_PURGE_DELAY": "0", **environment},
    ).stdout.strip()


@ON_LINUX
@pytest.mark.parametrize(
    ("environment", "kept"),
    [({}, "system 2"), (KEEPING_ENVIRONMENT, "system 2"), ({"MALLOC_TRIM_THRESHOLD_": "1"}, "0")],
)
def test_what_is_freed_is_kept_unless_the_environment_says_otherwise(
    environment: Mapping[str, str], kept: str
) -> None:
    assert said(PROGRAM, environment).endswith(kept)


@ON_LINUX
@pytest.mark.parametrize("shard", [None, "all"])
def test_maintenance_that_is_typed_says_so_before_arrow_is_loaded(shard: str | None) -> None:
    assert "system" == said(COMMAND.format(shard=shard), {})
