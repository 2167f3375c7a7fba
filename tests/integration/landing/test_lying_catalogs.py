"""Real catalogs behind a proxy that lies: a REST catalog before Iceberg, S3 before Delta.

failure-modes.md C12 and its last section: an answer lost, doubled, delayed, 409 and 5xx after success,
OK without effect, 503. Whatever is said, every record lands once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import TableResponse
from tests.integration.s3.lake import SECRETS, DeltaGroundOnS3
from tests.servers import rest
from tests.servers.lying import Liar, Lie, lying
from tests.story.backend import CATALOG, catalog_name
from tests.story.real_backends import IcebergWithoutBroker
from tests.story.world import ORDERS, QUARANTINE, World

from penstock.connectors import iceberg
from penstock.core.commits import Chain
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import ORDERS as ORDERS_SCHEMA
from penstock.testing.prepared import origin, part, prepared

RUNS = itertools.count()
APPENDS = {
    "rest": "POST .*/tables/{table}$",
    "s3": r"PUT .*/{table}/_delta_log/\d+\.json",
}
CREATES = {"rest": "POST .*/tables$", "s3": r"PUT .*/{table}/_delta_log/0+\.json"}


class IcebergOverRest(IcebergWithoutBroker):
    """Iceberg tables that a REST catalog names."""

    def __init__(self, directory: Path, address: str) -> None:
        super().__init__(directory)
        self.settings = {"type": "rest", "uri": address}

    def open_catalog(self, observer):
        return iceberg.open_catalog({"name": CATALOG, **self.settings}, SECRETS, observer)

    def foreign(self):
        return load_catalog(CATALOG, **self.settings)


@pytest.fixture(params=["rest", pytest.param("s3", marks=pytest.mark.slow)])
def kind(request) -> str:
    """S3 answers slowly here, so its lies are reported by `make crash`."""
    return request.param


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> Iterator[str]:
    """A REST catalog that no other test gives names to."""
    with rest.running(tmp_path_factory.mktemp("names")) as address:
        yield address


@pytest.fixture
def lies(kind, request) -> Iterator[Liar]:
    server = request.getfixturevalue("names" if kind == "rest" else "s3")
    with lying(server if kind == "rest" else server.endpoint) as liar:
        yield liar


@pytest.fixture
def world(kind, lies, tmp_path, request) -> Iterator[World]:
    if kind == "s3":
        ground = DeltaGroundOnS3(tmp_path, request.getfixturevalue("s3"))
        ground.settings["storage_options"]["endpoint_url"] = lies.address
        yield World(ground)
        return
    ground = IcebergOverRest(tmp_path, lies.address)
    namespaces = {catalog_name(name).partition(".")[0] for name in (ORDERS, QUARANTINE)}
    for each in namespaces:  # lives draw the same names of files in each test: a place of its own
        ground.foreign().create_namespace(each, {"location": str(tmp_path / each)})
    yield World(ground)
    lies.clear()
    for each in namespaces:
        for table in ground.foreign().list_tables(each):
            ground.foreign().drop_table(table)
        ground.foreign().drop_namespace(each)


def pattern(patterns: dict[str, str], kind: str, table: str) -> str:
    return patterns[kind].format(table=table.rpartition(".")[2])


def test_an_answer_about_a_table_that_is_the_former_one_is_not_parsed_again(
    names, tmp_path, monkeypatch
) -> None:
    world = World(IcebergOverRest(tmp_path, names))
    place = "parsed"
    world.ground.foreign().create_namespace(place, {"location": str(tmp_path / place)})
    catalog = world.ground.open_catalog(Quiet())
    chain = Chain("shop", f"lake.{place}.orders")
    table = catalog.create(
        f"{place}.orders", TableDefinition(ORDERS_SCHEMA), (origin(chain, {0: 0}),)
    )
    answers = []
    parse = TableResponse.model_validate_json
    monkeypatch.setattr(
        TableResponse, "model_validate_json", lambda text: answers.append(text) or parse(text)
    )
    positions = []
    for number in range(3):
        before = table.state(chain)  # the answer that read the last commit back
        table.commit(before, prepared(chain, {0: (number, number + 1)}, uuid=before.uuid), retain=9)
        positions.append(table.state(chain).landed.offsets[part(0)])
    catalog.close()

    assert [1, 2, 3] == positions
    assert 1 + 3 == len(answers)


def settled(world: World, lies: Liar) -> None:
    """Let what was delayed arrive, go on, and compare with the log."""
    lies.release()
    world.send("orders", 1)
    world.run()
    assert [] == world.breaks()
    assert 1 == len(lies.reported)


@pytest.mark.parametrize("lie", Lie)
def test_c12_whatever_is_said_of_a_commit_its_records_land_once(world, lies, kind, lie) -> None:
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    lies.queue(pattern(APPENDS, kind, ORDERS), lie)
    world.run()
    settled(world, lies)


@pytest.mark.parametrize("lie", [Lie.LOSE_ANSWER, Lie.CONFLICT_AFTER, Lie.TWICE, Lie.DELAY])
def test_whatever_is_said_of_a_quarantine_commit_records_are_refused_once(
    world, lies, kind, lie
) -> None:
    world.send("orders", 3)
    world.send_raw("orders", b"bad")
    world.run()
    world.send_raw("orders", b"worse")
    lies.queue(pattern(APPENDS, kind, QUARANTINE), lie)
    world.run()
    settled(world, lies)
    assert 2 == len(world.rejects())


@pytest.mark.parametrize("lie", [Lie.LOSE_ANSWER, Lie.LOSE_REQUEST, Lie.ERROR_AFTER, Lie.TWICE])
def test_whatever_is_said_of_a_creation_the_table_begins_once(world, lies, kind, lie) -> None:
    world.send("orders", 3)
    lies.queue(pattern(CREATES, kind, ORDERS), lie)
    world.life().run()
    settled(world, lies)


def test_c10_a_request_that_was_held_back_is_refused_after_a_successor(world, lies, kind) -> None:
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    lies.queue(pattern(APPENDS, kind, ORDERS), Lie.DELAY)
    life = world.life(crash="read-back:2").run()
    world.run()
    arrived: Callable[[], list[int]] = lies.release

    assert life.ended is not None or life.crashed
    assert [status for status in arrived() if status < 300] == []
    assert [] == world.breaks()
