"""Heavy libraries are not imported before they are needed (architecture.md 2)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pyspark", "confluent_kafka", "pyiceberg", "deltalake", "pyarrow", "pandas", "numpy"}
IMPORTED = re.compile(r"^import time:\s*\d+ \|\s*\d+ \|\s*([\w.]+)$", re.MULTILINE)


def imported(*arguments: str) -> set[str]:
    """Run this Python and give the top-level packages that it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    return {name.split(".")[0] for name in IMPORTED.findall(done.stderr)}


def test_the_check_sees_a_heavy_import() -> None:
    assert {"numpy"} <= imported("-c", "import numpy")


def test_importing_the_commands_is_light() -> None:
    assert set() == HEAVY & imported("-c", "import penstock.cli")


def test_the_version_is_light() -> None:
    script = Path(sys.executable).with_name("penstock")

    assert set() == HEAVY & imported(str(script), "--version")


@pytest.mark.parametrize("name", ["kafka", "iceberg", "delta", "sql"])
def test_finding_a_connector_is_light(name: str) -> None:
    assert set() == HEAVY & imported("-c", f"import penstock.connectors.{name}")
