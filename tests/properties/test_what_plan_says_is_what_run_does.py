"""What a plan says is what the run then does: exit code, fate of each table, columns, counts.

The real coordinator and workers run on a broker, catalogs and a store in memory. A sample that is
the whole backlog must be right to the record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.app import sheet, trying
from penstock.app.cases.playing import InMemory
from penstock.app.forecast import Plan, TablePlan
from penstock.app.plan import planned
from penstock.app.run import exit_code
from penstock.app.sheet import Sheet
from penstock.app.trial import Trial
from penstock.app.view import look
from penstock.connectors.memory.cluster import Message
from penstock.core.commits import Chain
from penstock.core.errors import PenstockError
from penstock.spec.load import loads

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


@dataclass
class Ending:
    """How a run ended, and what it left."""

    code: int
    parked: dict[str, str]
    columns: dict[str, tuple[tuple[str, str], ...]]
    rows: Counter[str] = field(default_factory=Counter)
    rejects: dict[str, Counter[str]] = field(default_factory=dict)


class Place(InMemory):
    """A world in which a spec is planned and run."""

    def __init__(self, text: str) -> None:
        super().__init__(loads(text, base=Path("/nowhere")))
        for topic in TOPICS:
            self.cluster.create(topic, 2)

    def send(self, topic: str, floods: Sequence[tuple[bytes | None, int]]) -> None:
        """Send values, each a number of times, to the partitions by turns."""
        values = [value for value, count in floods for _ in range(count)]
        for number, value in enumerate(values):
            self.cluster.send(topic, Message(value), partition=number % 2)

    def plan(self) -> Plan | PenstockError:
        """Plan a run."""
        trial = Trial()
        world = self.world(trial)
        try:
            view = look(self.settings, world, trial, self.reader())
            return planned(view, lambda _: nullcontext((self.settings, world.log)))
        except PenstockError as error:
            return error

    def run(self) -> Ending:
        """Run until caught up; only what this run did is told."""
        before = self._counts()
        try:
            ended = self.land(self.settings)
            parked = {name: error.code for name, error in ended.parked.items()}
            code = exit_code(ended, "caught-up", asked_to_stop=False)
        except PenstockError as error:
            parked, code = {"": error.code}, error.exit_code
        rows, rejects = self._counts()
        fresh = {name: rejects[name] - before[1].get(name, Counter()) for name in rejects}
        return Ending(code, parked, self.columns(), rows - before[0], fresh)

    def columns(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Give the columns of the tables that are there."""
        found = {}
        for name in self.warehouses["lake"].names():
            table = self.catalogs["lake"].load(name)
            assert table is not None
            schema = table.state(Chain("shop", f"lake.{name}")).schema
            found[f"lake.{name}"] = tuple((each.name, str(each.type)) for each in schema.fields)
        return found

    def _counts(self) -> tuple[Counter[str], dict[str, Counter[str]]]:
        warehouse = self.warehouses["lake"]
        rows = Counter({f"lake.{each}": len(warehouse.rows(each)) for each in warehouse.names()})
        rejects: dict[str, Counter[str]] = {}
        if rows.pop(QUARANTINE, None):
            for row in warehouse.rows("ops.quarantine"):
                rejects.setdefault(str(row["table"]), Counter())[str(row["code"])] += 1
        return rows, rejects


def differences(said: Plan | PenstockError, before: set[str], done: Ending) -> list[str]:
    """Tell in what a run was another than its plan; `before` are the tables that were there."""
    if isinstance(said, PenstockError):
        return [] if said.exit_code == done.code else [f"plan raised {said.code}, run {done.code}"]
    if not all(each.sampled.whole for each in said.tables if each.sampled.records):
        return []  # a sample that is not all says what it says
    found = []
    if said.exit_code != done.code:
        found.append(f"plan says exit {said.exit_code}, run ended with {done.code} ({done.parked})")
    if said.stops:
        return found
    told = {each.table: each.parked.code for each in said.tables if each.parked is not None}
    if told != done.parked:
        found.append(f"plan parks {told}, run parked {done.parked}")
    for each in said.tables:
        if each.table not in told:
            found += _of_table(each, before, done)
    made = {name for name in done.columns if name != QUARANTINE} - before
    created = {each.table for each in said.tables if each.create and each.table not in told}
    if made - set(told) != created:
        found.append(f"plan creates {created}, run created {made}")
    return found


def _of_table(said: TablePlan, before: set[str], done: Ending) -> list[str]:
    name, found = said.table, []
    if said.create and name not in before and said.columns != done.columns.get(name):
        found.append(f"{name}: plan says {said.columns}, run made {done.columns.get(name)}")
    counts = (said.sampled.landed, dict(said.sampled.quarantined))
    real = (done.rows[name], dict(done.rejects.get(name, {})))
    if counts != real:
        found.append(f"{name}: plan says {counts}, run did {real}")
    return found


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    phases=(
        Phase.explicit,
        Phase.generate,
    ),  # each try is a whole run: what failed is told as drawn
)
@given(drawn=pipelines, first=st.tuples(topics, topics), second=st.tuples(topics, topics))
def test_a_run_does_what_its_plan_says(
    drawn: dict[str, Any], first: tuple[list, list], second: tuple[list, list]
) -> None:
    place = Place(spec_of(drawn))
    for sent in (first, second):
        for topic, values in zip(TOPICS, sent, strict=True):
            place.send(topic, values)
        before = set(place.columns())
        said = place.plan()
        assert before == set(place.columns()), "a plan writes nothing"
        done = place.run()
        assert [] == differences(said, before, done)


@pytest.mark.parametrize(
    ("room", "name", "fault"),
    [
        (sheet, "would_trip", lambda *_: False),
        (trying, "widen", lambda *_: False),
        (Sheet, "_columns", lambda *_: ()),
        (trying, "_granted", lambda *given: given[2]),
    ],
)
def test_a_plan_that_says_something_else_is_found(
    monkeypatch: pytest.MonkeyPatch, room: Any, name: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(room, name, fault)
    fit, misfit, wide = b'{"id": 1}', b'{"id": "x"}', b'{"id": 2, "more": 1, "kind": "new"}'
    flood = [(fit, 1), (misfit, 1), (wide, 1), (b"[", 300)]
    schema = {"create": True, "columns": "evolve", "types": "quarantine", "hints": {}}
    told = []
    route = {"route": {"kind": "kind"}, "unknown_tables": "create"}
    for clicks in ({"schema": schema}, {"schema": schema, **route}):
        rules = {"orders": {"schema": schema}, "clicks": clicks}
        drawn = {**rules, "stop_above": "50%", "envelope": "none", "tables": 1000}
        place = Place(spec_of(drawn))
        for sent in (flood[:1], flood[1:3], flood):
            for topic in TOPICS:
                place.send(topic, sent)
            before, said = set(place.columns()), place.plan()
            told += differences(said, before, place.run())
    assert told
