"""Computed columns in a spec: names, types and functions are checked before a record is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.app.assembly.assembly import targets_of
from penstock.core.schema import Decimal, Kind
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError
from penstock.spec.rules import rules_hash, rules_text, with_rules

Build = Callable[..., Pipeline]
HINTS = {"created_at": "timestamptz", "amount": "decimal(12,2)"}


def rule(**transform: Any) -> dict[str, Any]:
    return {
        "from": "shop.orders",
        "into": "lake.bronze.orders",
        "schema": {"create": True, "hints": HINTS},
        "transform": transform,
    }


def test_a_computed_column_is_a_column_of_the_table_to_create(pipeline: Build) -> None:
    function = {"call": "shop.rules:classify", "columns": {"segment": "string"}}
    columns = {"day": "cast(created_at as date)", "net": "amount - 1.00", "p": "_kafka_partition"}
    found = pipeline(tables=[rule(columns=columns, function=function)])
    ((target,),) = targets_of(found, ["shop.orders"]).values()

    assert {
        "day": Kind.DATE,
        "net": Decimal(13, 2),
        "p": Kind.INT,
        "segment": Kind.STRING,
    } == target.computed_types
    assert ("day", "net", "p", "segment") == target.computed.names
    assert ["created_at"] == list(target.computed.expressions["day"].fields.names)
    assert "tables[0].transform.columns.day" == target.computed.expressions["day"].spec_path


@pytest.mark.parametrize(
    ("transform", "code", "reported"),
    [
        ({"columns": {"x y": "amount"}}, "P148", "not a name for a computed column"),
        ({"columns": {"_kafka_day": "amount"}}, "P148", "Penstock's own"),
        ({"columns": {"Amount": "amount"}}, "P148", "declared as 'Amount' as well"),
        ({"columns": {"a": "colour"}}, "P144", "not declared"),
        ({"columns": {"a": "amount + created_at"}}, "P145", "does not compute"),
        ({"columns": {"a": "hash(amount)"}}, "P145", "not a column's type"),
        ({"columns": {"a": "now()"}}, "P143", "always returns the same"),
        ({"columns": {"a": "(select 1)"}}, "P143", "over one record"),
        ({"columns": {"a": "sum(amount)"}}, "P143", "not a function of one record"),
        ({"columns": {"a": "read_text('/etc/passwd')"}}, "P143", "not a function of one record"),
        (
            {"function": {"call": "shop", "columns": {"a": "int"}}},
            "P149",
            "is not the path of a function",
        ),
        ({"function": {"call": "a:b", "columns": {"amount": "int"}}}, "P148", "declared field"),
        ({"function": {"call": "a:b", "columns": {"a": "intt"}}}, "P116", "intt"),
        ({"function": {"call": "a:b", "columns": {}}}, "P108", ""),
        ({"sql": "select 1"}, "P104", "unknown setting"),
    ],
)
def test_what_does_not_agree_is_reported_with_its_code(pipeline, transform, code, reported) -> None:
    with pytest.raises(SpecError) as refused:
        pipeline(tables=[rule(**transform)])

    assert [code] == [each.code for each in refused.value.problems]
    assert reported in refused.value.problems[0].message


def test_what_is_computed_is_part_of_the_rules(pipeline: Build) -> None:
    plain, by_day = rule(), rule(columns={"day": "cast(created_at as date)"})
    first, second = pipeline(tables=[plain]), pipeline(tables=[by_day])

    assert rules_hash(first) != rules_hash(second)
    assert rules_text(second) == rules_text(with_rules(first, rules_text(second)))
