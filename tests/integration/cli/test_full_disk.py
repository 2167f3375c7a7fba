"""A disk that is full: a table is parked or the run ends with 75; with space again, all lands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop

MEGABYTES = 24


def mount(place: Path) -> bool:
    """Mount a small file system; only root may, and not everywhere."""
    options = ("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(place))
    mounting = ("mount", *options)
    return os.geteuid() == 0 and subprocess.run(mounting, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if not mount(place):
        pytest.skip("this machine does not let the tests mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(("umount", "--lazy", str(place)), check=True)


def fill(disk: Path) -> Path:
    """Fill a file system to the last byte; removing the file given makes room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return ballast


@pytest.mark.parametrize("catalog", ["lake", "delta"])
def test_a_warehouse_without_space_parks_its_table_and_the_other_lands(
    shop: Shop, small_disk: Path, catalog: str
) -> None:
    table = f"{catalog}.shop.orders"
    shop.spec["catalogs"][catalog]["warehouse" if catalog == "lake" else "root"] = str(small_disk)
    shop.spec["quarantine"]["into"] = "safe.ops.quarantine"
    shop.spec["catalogs"]["safe"] = {"type": "delta", "root": "./safe"}
    shop.send(0, 100)
    assert 0 == shop.run().code

    ballast = fill(small_disk)
    shop.send(100, 2000)
    full = shop.run()
    assert "parked" in full.json, full.out + full.err[-3000:]
    assert (75, {table}) == (full.code, set(full.json["parked"]))
    assert "space" in full.out
    other = shop.ids()[1 if catalog == "lake" else 0]
    assert list(range(2100)) == other

    ballast.unlink()
    assert 0 == shop.run().code
    assert (list(range(2100)), list(range(2100))) == shop.ids()
    shop.prove()


def test_a_store_without_space_ends_the_run_and_loses_nothing(shop: Shop, small_disk: Path) -> None:
    shop.spec["pending"] = {"store": f"sqlite:///{small_disk}/shop.db"}
    shop.send(0, 100)
    assert 0 == shop.run().code

    ballast = fill(small_disk)
    shop.send(100, 2000)
    full = shop.run()
    assert (75, "P504") == (full.code, full.json["error"]["code"])
    assert "df -h" in full.json["error"]["hint"]

    ballast.unlink()
    assert 0 == shop.run().code
    assert (list(range(2100)), list(range(2100))) == shop.ids()
    shop.prove()


def test_a_disk_that_fills_up_while_it_runs_is_survived(shop: Shop, small_disk: Path) -> None:
    """Everything is on the small disk: tables, quarantine, store."""
    shop.directory = small_disk / "shop"
    shop.directory.mkdir()
    with shop.producing() as sent, shop.driver() as driver:
        driver.wait_for("TableCommitted", 4)
        ballast = fill(small_disk)
        reported = {"TableParked", "PipelineStopped"}
        driver.wait_until(lambda: any(driver.count(event) for event in reported), "it was noticed")
        ballast.unlink()
        if driver.running:
            driver.kill()
    assert 0 == shop.run().code
    assert (list(range(sent())), list(range(sent()))) == shop.ids()
    shop.prove()
