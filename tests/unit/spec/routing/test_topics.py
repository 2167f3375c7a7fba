from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidError
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError
from penstock.spec.routing import topics as routing
from penstock.spec.routing.topics import Collision, may_meet, routes, tables_for

Build = Callable[..., Pipeline]
BY_NAME = {"from": r"shop\.(?P<name>.+)", "into": "lake.bronze.{name}"}


def names(pipeline: Pipeline, topic: str) -> list[str]:
    return [target.table for target in tables_for(pipeline, topic)]


def collisions(pipeline: Pipeline, topics: list[str]) -> tuple[Collision, ...]:
    routed = {topic: tables_for(pipeline, topic) for topic in sorted(topics)}
    return tuple(routing.collisions(pipeline, routed))


def test_the_first_rule_that_matches_wins(pipeline: Build) -> None:
    found = pipeline(tables=[{"from": "shop.orders", "into": "lake.b.special"}, BY_NAME])
    assert ["lake.b.special"] == names(found, "shop.orders")
    assert ["lake.bronze.items"] == names(found, "shop.items")
    assert [] == names(found, "other.items")


def test_a_rule_that_continues_lets_the_next_ones_try(pipeline: Build) -> None:
    first = {"from": r"shop\..+", "into": "delta.all", "continue": True}
    found = pipeline(tables=[first, BY_NAME])
    assert ["delta.all", "lake.bronze.orders"] == names(found, "shop.orders")


def test_an_exact_name_is_no_pattern(pipeline: Build) -> None:
    found = pipeline(tables=[{"from": "shop.orders", "into": "lake.b.orders"}])
    assert [] == names(found, "shopXorders")


def test_a_pattern_matches_whole_names_only(pipeline: Build) -> None:
    found = pipeline(tables=[{"from": r"shop\.[a-z]+", "into": "lake.b.shop"}])
    assert [] == names(found, "my.shop.orders")
    assert [] == names(found, "shop.orders2")


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("shop.Orders", "lake.bronze.orders"),
        ("shop.order-items.v2", "lake.bronze.order_items_v2"),
        ("shop.2024", "lake.bronze._2024"),
        ("shop._", "lake.bronze._"),
    ],
)
def test_topic_names_are_mapped_to_table_names(pipeline: Build, topic: str, table: str) -> None:
    assert [table] == names(pipeline(tables=[BY_NAME]), topic)


def test_groups_fill_parts_of_names(pipeline: Build) -> None:
    rule = {"from": r"(?P<team>[^.]+)\.(?P<name>.+)", "into": "lake.{team}_raw.t_{name}"}
    assert ["lake._1shop_raw.t_2x"] == names(pipeline(tables=[rule]), "1shop.2x")


@pytest.mark.parametrize("topic", ["shop.", "shop." + "x" * 129])
def test_a_name_that_cannot_be_is_refused(pipeline: Build, topic: str) -> None:
    rule = {"from": r"shop\.(?P<name>.*)", "into": "lake.bronze.{name}"}
    with pytest.raises(InvalidError) as caught:
        tables_for(pipeline(tables=[rule]), topic)
    assert "P140" == caught.value.code


@given(st.from_regex(r"shop\.[A-Za-z0-9._-]{1,120}", fullmatch=True))
def test_every_mapped_name_is_a_name(topic: str) -> None:
    found = Pipeline(
        name="p",
        kafka={"brokers": "h", "topics": [{"pattern": ".*"}]},
        catalogs={"lake": {"type": "sql", "uri": "sqlite:////c", "warehouse": "/w"}},
        tables=[BY_NAME],
        quarantine={"into": "lake.ops.q"},
    )
    (target,) = tables_for(found, topic)
    assert re.fullmatch(r"lake\.bronze\.[a-z_][a-z0-9_]{0,127}", target.table)


def test_two_topics_that_differ_only_in_what_is_mapped_collide(pipeline: Build) -> None:
    found = pipeline(tables=[BY_NAME])
    topics = ["shop.order-items", "shop.order_items", "shop.others"]
    reason = "their names differ only in what a table's name cannot hold"
    table = "lake.bronze.order_items"
    assert (Collision(table, ("shop.order-items", "shop.order_items"), reason),) == collisions(
        found, topics
    )
    with pytest.raises(
        InvalidError, match=r"cannot share the table lake.bronze.order_items"
    ) as caught:
        routes(found, topics)
    assert "P141" == caught.value.code


def test_topics_may_share_a_table_on_purpose(pipeline: Build) -> None:
    same_group = {"from": r"(eu|us)\.(?P<name>.+)", "into": "lake.bronze.{name}"}
    no_group = {"from": r"logs\..+", "into": "lake.bronze.logs"}
    exact = [{"from": name, "into": "lake.bronze.exact"} for name in ("a", "b")]
    found = pipeline(tables=[same_group, no_group, *exact])
    topics = ["eu.orders", "us.orders", "logs.a", "logs.b", "a", "b"]
    assert () == collisions(found, topics)
    assert topics == sorted(routes(found, topics), key=topics.index)


def test_a_made_name_may_not_meet_a_named_table(pipeline: Build) -> None:
    found = pipeline(tables=[{"from": "legacy", "into": "lake.bronze.orders"}, BY_NAME])
    assert ["lake.bronze.orders"] == [
        each.table for each in collisions(found, ["legacy", "shop.orders"])
    ]
    assert () == collisions(found, ["legacy", "shop.items"])


def test_a_made_name_may_not_be_the_quarantine(pipeline: Build) -> None:
    found = pipeline(tables=[{**BY_NAME, "into": "lake.ops.{name}"}])
    assert ["it is the quarantine table"] == [
        each.reason for each in collisions(found, ["shop.quarantine"])
    ]


def test_rules_that_meet_in_one_table_must_say_the_same(pipeline: Build) -> None:
    rules = [{**BY_NAME, "continue": True}, {"from": "shop.orders", "into": "lake.bronze.orders"}]
    assert ["lake.bronze.orders"] == names(pipeline(tables=rules), "shop.orders")
    assert () == collisions(pipeline(tables=rules), ["shop.orders"])


def test_rules_that_meet_in_one_table_and_contradict_each_other_collide(pipeline: Build) -> None:
    other = {"from": r"eu\.(?P<x>.+)", "into": "lake.bronze.{x}", "tombstones": "skip"}
    found = pipeline(tables=[BY_NAME, other])
    assert ["their rules say different things of it"] == [
        each.reason for each in collisions(found, ["shop.orders", "eu.orders"])
    ]


@pytest.mark.parametrize(
    ("above", "below"),
    [("shop.orders", "shop.orders"), ("shop.orders", r"shop\..+"), (r"shop\..+", "shop.orders")],
)
@pytest.mark.parametrize(
    "difference",
    [{"records": {"envelope": "debezium"}}, {"schema": {"types": "drop_value"}}],
)
def test_a_rule_below_a_condition_reads_records_as_the_condition_does(
    pipeline: Build, above: str, below: str, difference: dict[str, object]
) -> None:
    """Else a record could land by both rules, or by none."""
    hints = {"hints": {"kind": "string"}}
    first = {"from": above, "into": "lake.a.one", "where": "kind = 'x'", "schema": hints}
    second = {"from": below, "into": "lake.a.two"}

    with pytest.raises(SpecError) as caught:
        pipeline(tables=[first, {**second, **difference}])

    assert ["P118"] == [problem.code for problem in caught.value.problems]
    assert 2 == len(pipeline(tables=[first, second]).tables)


def test_two_patterns_that_read_a_topic_differently_are_found_when_it_is_there(
    pipeline: Build,
) -> None:
    hints = {"hints": {"kind": "string"}}
    first = {"from": r"shop\..+", "into": "lake.a.one", "where": "kind = 'x'", "schema": hints}
    second = {"from": r".+\.orders", "into": "lake.a.two", "records": {"envelope": "debezium"}}
    found = pipeline(tables=[first, second])

    with pytest.raises(InvalidError) as caught:
        tables_for(found, "shop.orders")

    assert "P118" == caught.value.code
    assert ["lake.a.two"] == names(found, "eu.orders")


def test_a_bomb_of_tables_is_refused(pipeline: Build) -> None:
    found = pipeline(tables=[BY_NAME], limits={"tables": 3})
    assert 3 == len(routes(found, [f"shop.t{n}" for n in range(3)]))
    with pytest.raises(InvalidError) as caught:
        routes(found, [f"shop.t{n}" for n in range(4)])
    assert "P142" == caught.value.code


def test_two_rules_that_put_parts_of_one_topic_into_one_table_are_refused(pipeline: Build) -> None:
    hints = {"hints": {"kind": "string"}}
    rules = [
        {"from": from_, "into": "lake.a.one", "where": f"kind = '{kind}'", "schema": hints}
        for from_, kind in ((r"shop\..+", "x"), (r".+\.orders", "y"))
    ]
    found = pipeline(tables=rules)

    with pytest.raises(InvalidError) as caught:
        tables_for(found, "shop.orders")
    assert "P146" == caught.value.code


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("lake.b.x_{kind}", "lake.b.x_err_{kind}", True),
        ("lake.b.eu_{kind}", "lake.b.eu_west_{kind}", True),
        ("lake.b.{kind}_x", "lake.b.y_{kind}", True),
        ("lake.b.{kind}", "lake.b.{kind}_{size}", True),
        ("lake.b.x_{kind}", "lake.b.y_{kind}", False),
        ("lake.b.x_{kind}", "lake.c.x_{kind}", False),
        ("lake.b.x_{kind}", "other.b.x_{kind}", False),
        ("lake.b.x{kind}", "lake.b.x", False),
        ("lake.b.{kind}_x", "lake.b.{kind}_y", False),
    ],
)
def test_two_routes_that_can_make_one_name_are_reported(
    one: str, other: str, expected: bool
) -> None:
    assert expected == may_meet(one, other)
    assert expected == may_meet(other, one)


def test_rules_whose_records_can_ask_for_the_same_table_are_refused(pipeline: Build) -> None:
    hints = {"hints": {"kind": "string"}}
    rule = {"from": r"(?P<area>eu|eu_west)", "into": "lake.b.{area}_{kind}", "schema": hints}
    found = pipeline(tables=[{**rule, "route": {"kind": "kind"}}])

    assert 2 == len(routes(found, ["eu"])) + len(routes(found, ["eu_west"]))
    with pytest.raises(InvalidError) as refused:
        routes(found, ["eu", "eu_west"])
    assert "P141" == refused.value.code
    assert "lake.b.eu_west_{kind}" in refused.value.message
