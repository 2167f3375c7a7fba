"""Read-only commands need no right to write, and leave every byte as it was.

Proved with a PostgreSQL role that may SELECT and nothing else, and on a file system that is mounted
read-only: there a write would be an error.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_full_disk import mount
from tests.integration.cli.within import fingerprint, land, within
from tests.servers.postgresql import PostgresqlServer

READER, PASSWORD = "looker", "only"


def read_only_commands(shop: Shop, spec: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each read-only command."""
    yield "plan", spec, "--json"
    yield "peek", shop.topic, "--spec", spec, "--json"
    yield "status", spec, "--json"
    yield "audit", "--spec", spec, "--json"
    yield "quarantine", "list", "--spec", spec, "--json"
    yield "replay", "lake.shop.orders", shop.topic, "--spec", spec, "--json"
    yield "load", "lake.shop.orders", "--replace", "--spec", spec, "--json"
    yield "seek", "lake.shop.orders", "--spec", spec, "--json"


def run_read_only(shop: Shop, spec: Path) -> dict[str, tuple[int, str]]:
    """Run all read-only commands; return what failed, and prove that no byte has changed."""
    before = fingerprint(shop.directory)
    ended = {words[0]: within(*words) for words in read_only_commands(shop, str(spec))}
    assert before == fingerprint(shop.directory)
    return {name: (done.code, done.out + done.err) for name, done in ended.items() if done.code}


def test_before_the_first_run_nothing_is_made(shop: Shop) -> None:
    shop.send(0, 5)
    words = ("audit", "--spec", str(shop.path), "--json")
    before = fingerprint(shop.directory)
    done = within(*words)

    assert before == fingerprint(shop.directory)
    assert 2 == done.code
    assert "P461" in done.out


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Let nobody write to a mounted file system."""
    subprocess.run(("mount", "-o", "remount,ro", str(place)), check=True)
    try:
        yield
    finally:
        subprocess.run(("mount", "-o", "remount,rw", str(place)), check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if not mount(place):
        pytest.skip("this machine does not let the tests mount a file system")
    try:
        yield place
    finally:
        subprocess.run(("umount", "--lazy", str(place)), check=True)


def test_on_a_read_only_file_system_all_is_reported(shop: Shop, disk: Path) -> None:
    """SQLite catalog and store, Iceberg and Delta tables: before the first run, and after it."""
    shop.directory = disk / "shop"
    shop.directory.mkdir()
    shop.send(0, 20)
    spec = shop.path
    with read_only(disk):
        nothing_there = run_read_only(shop, spec)
    land(shop)
    shop.send(20, 10)
    with read_only(disk):
        assert {} == run_read_only(shop, spec)
    codes = {name: code for name, (code, _) in nothing_there.items()}
    assert {"audit": 2, "load": 2, "replay": 2, "seek": 2} == codes, (
        "they say that nothing has landed"
    )


def test_a_role_that_may_only_select_is_enough(
    shops: Callable[[], Shop], postgresql: PostgresqlServer
) -> None:
    """Catalog and pending store are in PostgreSQL."""
    shop, database = shops(), postgresql.database()
    address = postgresql.address(database)
    shop.spec["catalogs"]["lake"]["uri"] = address
    shop.spec["pending"] = {"store": address}
    shop.send(0, 20)
    land(shop)
    shop.send(20, 10)

    postgresql.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'", database)
    postgresql.execute(f"GRANT USAGE ON SCHEMA penstock TO {READER}", database)
    for schema in ("public", "penstock"):
        postgresql.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {READER}", database)
    reader = postgresql.address(database, f"{READER}:{PASSWORD}")
    shop.spec["catalogs"]["lake"]["uri"] = reader
    shop.spec["pending"] = {"store": reader}
    reported = run_read_only(shop, shop.path)
    postgresql.execute(f"DROP OWNED BY {READER}", database)
    postgresql.execute(f"DROP ROLE {READER}", database)

    assert {} == reported
