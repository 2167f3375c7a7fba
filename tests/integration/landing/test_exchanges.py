"""Rows of a partition meet in one task: stories with Iceberg and Delta on disk (0377).

X1 to X3 are failures of docs/design/failure-modes.md.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.story.real_backends import DeltaWithoutBroker, IcebergWithoutBroker
from tests.story.world import ORDERS, World

from penstock.core.crash_points import CrashPoint
from penstock.core.events import ExchangeGivenUp
from penstock.core.planning import Budget
from penstock.ports.writers import Distribution, Placing

CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cork", "Nice", "Pune", "Bari")
NAME = "bronze.orders"
ENDS = ("opened", "written", "closed")
LAYOUT = {"partition_by": ("city",), "placing": Placing(Distribution.HASH)}
GROUNDS = {"iceberg": IcebergWithoutBroker, "delta": DeltaWithoutBroker}


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let epochs have several slices, however small they are."""
    small = partial(Budget, slice_bytes_min=1)
    monkeypatch.setattr("penstock.landing.epoch.trigger.Budget", small)


@pytest.fixture(params=[*GROUNDS])
def world(request: pytest.FixtureRequest, small_slices: None, tmp_path: Path) -> World:
    """A table of 8 cities."""
    del small_slices
    return World(GROUNDS[request.param](tmp_path), partitions=4, layout=LAYOUT)


def send(world: World, rounds: int = 2) -> None:
    """Send records of all cities to all partitions."""
    for _ in range(rounds):
        for partition in range(4):
            for city in CITIES:
                world.send("orders", partition=partition, city=city)


def exchange_files(world: World) -> list[Path]:
    return [*Path(world.ground.directory).rglob("*.exchange")]


def files_by_city(world: World) -> Counter[str]:
    """Count the live files of each city, by the format's own library."""
    ground = world.ground
    if isinstance(ground, DeltaWithoutBroker):
        added = DeltaTable(ground.location(NAME)).get_add_actions(flatten=True)
        return Counter(pa.table(added).column("partition.city").to_pylist())
    files = ground.foreign().load_table(NAME).inspect.files()
    return Counter(each["city"] for each in files.column("partition").to_pylist())


def numbers_of(world: World, city: str) -> list[int]:
    """Read one city by the format's own library and DuckDB."""
    ground = world.ground
    if isinstance(ground, DeltaWithoutBroker):
        rows = DeltaTable(ground.location(NAME)).to_pyarrow_dataset()
    else:
        rows = ground.foreign().load_table(NAME).scan(row_filter=f"city == '{city}'").to_arrow()
    with duckdb.connect() as session:
        session.register("landed", rows)
        found = session.execute("select n from landed where city = $1 order by n", [city])
        return [n for (n,) in found.fetchall()]


def sent(world: World, city: str) -> list[int]:
    """Return what was sent of a city, by a consumer of its own."""
    held = (
        json.loads(each.value or b"") for each in world.ground.held(world.ground.topic("orders"))
    )
    return sorted(each["n"] for each in held if each["city"] == city)


def landed_once(world: World) -> World:
    """Land what creates the table, and leave an exchange to the next life."""
    send(world, 1)
    world.run()
    send(world)
    return world


def require_exact(world: World) -> None:
    """Check that every record is once, that readers agree, and that nothing is left over."""
    assert [] == world.breaks()
    for city in CITIES[:2]:
        assert sent(world, city) == numbers_of(world, city)


def test_each_partition_gets_one_file_of_an_epoch_that_several_tasks_read(world: World) -> None:
    landed_once(world)
    before = files_by_city(world)
    life = world.run()

    (share,) = life.shares
    assert (ORDERS, 64) == (share.table, sum(b.rows for f in share.share for b in f.blocks))
    assert Counter(CITIES) == files_by_city(world) - before
    assert [] == exchange_files(world)
    require_exact(world)


def test_others_write_between_two_exchanges_and_nobody_minds(world: World) -> None:
    landed_once(world)
    world.run()
    world.ground.append(NAME)
    send(world)
    life = world.run()

    assert 1 == len(life.shares)
    require_exact(world)


@pytest.mark.parametrize(("says", "exchanged"), [("hash", 1), ("range", 1), ("none", 0)])
def test_auto_exchanges_rows_where_an_iceberg_table_says_so(
    small_slices: None, tmp_path: Path, says: str, exchanged: int
) -> None:
    del small_slices
    properties = {"write.distribution-mode": says}
    layout = {**LAYOUT, "placing": Placing(Distribution.AUTO), "properties": properties}
    world = World(IcebergWithoutBroker(tmp_path), partitions=4, layout=layout)
    landed_once(world)

    assert exchanged == len(world.run().shares)
    require_exact(world)


def test_files_say_the_ranges_that_their_rows_may_be_of(world: World) -> None:
    landed_once(world)
    world.life().prepare_only(1).run()

    (commit,) = [each for each in world.pending() if each.chain.table == ORDERS]
    for file in commit.files:
        assert commit.progress == file.ranges


@pytest.mark.parametrize(
    "point",
    ["result.returned", *(pytest.param(f"file.{each}", marks=pytest.mark.slow) for each in ENDS)],
)
def test_x1_a_coordinator_that_dies_in_any_stage_lands_all_once(world: World, point: str) -> None:
    landed_once(world)
    passed = 0
    while True:
        passed += 1
        life = world.life(crash=f"{point}:{passed}").run()
        if not life.crashed:
            break
    require_exact(world)
    assert passed > 2, "it died in both stages"


def test_x1_of_two_attempts_at_every_job_one_counts(world: World) -> None:
    landed_once(world)
    life = world.life()
    life.repeats = lambda _first, second: second
    life.run()

    assert [ORDERS] == [each.table for each in life.shares]
    require_exact(world)


def lost(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def foreign(path: Path) -> None:
    path.write_bytes(bytes(reversed(path.read_bytes())))


@pytest.mark.parametrize("harm", [lost, pytest.param(cut, marks=pytest.mark.slow), foreign])
def test_x2_an_exchange_file_that_is_not_as_it_was_written_is_no_row(
    world: World, harm: Callable[[Path], None]
) -> None:
    """The second slice is done: the files of both are there, and none is read yet."""
    landed_once(world)
    life = world.life()
    life.at(CrashPoint.RESULT_RETURNED, lambda: harm(exchange_files(world)[0]), passing=2).run()

    assert ["P481"] == [each.code for each in life.of(ExchangeGivenUp)]
    require_exact(world)


def test_an_exchange_that_workers_do_not_survive_is_read_again_without_one(world: World) -> None:
    landed_once(world)
    life = world.life()
    life.shares_kill = True
    life.run()

    assert ["P606"] == [each.code for each in life.of(ExchangeGivenUp)]
    require_exact(world)
