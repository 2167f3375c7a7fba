"""What a plan says is what the run then does: exit code, outcome of each table, columns, counts.

The real coordinator and workers run on a broker, catalogs and a store in memory. A sample that is
the whole backlog must be right to the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.forecasts import Place, differences

from penstock.app.inspect.plan import sample_outcome
from penstock.app.inspect.plan.forecast import Plan
from penstock.app.inspect.plan.sample_outcome import SampleOutcome
from penstock.app.inspect.sample import trial
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition

TOPICS = ("orders", "clicks")
ORDERS, CLICKS = "lake.shop.orders", "lake.shop.clicks"
QUARANTINE = "lake.ops.quarantine"

AMOUNTS = (1, 2.5, "12,50", "1.10", None, True, -9999999.99, 10**30)
TIMES = ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05", 1767323045, "yesterday", None, 1.5)
ITEMS = ([{"sku": "a"}], [{"sku": 1}], [], None, {"sku": "a"}, [None], ["a"], [[1]])
UUIDS = ("6f1c2a34-9f0e-4e7a-8a51-6a2d5d1b7c11", "no uuid", None)
BYTES = (None, b"", b" ", b"no json", b"[1]", b'{"id": 1, "id": 2}', b"{}", b'{"a": {}}', b"\xff")
CHANGES = (
    {"before": None, "after": {"id": 1, "amount": 2}, "op": "c", "source": {}},
    {"before": {"id": 1}, "after": None, "op": "d", "source": {}},
    {"before": None, "after": {"id": "x"}, "op": "u", "source": {}},
    {"op": "?", "after": {}},
)

SCHEMA = {"create": True, "columns": "evolve", "types": "quarantine", "hints": {}}
PLAIN = {
    **{topic: {"schema": SCHEMA} for topic in TOPICS},
    "stop_above": "100%",
    "envelope": "none",
    "tables": 1000,
}

records = st.one_of(
    st.fixed_dictionaries(
        {"id": st.sampled_from((1, 2, 3, "4", None))},
        optional={
            "amount": st.sampled_from(AMOUNTS),
            "at": st.sampled_from(TIMES),
            "items": st.sampled_from(ITEMS),
            "ref": st.sampled_from(UUIDS),
            "labels": st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from((1, "x", None))),
            "kind": st.sampled_from(("new", "Old", "", None, 7)),
        },
    ).map(lambda each: json.dumps(each).encode()),
    st.sampled_from(BYTES),
    st.sampled_from(CHANGES).map(lambda each: json.dumps(each).encode()),
)
floods = st.tuples(records, st.sampled_from((1, 3, 120)))
topics = st.lists(floods, max_size=4)
hints = st.dictionaries(
    st.sampled_from(("id", "amount", "at", "ref", "nowhere")),
    st.sampled_from(("long", "string", "decimal(10,2)", "timestamptz", "uuid", "double")),
    max_size=2,
)
schemas = st.fixed_dictionaries(
    {
        "create": st.sampled_from((*[True] * 9, False)),
        "columns": st.sampled_from(("quarantine", "evolve", "drop_value", "freeze")),
        "types": st.sampled_from(("quarantine", "evolve", "drop_value", "freeze")),
        "hints": hints,
    }
)
rules = st.fixed_dictionaries(
    {"schema": schemas},
    optional={
        "where": st.sampled_from(("id > 1", "amount > 0")),
        "tombstones": st.sampled_from(("skip", "quarantine")),
    },
)
routes = st.fixed_dictionaries(
    {
        "schema": schemas,
        "route": st.just({"kind": "kind"}),
        "unknown_tables": st.sampled_from(("create", "quarantine", "fail")),
    }
)
pipelines = st.fixed_dictionaries(
    {
        "orders": rules,
        "clicks": st.one_of(rules, routes),
        "stop_above": st.sampled_from(("1%", "50%", "100%")),
        "envelope": st.sampled_from(("none", "none", "debezium")),
        "tables": st.sampled_from((1, 2, 1000)),
    }
)


def spec_of(drawn: dict[str, Any]) -> str:
    """Write the spec of what was drawn."""
    clicks = "lake.shop.c_{kind}" if "route" in drawn["clicks"] else CLICKS
    rules = [
        {"from": "orders", "into": ORDERS, **_declared(drawn["orders"])},
        {"from": "clicks", "into": clicks, **_declared(drawn["clicks"])},
    ]
    return yaml.safe_dump(
        {
            "name": "shop",
            "kafka": {"brokers": "nowhere:9092", "topics": list(TOPICS)},
            "catalogs": {"lake": {"type": "sql", "uri": "sqlite:///./c.db", "warehouse": "./l"}},
            "records": {"envelope": drawn["envelope"]},
            "tables": rules,
            "quarantine": {"into": QUARANTINE, "stop_above": drawn["stop_above"]},
            "limits": {"tables": drawn["tables"]},
            "spark": {"master": "inline"},
        }
    )


def _declared(rule: dict[str, Any]) -> dict[str, Any]:
    """Declare the fields that a rule's expressions read."""
    read = {"id": "long"} if "id" in rule.get("where", "") else {}
    read |= {"amount": "double"} if "amount" in rule.get("where", "") else {}
    read |= {"kind": "string"} if "route" in rule else {}
    schema = rule["schema"]
    return {**rule, "schema": {**schema, "hints": {**schema["hints"], **read}}}


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    phases=(
        Phase.explicit,
        Phase.generate,
    ),  # each try is a whole run: what failed is reported as drawn
)
@given(drawn=pipelines, first=st.tuples(topics, topics), second=st.tuples(topics, topics))
def test_a_run_does_what_its_plan_says(
    drawn: dict[str, Any], first: tuple[list, list], second: tuple[list, list]
) -> None:
    place = Place(spec_of(drawn), TOPICS)
    for sent in (first, second):
        for topic, values in zip(TOPICS, sent, strict=True):
            place.send(topic, values)
        before = set(place.columns())
        said = place.plan()
        assert before == set(place.columns()), "a plan writes nothing"
        done = place.run()
        assert [] == differences(said, before, done)


def test_columns_of_a_table_of_two_topics_come_in_the_order_in_which_a_run_reads_them() -> None:
    rule = {
        "from": "(orders|clicks)",
        "into": ORDERS,
        "schema": {**SCHEMA, "columns": "quarantine"},
    }
    text = yaml.safe_load(spec_of(PLAIN))
    place = Place(yaml.safe_dump({**text, "tables": [rule]}), TOPICS)
    place.send("orders", [(b'{"a": 1}', 1), (b'{"Id": "x"}', 1)])
    place.send("clicks", [(b'{"id": 1}', 1)])

    said, done = place.plan(), place.run()
    assert isinstance(said, Plan)
    assert ["a", "Id"] == [name for name, _ in said.tables[0].columns][:2]
    assert [] == differences(said, set(), done)


def test_a_route_that_is_parked_for_a_flood_creates_no_table() -> None:
    route = {"route": {"kind": "kind"}, "unknown_tables": "create"}
    drawn = {**PLAIN, "clicks": {"schema": SCHEMA, **route}, "stop_above": "50%"}
    place = Place(spec_of(drawn), TOPICS)
    place.send("clicks", [(b'{"kind": "new"}', 1), (b"no json", 120)])

    said, done = place.plan(), place.run()
    assert isinstance(said, Plan)
    assert {"lake.shop.c_{kind}": "P345"} == done.parked
    assert [] == differences(said, set(), done)


def test_a_route_of_which_a_table_is_parked_before_it_began_is_not_read() -> None:
    route = {"route": {"kind": "kind"}, "unknown_tables": "quarantine"}
    drawn = {**PLAIN, "clicks": {"schema": SCHEMA, **route}, "stop_above": "50%"}
    place = Place(spec_of(drawn), TOPICS)
    columns = Struct((Field("kind", Kind.STRING),))  # none for where a row is from
    place.catalogs["lake"].create("shop.c_new", TableDefinition(columns), ())
    place.send("clicks", [(b"no json", 120)])

    before = set(place.columns())
    said, done = place.plan(), place.run()
    assert {"lake.shop.c_new": "P457"} == done.parked
    assert [] == differences(said, before, done)


def test_a_table_that_is_not_there_yet_gets_wider_types_as_one_that_is() -> None:
    schema = {**SCHEMA, "types": "evolve", "hints": {"price": "decimal(4,2)"}}
    place = Place(spec_of({**PLAIN, "clicks": {"schema": schema}}), TOPICS)
    place.send("clicks", [(b'{"price": 1767323045}', 20)])

    before = set(place.columns())
    said, done = place.plan(), place.run()
    assert {} == done.parked
    assert [] == differences(said, before, done)


@pytest.mark.parametrize(
    ("room", "name", "fault"),
    [
        (sample_outcome, "would_trip", lambda *_: False),
        (trial, "widen", lambda *_: False),
        (SampleOutcome, "_columns", lambda *_: ()),
        (trial, "_granted", lambda *given: given[2]),
    ],
)
def test_a_plan_that_says_something_else_is_found(
    monkeypatch: pytest.MonkeyPatch, room: Any, name: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(room, name, fault)
    fit, bad, wide = b'{"id": 1}', b'{"id": "x"}', b'{"id": 2, "more": 1, "kind": "new"}'
    flood = [(fit, 1), (bad, 1), (wide, 1), (b"[", 300)]
    schema = {"create": True, "columns": "evolve", "types": "quarantine", "hints": {}}
    found = []
    route = {"route": {"kind": "kind"}, "unknown_tables": "create"}
    for clicks in ({"schema": schema}, {"schema": schema, **route}):
        rules = {"orders": {"schema": schema}, "clicks": clicks}
        drawn = {**rules, "stop_above": "50%", "envelope": "none", "tables": 1000}
        place = Place(spec_of(drawn), TOPICS)
        for sent in (flood[:1], flood[1:3], flood):
            for topic in TOPICS:
                place.send(topic, sent)
            before, said = set(place.columns()), place.plan()
            found += differences(said, before, place.run())
    assert found
