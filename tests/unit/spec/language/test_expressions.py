"""SQL in a spec: what is accepted reads one record and always gives the same answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.core.schema import Kind
from penstock.core.type_text import parse_type
from penstock.spec.language.expressions import expression, fields_of, looked_at, require_type
from penstock.spec.language.notation import MalformedError
from penstock.spec.language.sandbox import sandbox

FIELDS = fields_of(
    {
        "amount": parse_type("decimal(10,2)"),
        "customer.country": Kind.STRING,
        "seen": Kind.TIMESTAMPTZ,
        "prices": parse_type("map<string, decimal(9,2)>"),
        "items": parse_type("list<struct<sku: string, n: int>>"),
        "others[].at": Kind.DATE,
    }
)

FINE = {
    "prices['EUR'] > 1 and items[1].sku = 'a'": ("prices", "items"),
    "amount > 0 and payload.customer.country = 'DE'": ("amount", "customer"),
    "_kafka_headers['tenant'] = 'me' -- mine": ("_kafka_headers",),
    "case when amount between 1 and 2 then true else seen is null end": ("amount", "seen"),
    "try_cast(customer.country as integer) in (1, 2)": ("customer",),
    "regexp_matches(lower(_kafka_topic), '^a') or not amount is distinct from 1": (
        "_kafka_topic",
        "amount",
    ),
}
REFUSED = (
    "",
    "amount >",
    "true; drop table x",
    "true) as it, (true",
    "(select true)",
    "exists (select 1)",
    "count(*) > 1",
    "sum(amount) over () > 1",
    "row_number() over () = 1",
    "*",
    "random() > 0.5",
    "now() > seen",
    "age(seen) > interval 1 day",
    "seen.age() > interval 1 day",
    "list_aggregate([1, 2], 'reservoir_quantile', 0.5) > 1",
    "array_aggr([1, 2], 'any_value') > 1",
    "aggregate([1, 2], 'reservoir_quantile', 0.5) > 1",
    "gen_random_uuid() is null",
    "nextval('x') = 1",
    "current_setting('threads') = '1'",
    "getenv('HOME') is null",
    "read_text('/etc/passwd') is null",
    "$1",
    "?",
    "#1",
    "unnest([1, 2]) = 1",
    "amount > 0 " + "or true " * 1000,
)
REACHING = (
    "select * from read_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "copy (select 1) to '/tmp/penstock-was-here'",
    "attach '/tmp/penstock-was-here.db'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set threads = 8",
    "select * from read_parquet('https://example.com/x.parquet')",
)


@pytest.mark.parametrize(("text", "columns"), FINE.items())
def test_an_expression_over_one_record_is_let_through(text: str, columns: tuple[str, ...]) -> None:
    found = expression(text)

    assert columns == found.columns
    require_type(found, looked_at(found, FIELDS), ["BOOLEAN"])


@pytest.mark.parametrize("text", REFUSED)
def test_expressions_that_read_beyond_the_record_or_are_not_deterministic_are_refused(
    text: str,
) -> None:
    with pytest.raises(MalformedError) as refused:
        expression(text)
    assert "P143" == refused.value.code


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("at > 1", 'syntax error at or near ">"', 'a column of that name is  "at"'),
        ("x = 'at' and order > 1", "syntax error", 'is  "order"'),
        ("amount >", "syntax error", "such as  amount > 0"),
        ("lenght(name) > 1", "there is no function 'lenght'", "did you mean length?"),
        ("sum(amount) > 1", "'sum' is not a function of one record", "no aggregates"),
    ],
)
def test_what_is_no_expression_is_told_with_what_helps(text: str, message: str, hint: str) -> None:
    with pytest.raises(MalformedError) as refused:
        expression(text)
    assert message in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "text", ["amont > 0", "current_date > '2020-01-01'", "current_user = 'me'"]
)
def test_a_field_without_a_declared_type_is_refused(text: str) -> None:
    with pytest.raises(MalformedError) as refused:
        looked_at(expression(text), FIELDS)
    assert "P144" == refused.value.code


def test_a_text_without_quotes_is_told_as_such() -> None:
    with pytest.raises(MalformedError) as refused:
        looked_at(expression("customer.city = Rome"), FIELDS)
    assert "a text is written in quotes:  'Rome'" == refused.value.hint


@pytest.mark.parametrize("text", ["amount", "customer.city = 'Rome'", "amount like 'a%'"])
def test_what_does_not_compute_to_a_condition_is_refused(text: str) -> None:
    found = expression(text)
    with pytest.raises(MalformedError) as refused:
        require_type(found, looked_at(found, FIELDS), ["BOOLEAN"])
    assert "P145" == refused.value.code


@pytest.mark.parametrize(
    ("names", "text"),
    [(("n", "N"), "n = 1 and N = 'x'"), (("_KAFKA_OFFSET",), "_KAFKA_OFFSET > 0")],
    ids=["two fields", "a coordinate"],
)
def test_fields_that_sql_takes_for_one_are_not_read_together(
    names: tuple[str, ...], text: str
) -> None:
    fields = fields_of(dict.fromkeys(names, Kind.LONG))
    with pytest.raises(MalformedError, match="for one field") as refused:
        looked_at(expression(text), fields)
    assert "P145" == refused.value.code


@pytest.mark.parametrize("sql", REACHING)
def test_the_sandbox_reaches_no_file_network_extension_or_setting(sql: str) -> None:
    from duckdb import Error

    with pytest.raises(Error):
        sandbox().execute(sql)


def test_zones_are_utc_wherever_an_expression_runs() -> None:
    code = (
        "from penstock.spec.language.sandbox import sandbox;"
        "print(sandbox().execute("
        "\"select cast('2024-01-01 00:00:00+00'::timestamptz as varchar)\").fetchone()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "2024-01-01 00:00:00+00" == done.stdout.strip()
