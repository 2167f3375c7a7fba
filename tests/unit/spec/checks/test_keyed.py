"""Rules of keyed tables: what they need, what they cannot have, and what defaults come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.app.assembly.assembly import settings_of, targets_of
from penstock.core.errors import InvalidError
from penstock.landing.settings import TableTarget
from penstock.rows.options import KeyedOptions
from penstock.spec.checks.agreement import Draft, check
from penstock.spec.model import Pipeline
from penstock.spec.problems import Problem, SpecError, path_text
from penstock.spec.rules import rules_hash, rules_text, with_rules
from penstock.spec.settings.records import Records
from penstock.spec.settings.table import Table

Build = Callable[..., Pipeline]
VECTORS = "delta.enableDeletionVectors"
RULE: dict[str, Any] = {"from": "shop.orders", "into": "lake.bronze.orders"}
DEBEZIUM = {"records": {"envelope": "debezium"}}
FLATTENED = {"records": {"envelope": "flattened"}}
SOURCE = ["topic", "partition", "offset"]
ID = {"schema": {"hints": {"id": "long"}}}
JSON_KEYS = {"records": {"key_format": "json"}}
BY_FIELD = {"operation": {"field": "op", "map": {"U": "update", "D": "delete"}}}
CDC: dict[str, Any] = {**RULE, "mode": "cdc", "keys": ["id"], **DEBEZIUM}
PLAIN: dict[str, Any] = {**RULE, "mode": "cdc", "keys": ["id"], **BY_FIELD}
UPSERT: dict[str, Any] = {**RULE, "mode": "upsert", "keys": ["id"], **JSON_KEYS}


SOFT = {"deletes": "soft"}
OF_FUNCTION = {"transform": {"function": {"call": "m:f", "columns": {"p": "long"}}}}


def hinted(kind: str) -> dict[str, Any]:
    return {"schema": {"hints": {"id": "long", "lsn": kind}}}


def problems(build: Build, rule: dict[str, Any], *, all_: bool = False) -> list[Problem]:
    """Return what is found in a rule: its errors, or its warnings as well."""
    try:
        pipeline = build(tables=[rule])
    except SpecError as error:
        found = list(error.problems)
    else:
        blocks = {name: getattr(pipeline, name) for name in Draft.__dataclass_fields__}
        found = check(Draft(**blocks))
    return [each for each in found if all_ or each.severity == "error"]


def codes(build: Build, rule: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each.code, path_text(each.path[2:])) for each in problems(build, rule)]


@pytest.mark.parametrize("rule", [CDC, PLAIN, UPSERT], ids=["cdc", "plain", "upsert"])
def test_a_rule_of_a_keyed_table_is_accepted(pipeline: Build, rule: dict[str, Any]) -> None:
    assert [] == problems(pipeline, rule, all_=True)


@pytest.mark.parametrize(
    ("rule", "more", "expected"),
    [
        (CDC, {"keys": []}, [("P194", "mode")]),
        (UPSERT, {"keys": []}, [("P194", "mode")]),
        (CDC, {"keys": ["id", "id"]}, [("P118", "keys[1]")]),
        (CDC, {"keys": ["id", "customer.id"]}, [("P195", "keys[1]")]),
        (CDC, {"keys": ["after.id"]}, [("P195", "keys[0]")]),
        (CDC, {"keys": ["_kafka_key"]}, [("P195", "keys[0]")]),
        (CDC, {"keys": ["_kafka_key"], "source_columns": [*SOURCE, "key"]}, []),
        (CDC, {"keys": ["_kafka_offset"]}, [("P195", "keys[0]")]),
        (CDC, {"keys": ["_change_operation"]}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "double"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "float"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "list<long>"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "map<string, long>"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "struct<a: long>"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id.a": "long"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id[].a": "long"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id{}": "long"}}}, [("P195", "keys[0]")]),
        (CDC, {"schema": {"hints": {"id": "decimal(20,0)", "price": "double"}}}, []),
        (
            CDC,
            {"keys": ["half"], "transform": {"columns": {"half": "_kafka_offset / 2"}}},
            [("P195", "keys[0]")],
        ),
        (
            CDC,
            {"keys": ["p"], "transform": {"function": {"call": "m:f", "columns": {"p": "float"}}}},
            [("P195", "keys[0]")],
        ),
        (
            CDC,
            {"keys": ["p"], "transform": {"function": {"call": "m:f", "columns": {"p": "long"}}}},
            [("P195", "keys[0]")],
        ),
        (
            UPSERT,
            {"keys": ["p"], "transform": {"function": {"call": "m:f", "columns": {"p": "long"}}}},
            [("P199", "tombstones")],
        ),
        (
            UPSERT,
            {
                "keys": ["p"],
                "transform": {"function": {"call": "m:f", "columns": {"p": "long"}}},
                "tombstones": "skip",
            },
            [],
        ),
        (
            UPSERT,
            {"keys": ["day"], "transform": {"columns": {"day": "cast(_kafka_timestamp as date)"}}},
            [("P199", "tombstones")],
        ),
        (
            CDC,
            {"keys": ["day"], "transform": {"columns": {"day": "cast(_kafka_timestamp as date)"}}},
            [],
        ),
        (PLAIN, {"operation": None}, [("P196", "mode")]),
        (CDC, BY_FIELD, [("P196", "operation")]),
        (UPSERT, BY_FIELD, [("P196", "operation")]),
        (UPSERT, {"records": {"envelope": "dms", "key_format": "json"}}, [("P196", "mode")]),
        (PLAIN, {"operation": {"map": {"D": "delete"}}}, [("P196", "operation")]),
        (
            PLAIN,
            {"operation": {"field": "op", "header": "op", "map": {"D": "delete"}}},
            [("P196", "operation")],
        ),
        (PLAIN, {"operation": {"header": "op", "map": {"D": "delete"}}}, []),
        (RULE, {"keys": ["id"]}, [("P197", "keys")]),
        (RULE, BY_FIELD, [("P197", "operation")]),
        (RULE, {"deletes": "hard"}, [("P197", "deletes")]),
        (RULE, {"truncates": "ignore"}, [("P197", "truncates")]),
        (RULE, {"soft": {"flag": "gone"}}, [("P197", "soft")]),
        (RULE, {"sequence_by": ["lsn"]}, [("P197", "sequence_by")]),
        (CDC, {"sequence_by": ["lsn"]}, [("P261", "sequence_by")]),
        (RULE, {"row_deletes": "rewrite"}, [("P197", "row_deletes")]),
        (RULE, {"rewrite_bytes_max": "1GB"}, [("P197", "rewrite_bytes_max")]),
        (CDC, {"rewrite_bytes_max": "1GB"}, [("P266", "rewrite_bytes_max")]),
        (CDC, {"row_deletes": "rewrite", "rewrite_bytes_max": "2GB"}, []),
        (CDC, {"row_deletes": "rewrite", "properties": {VECTORS: "false"}}, []),
        (CDC, {**SOFT, "sequence_by": ["lsn"]}, []),
        (CDC, {"deletes": "ignore", "sequence_by": ["lsn", "_kafka_timestamp"]}, []),
        (UPSERT, {**SOFT, "sequence_by": ["_kafka_timestamp"]}, []),
        (CDC, {**SOFT, "sequence_by": ["lsn", "lsn"]}, [("P118", "sequence_by[1]")]),
        (CDC, {**SOFT, "sequence_by": ["source.lsn"]}, [("P262", "sequence_by[0]")]),
        (CDC, {**SOFT, "sequence_by": ["id"]}, [("P262", "sequence_by[0]")]),
        (CDC, {**SOFT, "sequence_by": ["_is_deleted"]}, [("P262", "sequence_by[0]")]),
        (CDC, {**SOFT, **OF_FUNCTION, "sequence_by": ["p"]}, [("P262", "sequence_by[0]")]),
        *(
            (CDC, {**SOFT, **hinted(each), "sequence_by": ["lsn"]}, [("P262", "sequence_by[0]")])
            for each in ("double", "float", "list<long>", "map<string, long>", "struct<a: long>")
        ),
        *(
            (CDC, {**SOFT, **hinted(each), "sequence_by": ["lsn"]}, [])
            for each in ("long", "decimal(20,0)", "timestamptz", "string", "date")
        ),
        (CDC, {"deletes": "soft"}, []),
        (CDC, {"deletes": "soft", "soft": {"flag": "gone", "at": "gone_at"}}, []),
        (CDC, {"soft": {"flag": "gone"}}, [("P260", "soft")]),
        (CDC, {"deletes": "ignore", "soft": {}}, [("P260", "soft")]),
        (CDC, {"deletes": "soft", "keys": ["_is_deleted"]}, [("P260", "deletes")]),
        (CDC, {"deletes": "soft", "soft": {"flag": "x", "at": "x"}}, [("P260", "soft")]),
        (CDC, {"deletes": "soft", "soft": {"flag": "a.b"}}, [("P260", "soft")]),
        (CDC, {"deletes": "soft", "soft": {"flag": "_Deleted"}}, [("P260", "soft")]),
        (CDC, {"deletes": "soft", "soft": {"at": "_kafka_offset"}}, [("P260", "soft")]),
        (
            CDC,
            {"deletes": "soft", "schema": {"hints": {"_is_deleted": "boolean"}}},
            [("P260", "deletes")],
        ),
        (
            CDC,
            {"deletes": "soft", "transform": {"columns": {"_deleted_at": "_kafka_timestamp"}}},
            [("P260", "deletes")],
        ),
        (RULE, {"across_partitions": "warn"}, [("P197", "across_partitions")]),
        (RULE, {"tombstones": "delete"}, [("P197", "tombstones")]),
        (CDC, {"into": "lake.bronze.{kind}", "route": {"kind": "_kafka_key"}}, [("P198", "route")]),
        (
            CDC,
            {"from": r"shop\.(?P<name>orders)", "into": "lake.bronze.{name}"},
            [("P198", "into")],
        ),
        (CDC, {"source_columns": []}, [("P198", "source_columns")]),
        (CDC, {"source_columns": ["topic", "partition"]}, [("P198", "source_columns")]),
        (CDC, {"source_columns": ["offset", "partition", "topic"]}, []),
        (CDC, {"identifier_fields": ["email"]}, [("P198", "identifier_fields")]),
        (CDC, {"keys": ["a", "b"], "identifier_fields": ["b", "a"]}, []),
        (CDC, {"write": {"sort": "at_write"}}, [("P198", "write.sort")]),
        (CDC, {"write": {"sort": "never", "distribution": "auto"}}, []),
        (CDC, {"properties": {"format-version": "1"}}, [("P198", "properties.format-version")]),
        (CDC, {"properties": {"format-version": "2"}}, []),
        (
            CDC,
            {
                "properties": {
                    "delta.appendOnly": "True",
                    "delta.enableChangeDataFeed": "true",
                    "delta.enableDeletionVectors": "false",
                }
            },
            [
                ("P198", "properties['delta.appendOnly']"),
                ("P198", "properties['delta.enableChangeDataFeed']"),
                ("P198", "properties['delta.enableDeletionVectors']"),
            ],
        ),
        (UPSERT, {"records": None}, [("P199", "tombstones")]),
        (UPSERT, {"records": None, "tombstones": "delete"}, [("P199", "tombstones")]),
        (UPSERT, {"records": None, "tombstones": "skip"}, []),
        (UPSERT, {"keys": ["a", "b"], "records": {"key_format": "text"}}, [("P199", "tombstones")]),
        (UPSERT, {"records": {"key_format": "text"}}, []),
        (
            UPSERT,
            {"keys": ["_kafka_key"], "source_columns": [*SOURCE, "key"], "records": None},
            [],
        ),
        (
            UPSERT,
            {"keys": ["tenant", "id"], "header_columns": {"tenant": "x"}, "records": None},
            [("P199", "tombstones")],
        ),
        (UPSERT, {"keys": ["tenant"], "header_columns": {"tenant": "x"}, "records": None}, []),
        (UPSERT, {"where": "id > 5", **ID}, [("P199", "where")]),
        (UPSERT, {"where": "id > 5", **ID, "tombstones": "skip"}, []),
        (UPSERT, {"where": "_kafka_headers['kind'] = 'a'"}, []),
        (CDC, {"where": "id > 5", **ID}, []),
        (CDC, FLATTENED, [("P199", "tombstones")]),
        (CDC, {**FLATTENED, "tombstones": "skip"}, []),
    ],
)
def test_what_does_not_agree_in_a_rule_has_its_code_and_place(
    pipeline: Build, rule: dict[str, Any], more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert expected == codes(pipeline, {**rule, **more})


def test_what_is_for_later_releases_is_refused_by_name(pipeline: Build) -> None:
    (problem,) = problems(pipeline, {**CDC, "mode": "scd2"})

    assert ("P111", ("tables", 0, "mode")) == (problem.code, problem.path)
    assert "this release has append, upsert and cdc" in f"{problem.message} {problem.hint}"


def test_every_finding_says_what_to_do(pipeline: Build) -> None:
    wrong = {**RULE, "mode": "cdc", "source_columns": [], "identifier_fields": ["x"]}
    wrong["keys"] = ["id", "a.b"]
    wrong |= {"route": {"kind": "_kafka_key"}, "into": "lake.bronze.{kind}"}
    found = problems(pipeline, {**wrong, "tombstones": "delete"})

    assert ["P195", "P196", "P199", "P198", "P198", "P198"] == [each.code for each in found]
    assert all(each.hint for each in found)


@pytest.mark.parametrize(
    ("condition", "warned"),
    [
        ("id > 5", False),
        ("id > 5 and _kafka_topic = 'x'", False),
        ("status = 'open'", True),
        ("_kafka_offset > 5", True),
    ],
)
def test_a_condition_over_what_may_change_is_warned_of(
    pipeline: Build, condition: str, warned: bool
) -> None:
    hints = {"hints": {"id": "long", "status": "string"}}
    found = problems(pipeline, {**CDC, "where": condition, "schema": hints}, all_=True)

    expected = [("warning", "P156", "tables[0].where")] if warned else []
    assert expected == [(each.severity, each.code, path_text(each.path)) for each in found]


@pytest.mark.parametrize(
    ("rule", "types", "warned"),
    [
        (CDC, "drop_value", True),
        ({**CDC, **FLATTENED, "tombstones": "skip"}, "rescue", True),
        (CDC, "quarantine", False),
        (CDC, "evolve", False),
        ({**CDC, "records": {"envelope": "maxwell"}}, "drop_value", False),
        ({**RULE, **DEBEZIUM}, "drop_value", False),
        (UPSERT, "drop_value", False),
    ],
)
def test_null_in_place_of_a_value_that_a_change_left_out_is_warned_of(
    pipeline: Build, rule: dict[str, Any], types: str, warned: bool
) -> None:
    found = problems(pipeline, {**rule, "schema": {"types": types}}, all_=True)

    expected = [("warning", "P156", "tables[0].schema.types")] if warned else []
    assert expected == [(each.severity, each.code, path_text(each.path)) for each in found]


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"keys": ["sku"]}, "keys"),
        ({"mode": "append", "keys": []}, "mode"),
        ({"deletes": "ignore"}, "deletes"),
        ({"across_partitions": "stop"}, "across_partitions"),
    ],
)
def test_two_rules_for_one_keyed_table_say_the_same(
    pipeline: Build, more: dict[str, Any], setting: str
) -> None:
    other = {**CDC, "from": "shop.returns", **more}
    if not other["keys"]:
        del other["keys"]
    with pytest.raises(SpecError) as caught:
        pipeline(tables=[CDC, other])

    found = [(each.code, path_text(each.path)) for each in caught.value.problems]
    assert ("P118", f"tables[1].{setting}") in found
    assert {"P118"} == {code for code, _ in found}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (RULE, "quarantine"),
        ({**RULE, **DEBEZIUM}, "quarantine"),
        ({**RULE, **FLATTENED}, "quarantine"),
        (UPSERT, "delete"),
        (CDC, "skip"),
        ({**CDC, "records": {"envelope": "canal"}}, "skip"),
        ({**CDC, **FLATTENED}, "delete"),
        (PLAIN, "quarantine"),
        ({**CDC, "tombstones": "quarantine"}, "quarantine"),
    ],
)
def test_the_default_for_tombstones_follows_from_what_else_says_that_a_row_goes(
    rule: dict[str, Any], expected: str
) -> None:
    own = {name: value for name, value in rule.items() if name != "records"}

    assert expected == Table(**rule).tombstones_by(Records())
    assert expected == Table(**own).tombstones_by(Records(**rule.get("records", {})))


def target(pipeline: Pipeline) -> TableTarget:
    ((found,),) = targets_of(pipeline, ["shop.orders"]).values()
    return found


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (RULE, None),
        (UPSERT, KeyedOptions(("id",))),
        (
            {**CDC, "keys": ["a", "b"], "deletes": "ignore", "truncates": "ignore"},
            KeyedOptions(("a", "b"), ignores_deletes=True, ignores_truncates=True),
        ),
        ({**CDC, "deletes": "soft"}, KeyedOptions(("id",), soft=("_is_deleted", "_deleted_at"))),
        (
            {**CDC, "deletes": "ignore", "sequence_by": ["a", "b"]},
            KeyedOptions(("id",), ignores_deletes=True, sequence=("a", "b")),
        ),
        (
            {**CDC, "deletes": "soft", "soft": {"flag": "gone"}},
            KeyedOptions(("id",), soft=("gone", "_deleted_at")),
        ),
        (
            {
                **PLAIN,
                "operation": {
                    "header": "kind",
                    "map": {"a": "insert", "b": "update", "c": "read", "d": "delete", "e": "truncate"},
                },
            },
            KeyedOptions(
                ("id",),
                {"a": "upsert", "b": "upsert", "c": "upsert", "d": "delete", "e": "truncate"},
                operation_header="kind",
            ),
        ),
        (PLAIN, KeyedOptions(("id",), {"U": "upsert", "D": "delete"}, operation_field="op")),
    ],
)  # fmt: skip
def test_a_rule_becomes_the_options_of_its_rows(
    pipeline: Build, rule: dict[str, Any], expected: KeyedOptions | None
) -> None:
    assert expected == target(pipeline(tables=[rule])).options.keyed


def test_the_default_for_tombstones_reaches_the_rows(pipeline: Build) -> None:
    found = [target(pipeline(tables=[each])).options.tombstones for each in (RULE, UPSERT, CDC)]

    assert ["quarantine", "delete", "skip"] == found


@pytest.mark.parametrize(
    ("into", "given", "expected"),
    [
        ("lake.bronze.orders", {}, ("a", "b")),
        ("lake.bronze.orders", {"identifier_fields": ["b", "a"]}, ("b", "a")),
        ("delta.bronze.orders", {}, ()),
    ],
)
def test_keys_are_the_identifier_fields_of_new_iceberg_tables(
    pipeline: Build, into: str, given: dict[str, Any], expected: tuple[str, ...]
) -> None:
    rule = {**CDC, "into": into, "keys": ["a", "b"], **given}

    assert expected == target(pipeline(tables=[rule])).identifier_fields


@pytest.mark.parametrize(
    "rule",
    [
        CDC,
        UPSERT,
        PLAIN,
        {**CDC, "deletes": "ignore", "truncates": "ignore"},
        {**CDC, **FLATTENED, "tombstones": "skip"},
        {**UPSERT, "tombstones": "quarantine", "keys": ["a", "b"]},
    ],
)
def test_rules_of_keyed_tables_are_kept_and_put_back(pipeline: Build, rule: dict[str, Any]) -> None:
    keyed = pipeline(tables=[rule])
    back = with_rules(pipeline(), rules_text(keyed))

    assert (rules_text(keyed), keyed.tables) == (rules_text(back), back.tables)
    assert target(keyed).options == target(back).options


def test_each_setting_of_a_keyed_table_is_a_rule(pipeline: Build) -> None:
    rules = [
        {**CDC},
        {**CDC, "keys": ["sku"]},
        {**CDC, "deletes": "ignore"},
        {**CDC, "truncates": "ignore"},
        {**CDC, "tombstones": "quarantine"},
        PLAIN,
        {**PLAIN, "operation": {"field": "op", "map": {"X": "delete"}}},
        {**PLAIN, "operation": {"header": "op", "map": BY_FIELD["operation"]["map"]}},
    ]

    assert len(rules) == len({rules_hash(pipeline(tables=[each])) for each in rules})


def test_whether_a_table_stops_is_no_rule_and_counts_at_once(pipeline: Build) -> None:
    stops, warns = (
        pipeline(tables=[{**CDC, "across_partitions": each}]) for each in ("stop", "warn")
    )
    kept = with_rules(warns, rules_text(stops))

    assert rules_hash(stops) == rules_hash(warns)
    assert "warn" == kept.tables[0].across_partitions
    assert {stops.tables[0].table} == settings_of(stops).stop_across_partitions
    assert frozenset() == settings_of(warns).stop_across_partitions


def test_a_default_that_is_written_out_is_the_same_rule(pipeline: Build) -> None:
    for rule, default in ((RULE, "quarantine"), (CDC, "skip"), (UPSERT, "delete")):
        written = pipeline(tables=[{**rule, "tombstones": default}])
        assert rules_hash(pipeline(tables=[rule])) == rules_hash(written)


def test_kept_rules_say_what_a_default_came_to(pipeline: Build) -> None:
    """An envelope of the whole spec decides on tombstones too: it is part of the kept rules."""
    rule = {name: value for name, value in CDC.items() if name != "records"}
    kept = rules_text(pipeline(tables=[rule], records={"envelope": "debezium"}))
    today = pipeline(tables=[UPSERT])

    assert "skip" == target(with_rules(today, kept)).options.tombstones


def test_kept_rules_that_contradict_themselves_are_damaged(pipeline: Build) -> None:
    text = rules_text(pipeline(tables=[PLAIN])).replace('"delete"', '"remove"')

    with pytest.raises(InvalidError) as caught:
        with_rules(pipeline(), text)
    assert "P131" == caught.value.code


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({"sequence_by": ["lsn"]}, True),
        ({"sequence_by": ["_kafka_timestamp"]}, False),
        ({"sequence_by": ["lsn"], "header_columns": {"lsn": "x-lsn"}}, False),
        ({"sequence_by": ["lsn"], "tombstones": "skip"}, False),
        ({"sequence_by": ["lsn"], "deletes": "ignore"}, False),
    ],
)
def test_a_sequence_that_records_without_a_value_lack_is_warned_of(
    pipeline: Build, more: dict[str, Any], warned: bool
) -> None:
    found = problems(pipeline, {**UPSERT, **SOFT, **more}, all_=True)

    assert [("P156", "warning", ("tables", 0, "sequence_by"))] * warned == [
        (each.code, each.severity, each.path) for each in found
    ]
