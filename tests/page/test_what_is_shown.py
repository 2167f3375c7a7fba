"""What pages say of pipelines, as data."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace

import pytest
from tests.page.conftest import Serve
from tests.page.looked_at import NOW_MS, Still, billing, many, shop

from penstock.app.page.views import PipelineView
from penstock.core.errors import UnavailableError
from penstock.observe.why import Grade
from penstock.web import pages
from penstock.web.drawing import BUCKETS, HEIGHT, bars, buckets
from penstock.web.words import hint_parts

GONE = UnavailableError("no broker answers", code="P201", hint="wait")


def test_before_the_first_look_that_is_said(serve: Serve) -> None:
    url = serve(Still(PipelineView("shop", NOW_MS)))
    with urllib.request.urlopen(f"{url}/shop", timeout=10) as answer:
        text = answer.read().decode()

    assert "It is being looked at for the first time" in text
    assert "Tables</a>" not in text


def test_publications_alone_have_their_sentence() -> None:
    found = billing().publications
    assert found is not None
    flows = PipelineView("billing", NOW_MS, publications=found)
    stopped = [replace(found[0], problem=GONE), *found]
    held = replace(flows, publications=stopped)

    assert (Grade.FLOWS, "Everything flows: 12 records to publish") == (
        flows.why.grade,
        flows.why.text,
    )
    assert (Grade.HELD, "invoices: no broker answers; 1 other") == (held.why.grade, held.why.text)
    assert ["publications"] == pages.sections(flows)


def test_what_nothing_could_be_read_for_is_said_once(serve: Serve) -> None:
    url = serve(Still(PipelineView("shop", NOW_MS, troubles=[GONE, GONE])))
    with urllib.request.urlopen(f"{url}/shop", timeout=10) as answer:
        assert 1 == answer.read().decode().count(GONE.message)


def test_what_could_not_be_read_is_said_beside_what_is_known() -> None:
    head = pages.head(replace(shop(), troubles=[GONE, GONE]))

    assert ["P201"] == [each["code"] for each in head["troubles"]]
    assert 5 == head["tables"]


def test_two_pipelines_of_one_name_and_a_reserved_one_have_places_of_their_own(
    serve: Serve,
) -> None:
    named = [Still(PipelineView(name, NOW_MS)) for name in ("shop", "shop", "static")]
    url = serve(*named)
    with urllib.request.urlopen(f"{url}/pipelines.json", timeout=10) as answer:
        places = [each["place"] for each in json.load(answer)["data"]["pipelines"]]

    assert ["shop", "shop~1", "static~2"] == places


@pytest.mark.parametrize(
    ("asked", "first", "found", "page"),
    [
        ({}, "0000", 1000, 1),
        ({"page": "5"}, "0800", 1000, 5),
        ({"page": "99"}, "0800", 1000, 5),
        ({"page": "x"}, "0000", 1000, 1),
        ({"page": "9" * 5000}, "0000", 1000, 1),
        ({"q": " TENANT_09"}, "0900", 100, 1),
    ],
)
def test_many_tables_are_in_pages_and_found_by_name(
    asked: dict[str, str], first: str, found: int, page: int
) -> None:
    data = pages.tables(many(1000), asked)

    assert data["tables"][0]["name"].endswith(first)
    assert (found, page) == (data["found"], data["page"])


def test_events_are_found_by_words_and_level() -> None:
    grave = pages.events(shop(), {"level": "warning"})["events"]
    words = pages.events(shop(), {"q": "P430"})["events"]

    assert {"warning", "error"} == {each.level for each in grave}
    assert ["TableParked"] == [each.event for each in words]


def test_an_epoch_has_its_phases_and_the_slowest_is_named() -> None:
    newest, before, *_ = pages.epochs(shop(), {})["epochs"]

    assert (False, True) == (newest["is_over"], before["is_over"])
    assert {"read": 5.0, "prepare": None, "commit": None} == newest["phases"]
    assert "read" == before["slowest"]["phase"]


def test_bars_are_within_their_picture() -> None:
    counts = buckets([(NOW_MS - 1, 5), (NOW_MS - 15_000, 1), (NOW_MS - 10**9, 9)], NOW_MS)
    drawn = bars(counts)

    assert (BUCKETS, 6) == (len(counts), sum(counts))
    assert [(112, 16, 4), (116, 0, HEIGHT)] == [(bar.x, bar.y, bar.height) for bar in drawn]
    assert [] == bars([0, 0])


def test_a_hint_is_words_and_a_command_that_names_the_spec() -> None:
    hint = "to continue after the gap:  penstock run --accept gap"

    assert [("to continue after the gap:", False), ("penstock run a.yaml --accept gap", True)] == (
        hint_parts(hint, "a.yaml")
    )
    assert [("penstock run", True)] == hint_parts("penstock run", "")
    assert [("wait", False)] == hint_parts("wait", "a.yaml")
