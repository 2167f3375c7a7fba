"""The golden conversions, through a broker into both kinds of tables, read back by others' readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import deltalake
import duckdb
from tests.golden.conversions import Case, cases, shown
from tests.integration.cli.shop import Shop

from penstock.core.schema import Fixed, Kind, List, Map, Struct, Type
from penstock.testing.sent import Sent

NOT_IN_DELTA = (Kind.UUID, Kind.TIME, Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS, Fixed(2))


def hintable(type_: Type) -> bool:
    """Return whether a type can be declared in a spec."""
    match type_:
        case Struct() | Map():
            return False
        case List(element, required):
            return not required and hintable(element) and not isinstance(element, List)
        case _:
            return True


def column(number: int) -> str:
    return f"c{number}"


def test_every_conversion_lands_the_same_in_iceberg_and_delta_or_is_quarantined(shop: Shop) -> None:
    wanted = [case for case in cases() if hintable(case.type) and shows_column(case.type)]
    types = list(dict.fromkeys(case.type for case in wanted))
    shop.spec["quarantine"]["stop_above"] = "100%"
    for rule, refused in zip(shop.spec["tables"], ((), NOT_IN_DELTA), strict=True):
        hints = {column(n): str(t) for n, t in enumerate(types) if t not in refused}
        rule["schema"] = {"create": True, "columns": "drop_value", "hints": hints}
    shop.spec["tables"][0]["properties"] = {"format-version": 3}
    first = {"id": -1, **{column(n): example(wanted, type_) for n, type_ in enumerate(types)}}
    shop.cluster.send(shop.topic, 0, [Sent(json.dumps(first).encode())])
    values = [
        f'{{"id":{n},"{column(types.index(case.type))}":{case.json}}}'.encode()
        for n, case in enumerate(wanted)
    ]
    created = shop.run()
    assert 0 == created.code, created.err
    shop.cluster.send(shop.topic, 1, [Sent(value) for value in values])

    ran = shop.run()
    assert 0 == ran.code, ran.out

    codes = {value: str(case.code) for value, case in zip(values, wanted, strict=True) if case.code}
    for table, rows, refused in (
        ("lake.shop.orders", shop.lake(), ()),
        ("delta.shop.orders", shop.delta(), NOT_IN_DELTA),
        ("delta.shop.orders", by_duckdb(shop), NOT_IN_DELTA),
    ):
        tried = {v for v, case in zip(values, wanted, strict=True) if case.type not in refused}
        found = {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
        assert {v: c for v, c in codes.items() if v in tried} == {
            v: c for v, c in found.items() if v in tried
        }
        assert expected_rows(wanted, refused) == found_rows(rows, wanted, types, refused)
    shop.prove()


def shows_column(type_: Type) -> bool:
    """Return whether a value of a type is there that makes a column; an empty list makes none."""
    return any(case.lands for case in cases() if case.type == type_)


def example(wanted: Iterable[Case], type_: Type) -> Any:
    """Return a value that lands, so that every column is there from the first record on."""
    for case in wanted:
        if case.type == type_ and case.lands:
            return json.loads(case.json)
    raise AssertionError(type_)


def by_duckdb(shop: Shop) -> list[dict[str, Any]]:
    files = deltalake.DeltaTable(shop.directory / "delta/shop/orders").file_uris()
    found = duckdb.connect().execute("select * from read_parquet(?)", [files])
    return found.to_arrow_table().to_pylist()


def expected_rows(wanted: list[Case], refused: tuple[Type, ...]) -> dict[int, Any]:
    return {
        n: case.lands
        for n, case in enumerate(wanted)
        if case.code is None and case.type not in refused
    }


def found_rows(
    rows: list[dict[str, Any]], wanted: list[Case], types: list[Type], refused: tuple[Type, ...]
) -> dict[int, Any]:
    found = {}
    for row in rows:
        if row["id"] < 0 or wanted[row["id"]].type in refused:
            continue
        case = wanted[row["id"]]
        found[row["id"]] = shown(row[column(types.index(case.type))], case.type)
    return found


def test_the_golden_file_has_each_type_and_both_outcomes() -> None:
    kinds = {kind for kind in Kind if kind is not Kind.UNKNOWN}
    assert kinds <= {case.type for case in cases()}
    assert {List, Map, Struct, Fixed} <= {type(case.type) for case in cases()}
    for kind in kinds:
        assert {True, False} == {case.code is None for case in cases() if case.type is kind}
