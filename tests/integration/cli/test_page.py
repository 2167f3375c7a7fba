"""The page of a real run, and of a run on another host; the store knows what it says of itself."""

from __future__ import annotations

import json
import signal
import urllib.request
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_publish import Mirror
from tests.integration.cli.within import within
from tests.processes.broker import Cluster, wait_until
from tests.processes.process import Driver
from tests.servers.postgresql import ESCAPED, PASSWORD
from tests.servers.warm import WarmProcess

from penstock.app.assembly.assembly import open_reports
from penstock.app.assembly.process import SystemClock
from penstock.app.page.elsewhere import ElsewherePipeline
from penstock.app.page.views import PipelineView
from penstock.observe.why import Grade
from penstock.spec.load import load, load_publications
from penstock.testing.sent import Sent
from penstock.web.serving import Address, page_served

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"


@pytest.fixture
def database(postgresql) -> str:
    return postgresql.database()


@pytest.fixture
def shared(shop: Shop, postgresql, database: str) -> Shop:
    """A shop whose pending store is in PostgreSQL, and whose status file is on another host."""
    shop.spec["pending"] = {"store": postgresql.address(database)}
    return shop


def fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def landed(look: PipelineView) -> int:
    """Count the rows of a table that its run has told of."""
    tables = {} if look.status is None else look.status.snapshot.tables
    return tables[LAKE].rows if LAKE in tables else 0


def seen(pipeline: ElsewherePipeline, what: Any) -> PipelineView:
    """PipelineView until what is known is so."""
    wait_until(lambda: what(pipeline.view()), "it is seen")
    return pipeline.view()


def test_what_a_run_does_is_seen_on_its_page_and_from_another_host(
    shared: Shop, postgresql, database: str
) -> None:
    shared.send(0, 50)
    shared.cluster.send(shared.topic, 0, [Sent(b"no json")])
    spec, clock = load(shared.path), SystemClock()
    elsewhere = ElsewherePipeline("shop", "", clock, pipeline=spec, publications=None)
    start = partial(WarmProcess, directory=shared.directory)  # its status file is there
    with Driver(shared.path, "--page", "127.0.0.1:0", start=start) as driver:
        driver.wait_for("TableCommitted", 4)
        url = driver.wait_for("PageServed").data["url"]
        own = fetched(f"{url}shop/tables.json")
        with elsewhere.watching():
            look = seen(elsewhere, lambda look: landed(look) == 50)
            told = within("status", shared.path, "--json").json
            driver.send(signal.SIGTERM)
            assert 0 == driver.end().code
            ended = seen(elsewhere, lambda look: look.why.text.startswith("It was stopped"))
    with postgresql.connect(database) as connection:
        kept = _texts(connection)

    assert {LAKE, DELTA} <= {each["name"] for each in own["data"]["tables"]}
    assert ("flows", True) == (own["head"]["why"]["grade"], own["head"]["running"])
    assert look.status is not None
    assert look.status.tells
    assert ["owner"] == [each.state for each in look.members or ()]
    assert "TableCommitted" in {each.event for each in look.happenings}
    assert (True, 50, "flows") == (
        told["running"],
        told["tables"][LAKE]["rows"],
        told["why"]["grade"],
    )
    assert "PipelineStopped" == ended.happenings[0].event
    for secret in (PASSWORD, ESCAPED):
        assert secret not in kept
    assert "no json" not in kept, "no record is kept"


def _texts(connection: psycopg.Connection) -> str:
    rows = [
        *connection.execute("SELECT convert_from(body, 'UTF8') FROM penstock.snapshots"),
        *connection.execute("SELECT subject || text FROM penstock.happenings"),
    ]
    return "\n".join(text for (text,) in rows)


def test_publications_alone_are_seen_as_well(cluster: Cluster, tmp_path: Path) -> None:
    mirror = Mirror(cluster, tmp_path)
    mirror.send(5)
    published = load_publications(mirror.save())
    clock = SystemClock()
    elsewhere = ElsewherePipeline("shop", "", clock, pipeline=None, publications=published)
    with elsewhere.watching(), page_served(Address("127.0.0.1", 0), [elsewhere], clock) as url:
        seen(elsewhere, lambda view: view.publications is not None)
        told = fetched(f"{url}shop/publications.json")

    [publication] = told["data"]["publications"]
    assert (None, mirror.into) == (publication["problem"], publication["into"])
    waiting = publication["backlog"]
    assert waiting > 0
    assert f"Everything flows: {waiting} records to publish" == told["head"]["why"]["text"]


def test_with_a_store_in_a_file_what_happened_is_kept_beside_it(shop: Shop) -> None:
    shop.send(0, 5)
    assert 0 == within("run", shop.path, "--until-caught-up", "--json").code
    reports = open_reports(load(shop.path))
    assert reports is not None
    with closing(reports):
        events = [each.event for each in reports.happenings("shop")]

    assert "PipelineStopped" == events[0]
    assert {"TableCreated", "PipelineStarted", "TableCommitted"} <= {*events}


def test_a_store_that_is_down_is_said_and_nobody_waits_for_it(shop: Shop) -> None:
    """CO-P1: the page answers at once, and says what it does not know."""
    shop.spec["pending"] = {"store": "postgresql://penstock@127.0.0.1:1/none"}
    clock = SystemClock()
    gone = ElsewherePipeline("shop", "", clock, pipeline=load(shop.path), publications=None)
    with gone.watching(), page_served(Address("127.0.0.1", 0), [gone], clock) as url:
        first = fetched(f"{url}shop.json")
        look = seen(gone, lambda look: look.troubles)

    assert first["head"]["why"]["grade"] != Grade.FLOWS
    assert (Grade.STANDS, "P512") == (look.why.grade, look.why.code)
