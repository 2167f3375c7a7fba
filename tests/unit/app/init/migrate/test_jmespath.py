"""Transforms of kafka-delta-ingest as SQL: they compute what its own tests expect, or are left."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from penstock.app.init.migrate.jmespath import translated
from penstock.core.offsets import TopicPartition
from penstock.core.type_text import parse_type
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.route.filters import SqlExpression
from penstock.rows.route.router import Router
from penstock.spec.language.expressions import expression, fields_of, looked_at

RECORD = {
    "name": "William",
    "modified": "2021-03-16T14:38:58Z",
    "seconds": 1626823098,
    "text": "1626823098.51995",
    "meta": {"producer": {"at": "2021-03-24T15:06:17.321710+00:00"}},
    "tags": ["a", "b"],
    "order": "o-1",
    "payload": {"seen": "inside"},
    "end": {"from": "abc"},
}


def computed(sql: str, hints: dict[str, str], record: dict[str, object]) -> object:
    """Compute as a worker does: declared fields only, in the sandbox."""
    batch = pa.record_batch(
        {
            "offset": pa.array([7], pa.int64()),
            "timestamp": pa.array([0], pa.timestamp("ms", "UTC")),
            "key": pa.nulls(1, pa.binary()),
            "value": pa.array([json.dumps(record).encode()], pa.binary()),
        }
    )
    declared = fields_of({name: parse_type(type_) for name, type_ in hints.items()})
    look = SqlExpression(sql, looked_at(expression(sql), declared), "here")
    sorter = Router(batch, TopicPartition("id", 3, "orders"))
    values, refused = sorter.values(look, RowOptions({}), ReaderCache())
    assert {} == refused
    return values[0].as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name", "William"),
        ("substr(name, `0`, `4`)", "Will"),
        ("substr(name,`3`,`4`)", "liam"),
        ("substr(modified, `0`, `10`)", "2021-03-16"),
        ("substr(meta.producer.at, `0`, `10`)", "2021-03-24"),
        ("epoch_seconds_to_iso8601(seconds)", "2021-07-20T23:18:18Z"),
        ("epoch_seconds_to_iso8601(to_number(text))", "2021-07-20T23:18:18Z"),
        ("not_null(none, name)", "William"),
        ("starts_with(name, 'Wil')", True),
        ("tags[1]", "b"),
        ("tags[9]", None),
        ("not_null(none, order)", "o-1"),
        ("not_null(seen, payload.seen)", "inside"),
        ("substr(end.from, `0`, `2`)", "ab"),
        ("kafka.topic", "orders"),
        ("kafka.partition", 3),
        ("kafka.offset", 7),
    ],
)
def test_an_expression_computes_what_it_did(text: str, expected: object) -> None:
    found = translated(text)

    assert found is not None
    assert expected == computed(found.sql, dict(found.hints), RECORD)


@pytest.mark.parametrize(
    ("function", "count", "expected"),
    [
        ("epoch_millis_to_iso8601", 1626823098000, "2021-07-20T23:18:18Z"),
        ("epoch_millis_to_iso8601", 1626823098100, "2021-07-20T23:18:18.100Z"),
        ("epoch_micros_to_iso8601", 1626823098519950, "2021-07-20T23:18:18.519950Z"),
        ("epoch_micros_to_iso8601", 1626823098519000, "2021-07-20T23:18:18.519Z"),
    ],
)
def test_a_time_is_written_as_chrono_writes_it(function: str, count: int, expected: str) -> None:
    found = translated(f"{function}(n)")

    assert found is not None
    assert expected == computed(found.sql, dict(found.hints), {"n": count})


@pytest.mark.parametrize(
    "text",
    [
        *("", "a ||", "a || b", "a[*].b", "a[0].b", "a[?x]", "{a: b}", "@", "substr(a, b, `1`)"),
        *("nothing_known(a)", '"x y".z', "kafka.timestamp_type(", "substr(name, '0', '4')", "`{}`"),
    ],
)
def test_what_is_not_known_is_not_guessed(text: str) -> None:
    assert None is translated(text)
