"""What a sample of values asks for: the type that holds them all, and no guess beyond."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.schema import Kind
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.schema.hints import Format, Hinted, hints_for

UID = "6d3f8a52-1111-4222-8333-9a8b7c6d5e4f"


def hinted(*values: Any, name: str = "x", to: Format = "iceberg") -> str | None:
    """Return the text of the hint for a field of these values, written as JSON; None without."""
    found = look(*(f'{{"{name}": {value}}}' for value in values), to=to).hints
    assert set(found) <= {name}, found
    return str(found[name].type) if found else None


def look(*records: str, to: Format = "iceberg") -> Hinted:
    return hints_for([parse_object(record.encode(), depth_max=64) for record in records], to)


@pytest.mark.parametrize(
    ("fractions", "count", "why"),
    [
        (2, 300, "mostly long: 2 of 300 have a fraction or exponent"),
        (30, 300, "mostly long: 30 of 300 have a fraction or exponent"),
        (31, 300, "31 of 300 have a fraction or exponent"),
    ],
)
def test_a_double_for_few_fractions_is_said_to_be_mostly_long(
    fractions: int, count: int, why: str
) -> None:
    numbers = [*["1.5"] * fractions, *["7"] * (count - fractions)]

    hint = look(*(f'{{"x": {number}}}' for number in numbers)).hints["x"]
    assert (Kind.DOUBLE, why) == (hint.type, hint.why)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (['"2026-11-01"', "null", '"1999-12-31"'], "date"),
        (['"2026-11-01T08:00:00Z"', '"2026-11-01 08:00+02:00"'], "timestamptz"),
        (['"2026-11-01T08:00:00.123"'], "timestamp"),
        (['"2026-11-01T08:00:00Z"', '"2026-11-01T08:00:00"'], None),
        (['"2026-11-01"', '"2026-11-01T08:00:00"'], None),
        (['"2026-11-01"', '"n/a"'], None),
        (['"2026-11-01"', '""'], None),
        (['"2026-02-30"'], None),
        (['"2026-11-01T08:00:00.1234567Z"'], None),
        (['"08:00:00"'], None),
        (['"true"', '"false"'], None),
        (['"12"', '"7"'], None),
        (['"007"', '"1.10"'], None),
        (["null"], None),
        (["[]", "{}"], None),
        (["1", "2"], None),
        (["1.5", "2.25"], None),
        (["1.5", "2"], "double"),
        (["0.1234567890123456789"], "decimal(28,19)"),
        (["9007199254740993", "0.5"], "decimal(28,1)"),
        (["9223372036854775808"], "decimal(28,0)"),
        (["1e400"], "double"),
        (["1e30", "1.5"], None),
        (["1", '"2"'], "long"),
        (["1.25", '"2"'], "decimal(18,2)"),
        (["1", '"02"', '"03"'], "string"),
        (["true", '"false"'], "boolean"),
        (["true", "1", "2"], "long"),
        (['"a"', "1"], "string"),
        (['{"a": 1}', '{"a": 2, "b": "c"}', '"none"'], "struct<a: long, b: string>"),
        (['{"a:b": 1}', '{"a:b": 2}', '"a name no text of a type has"'], "string"),
        (["[1]", "[2, 3]", "4"], "list<long>"),
    ],
)
def test_a_field_gets_the_type_that_holds_its_values(values: list[str], type_: str | None) -> None:
    assert type_ == hinted(*values)
    assert type_ == hinted(*reversed(values)), "whatever record comes first"


@pytest.mark.parametrize(
    ("name", "values", "type_"),
    [
        ("price", ['"12.5"', '"7"'], "decimal(18,2)"),
        ("unitPrice", ['"12.345"', '"-7.00"'], "decimal(18,3)"),
        ("amount", ['"12345678901234567.50"'], "decimal(28,2)"),
        ("amount", [f'"{"9" * 36}.55"'], "decimal(38,2)"),
        ("amount", [f'"{"9" * 38}.5"'], None),
        ("amount", ['"100"', '"200"'], None),
        ("amount", ['"12.50"', '"1,000.00"'], None),
        ("x", ['"12.50"', '"13.00"'], "decimal(18,2)"),
        ("x", ['"12.50"', '"12.50"'], None),
        ("x", ['"1.5"', '"2.25"'], None),
        ("version", ['"1.10"', '"1.11"'], None),
    ],
)
def test_amounts_in_texts_are_known_by_name_or_by_their_cents(
    name: str, values: list[str], type_: str | None
) -> None:
    assert type_ == hinted(*values, name=name)


def test_uuids_have_a_type_in_iceberg_and_stay_text_in_delta() -> None:
    assert "uuid" == hinted(f'"{UID}"')
    assert hinted(f'"{UID}"', to="delta") is None
    assert hinted(f'"{UID.upper()}"') is None, "it would come back in lower case"


@pytest.mark.parametrize(
    ("name", "values", "unit"),
    [
        ("created_at", [1_790_000_000, 1_700_000_000], "seconds"),
        ("ts", [1_790_000_000_000], "milliseconds"),
        ("eventTime", [1_790_000_000_000_000], "microseconds"),
        ("customer", [1_790_000_000], None),
        ("created_at", [1_790_000_000, 3], None),
        ("created_at", [-1], None),
    ],
)
def test_counts_since_1970_are_recognized_by_name_and_range_and_stay_numbers(
    name: str, values: list[int], unit: str | None
) -> None:
    found = look(*(json.dumps({name: value}) for value in values))

    assert ({name: unit} if unit else {}) == found.counts
    assert ({name: Kind.LONG} if unit else {}) == {n: h.type for n, h in found.hints.items()}


def test_hints_reach_members_and_elements() -> None:
    found = look('{"a": {"b": {"on": "2026-11-01"}}, "c": [{"d": [{"price": "1.50"}]}]}')

    assert {"a.b.on": "date", "c[].d[].price": "decimal(18,2)"} == {
        path: str(hint.type) for path, hint in found.hints.items()
    }


def test_an_object_whose_keys_are_data_is_a_map_and_one_with_optional_members_is_not() -> None:
    changing = [json.dumps({"m": {f"k{n}": 1.5, f"j{n}": n}}) for n in range(20)]
    days = [json.dumps({"m": {f"2026-11-0{n}": {"n": n, "at": "2026-11-01"}}}) for n in range(1, 5)]
    sparse = [json.dumps({"m": {f"k{n % 4}": 1, "id": n}}) for n in range(20)]
    clashing = [json.dumps({"m": {f"k{n}": 1, f"j{n}": "a"}}) for n in range(20)]

    assert {"m": "map<string, double>"} == {
        p: str(h.type) for p, h in look(*changing).hints.items()
    }
    assert {"m": "map<string, struct<n: long, at: date>>"} == {
        p: str(h.type) for p, h in look(*days).hints.items()
    }
    assert {} == look(*sparse).hints
    assert {} == look(*clashing).hints


def test_records_whose_own_keys_are_data_have_no_columns() -> None:
    assert look(*(json.dumps({f"device{n}": {"t": n}}) for n in range(100))).keyed
    assert not look(*(json.dumps({"id": n, f"o{n % 30}": n}) for n in range(100))).keyed


def test_names_that_no_column_can_have_get_no_hint() -> None:
    found = look(
        '{"a b": "2026-11-01", "a.b": "2026-11-01", "a[]": "2026-11-01", "ok": "2026-11-01"}'
    )

    assert {"ok"} == found.hints.keys()
