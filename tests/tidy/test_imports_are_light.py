"""Heavy libraries are not imported before they are needed (ARCHITECTURE.md)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pyspark", "confluent_kafka", "pyiceberg", "deltalake", "pyarrow", "pandas", "numpy"}
PARSER = {"cyclopts", "attr", "attrs", "docstring_parser", "rich"}
ROOMS = {"penstock", "penstock.cli", "penstock.core", "penstock.core.version"}
PRINTED = {f"penstock.{each}" for each in ("cli.output", "cli.parameters", "core")}
PRINTED |= {"penstock.core.errors"}
SLOW_STANDARD = {"asyncio", "email", "http", "logging", "multiprocessing", "subprocess"}
JYTHON = {"org"}  # `copy` asks whether it runs there
SPEC = """
name: shop
kafka: { brokers: localhost:9092, topics: [orders] }
catalogs:
  lake: { type: sql, uri: sqlite:///catalog.db, warehouse: ./lake }
  delta: { type: delta, root: ./delta }
tables:
  - { from: orders, into: lake.bronze.orders, continue: true }
  - { from: orders, into: delta.bronze.orders }
quarantine: { into: lake.ops.quarantine }
"""
IMPORTED = re.compile(r"^import time:\s*\d+ \|\s*\d+ \|\s*([\w.]+)$", re.MULTILINE)
SCRIPT = str(Path(sys.executable).with_name("penstock"))


def modules(*arguments: str) -> set[str]:
    """Run this Python and give the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    return set(IMPORTED.findall(done.stderr))


def imported(*arguments: str) -> set[str]:
    """Run this Python and give the top-level packages that it imported."""
    return {name.split(".")[0] for name in modules(*arguments)}


def test_the_check_sees_a_heavy_import() -> None:
    assert {"numpy"} <= imported("-c", "import numpy")


def test_importing_the_commands_is_light() -> None:
    assert set() == HEAVY & imported("-c", "import penstock.cli")


@pytest.mark.parametrize(
    ("option", "packages", "rooms"),
    [("--version", set(), ROOMS), ("--help", PARSER, ROOMS | PRINTED)],
)
def test_a_command_with_nothing_to_do_imports_what_it_shows_and_no_more(
    option: str, packages: set[str], rooms: set[str]
) -> None:
    """How many seconds that takes is measured on a quiet machine (`benchmarks startup`)."""
    found = modules(SCRIPT, option) - modules("-c", "pass")
    tops = {name.split(".")[0] for name in found}

    assert rooms == {name for name in found if name.split(".")[0] == "penstock"}
    assert packages == tops - sys.stdlib_module_names - JYTHON - {"penstock"}
    assert set() == SLOW_STANDARD & tops


def test_checking_a_spec_imports_no_client_and_no_engine(tmp_path: Path) -> None:
    spec = tmp_path / "penstock.yaml"
    spec.write_text(SPEC)

    assert {"pyarrow", "numpy"} == HEAVY & imported(SCRIPT, "validate", "--offline", str(spec))


@pytest.mark.parametrize("name", ["kafka", "iceberg", "delta", "sql"])
def test_finding_a_connector_is_light(name: str) -> None:
    assert set() == HEAVY & imported("-c", f"import penstock.connectors.{name}")
