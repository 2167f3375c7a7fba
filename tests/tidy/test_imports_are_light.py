"""Heavy libraries are not imported before they are needed (architecture.md 2)."""

import os
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


@pytest.mark.parametrize(("option", "seconds_max"), [("--version", 0.3), ("--help", 0.5)])
def test_a_command_with_nothing_to_do_takes_little_of_the_machine(
    option: str, seconds_max: float
) -> None:
    """Its CPU is asked, which neighbours on the machine change less than the clock."""
    script = Path(sys.executable).with_name("penstock")

    def asked() -> float:
        before = os.times()
        subprocess.run([script, option], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user - before.children_user

    assert min(asked() for _ in range(5)) < seconds_max


@pytest.mark.parametrize("name", ["kafka", "iceberg", "delta", "sql"])
def test_finding_a_connector_is_light(name: str) -> None:
    assert set() == HEAVY & imported("-c", f"import penstock.connectors.{name}")
