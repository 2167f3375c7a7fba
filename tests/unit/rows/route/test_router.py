"""Gates over a batch: every record is the table's, filtered under a place, or refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Kind
from penstock.core.type_text import parse_type
from penstock.rows.cast.scalars import scalar_cast
from penstock.rows.decode.decoder import ReaderCache, plain_readers
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.route import sql_values
from penstock.rows.route.filters import (
    PASS_ALL,
    DynamicRoute,
    RecordFilter,
    SqlExpression,
    filter_from_data,
    filter_to_data,
)
from penstock.rows.route.router import Router
from penstock.rows.route.sql_values import TimedOutError
from penstock.rows.route.table_names import filled_name
from penstock.spec.language.expressions import fields_of

AT = TopicPartition("id", 0, "orders")
OPTIONS = RowOptions(source_columns={})
FIELDS = fields_of({"n": parse_type("long"), "kind": parse_type("string")})
FEW = SqlExpression("n < 3", FIELDS, "tables[0].where")
EVEN = SqlExpression("n % 2 = 0", FIELDS, "tables[1].where")
KIND = DynamicRoute(
    "lake.b.of_{kind}", {"kind": SqlExpression("kind", FIELDS, "tables[2].route.kind")}
)


def batch(values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(7, 7 + count), pa.int64()),
            pa.array([0] * count, pa.timestamp("ms", "UTC")),
            pa.array(list(keys) or [None] * count, pa.binary()),
            pa.array(values, pa.binary()),
        ],
        names=["offset", "timestamp", "key", "value"],
    )


def numbered(*numbers: object) -> pa.RecordBatch:
    return batch([json.dumps({"n": n, "more": [1]}).encode() for n in numbers])


def test_a_record_taken_above_is_not_the_table_s_and_is_counted_under_the_rule_that_took_it() -> (
    None
):
    share = Router(numbered(0, 1, 2, 3, 4, 5, None), AT).route(RecordFilter((FEW,), EVEN), OPTIONS)

    assert [False, False, False, False, True, False, False] == share.mine.tolist()
    counts = {reason: int(mask.sum()) for reason, mask in share.filtered.items()}
    assert {"taken by tables[0]": 3, "tables[1].where": 3} == counts


def test_a_record_that_a_condition_cannot_read_is_refused_once_at_the_first_rule() -> None:
    sorter = Router(batch([b"{", b'{"n": "x"}', b'{"n": 1}', None]), AT)
    first, second = (
        sorter.route(RecordFilter(where=FEW), OPTIONS),
        sorter.route(RecordFilter((FEW,)), OPTIONS),
    )

    assert {7: "P302", 8: "P366"} == {r.offset: r.code for r in first.rejected.values()}
    assert {} == second.rejected
    assert [False, False, False, True] == second.mine.tolist()


@pytest.mark.parametrize("neighbour", [b'{"n": 1}', b'{"n": 0}', b"{"])
def test_where_sql_fails_on_one_record_the_others_are_routed_as_if_it_were_not_there(
    neighbour: bytes,
) -> None:
    look = SqlExpression("cast(kind as integer) > n", FIELDS, "tables[0].where")
    values = [b'{"n": 1, "kind": "2"}', b'{"n": 1, "kind": "two"}', neighbour]
    share = Router(batch(values), AT).route(RecordFilter(where=look), OPTIONS)

    assert [True, False] == share.mine.tolist()[:2]
    assert "P380" == share.rejected[1].code
    assert "two" not in share.rejected[1].message


def test_a_route_leads_records_to_tables_and_keeps_what_none_takes() -> None:
    kinds = ["a", "B", "c", None, "", "x" * 200, "\u0430", "reserved"]
    values = [json.dumps({"kind": kind}).encode() for kind in kinds]
    sorter = Router(batch(values), AT)
    reserved = DynamicRoute(KIND.template, KIND.parts, reserved=("lake.b.of_reserved",))
    share = sorter.route(
        RecordFilter(route=reserved), OPTIONS, known=frozenset({"lake.b.of_a", "lake.b.of_b"})
    )
    mine = sorter.route(RecordFilter(route=reserved, share="lake.b.of_b"), OPTIONS)

    assert ["lake.b.of_c"] == list(share.unknown)
    assert [3, 4, 5, 6, 7] == sorted(share.rejected)
    assert {"P381"} == {reject.code for reject in share.rejected.values()}
    assert [1] == mine.mine.nonzero()[0].tolist()
    assert 2 == int(share.filtered["routed"].sum())
    unknown = sorter.reject(share.unknown["lake.b.of_c"], reserved)
    assert [(2, "P382")] == [(index, reject.code) for index, reject in unknown.items()]


@pytest.mark.parametrize("neighbour", [b'{"n": 1, "kind": "x"}', b'{"n": 1, "kind": "two"}'])
def test_a_record_that_needs_too_much_memory_is_refused_alone(neighbour: bytes) -> None:
    look = SqlExpression(
        "if(n = 1, cast(kind as integer), len(repeat(kind, n))) > 0", FIELDS, "tables[0]"
    )
    values = [b'{"n": 3, "kind": "9"}', neighbour, b'{"n": 100000000000, "kind": "9"}']
    values += [b'{"n": 1, "kind": "0"}', b'{"n": 1, "kind": "1"}']
    share = Router(batch(values), AT).route(RecordFilter(where=look), OPTIONS)

    assert [True, False, False, False, True] == share.mine.tolist()
    assert [1, 2] == sorted(share.rejected)
    assert {"P380"} == {reject.code for reject in share.rejected.values()}


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever is asked of a record with `n = 3` take too long."""
    column = sql_values._column

    def slowly(connection: object, sql: str, records: pa.Table, seconds: float) -> pa.Array:
        if 3 in records.column("n").to_pylist():
            raise TimedOutError
        return column(connection, sql, records, seconds)

    monkeypatch.setattr(sql_values, "_column", slowly)


@pytest.mark.usefixtures("_slow")
def test_a_record_that_is_too_slow_for_a_condition_is_refused_by_its_table() -> None:
    share = Router(numbered(1, 3, 4), AT).route(RecordFilter(where=EVEN), OPTIONS)

    assert [False, False, True] == share.mine.tolist()
    assert [(1, 8, "P314")] == [(at, r.offset, r.code) for at, r in share.rejected.items()]
    assert "tables[1].where takes longer than 60 s" in share.rejected[1].message


@pytest.mark.usefixtures("_slow")
def test_a_record_that_is_too_slow_for_a_rule_above_is_refused_below_too() -> None:
    below = Router(numbered(1, 3, 4), AT).route(RecordFilter((FEW,), EVEN), OPTIONS)

    assert [False, False, True] == below.mine.tolist()
    assert {1: "P314"} == {at: reject.code for at, reject in below.rejected.items()}
    assert {"taken by tables[0]": 1} == {
        reason: int(mask.sum()) for reason, mask in below.filtered.items() if mask.any()
    }


@pytest.mark.usefixtures("_slow")
def test_a_route_and_each_of_its_tables_refuse_a_slow_record() -> None:
    kind = SqlExpression("if(n > 0, 'a', kind)", FIELDS, "tables[2].route.kind")
    route = RecordFilter(route=DynamicRoute("lake.b.of_{kind}", {"kind": kind}))
    sorter = Router(numbered(1, 3, 4), AT)

    for gate in (route, *(replace(route, share=f"lake.b.of_{name}") for name in "ab")):
        share = sorter.route(gate, OPTIONS, known=frozenset({"lake.b.of_a", "lake.b.of_b"}))
        assert {1: "P314"} == {at: reject.code for at, reject in share.rejected.items()}
        assert [gate.share.endswith("_a") and at != 1 for at in range(3)] == share.mine.tolist()


@pytest.mark.usefixtures("_slow")
def test_a_table_of_a_route_refuses_what_a_condition_is_too_slow_for_and_nothing_else() -> None:
    kind = SqlExpression("kind", FIELDS, "tables[2].route.kind")
    gate = RecordFilter(
        where=EVEN, route=DynamicRoute("lake.b.of_{kind}", {"kind": kind}), share="lake.b.of_a"
    )
    share = Router(batch([b"{", b'{"n": 3}', b'{"n": 4, "kind": "a"}']), AT).route(gate, OPTIONS)

    assert {1: "P314"} == {at: reject.code for at, reject in share.rejected.items()}
    assert [False, False, True] == share.mine.tolist()


def test_records_are_led_by_header_key_pattern_and_operation() -> None:
    changes = [{"op": op, "before": {"n": 1}, "after": {"n": 2}} for op in "cud"]
    values = [json.dumps({**each, "ts_ms": 1, "source": {}}).encode() for each in changes]
    plain = batch(values, keys=[b"a-1", b"b-2", None])
    headers = [[{"key": "tenant", "value": b"me"}], [], []]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    sorter = Router(plain.append_column("headers", pa.array(headers, kind)), AT)
    options = RowOptions(
        source_columns={}, envelope="debezium", change_columns={"operation": "_change_operation"}
    )
    operation = fields_of({"_change_operation": parse_type("string")})

    def taken(sql: str) -> list[bool]:
        return sorter.route(
            RecordFilter(where=SqlExpression(sql, operation, "w")), options
        ).mine.tolist()

    assert [True, True, False] == taken("_change_operation <> 'delete'")
    assert [True, False, False] == taken("_kafka_headers['tenant'] = 'me'")
    assert [False, True, False] == taken("regexp_matches(_kafka_key, '^b-[0-9]+$')")


def test_what_a_route_refuses_reaches_none_of_its_tables() -> None:
    look = SqlExpression("coalesce(kind, 'other')", FIELDS, "tables[0].route.kind")
    route = DynamicRoute(KIND.template, {"kind": look})
    sorter = Router(batch([b"{", b'{"kind": null}', b'{"kind": {}}', b'{"kind": "a"}']), AT)
    other = sorter.route(RecordFilter(route=route, share="lake.b.of_other"), OPTIONS)
    refused = sorter.route(RecordFilter(route=route), OPTIONS, known=frozenset({"lake.b.of_other"}))

    assert not other.mine[list(refused.rejected)].any()
    assert [False, True, False, False] == other.mine.tolist()


@given(st.text(max_size=300))
def test_whatever_a_record_says_a_name_is_plain_or_none(value: str) -> None:
    name = filled_name("lake.b.{kind}", {"kind": value})

    assert name is None or name.removeprefix("lake.b.").replace("_", "a").isalnum()
    assert name is None or name.isascii()


@settings(deadline=None)  # the first one opens DuckDB
@given(st.lists(st.one_of(st.none(), st.integers(-5, 5), st.text(max_size=3)), max_size=30))
@example(["00", "+1", "1e0", "1.0", "x"])
def test_a_condition_reads_numbers_as_a_column_does_whatever_is_next_to_them(
    numbers: list[object],
) -> None:
    found = Router(numbered(*numbers), AT).route(RecordFilter(where=FEW), OPTIONS)
    read = scalar_cast(Kind.LONG, OPTIONS)
    expected, rejected = [], []
    for number in numbers:
        try:
            value = read(number) if isinstance(number, str) else number
        except RejectError:
            value = None
        expected.append(value is not None and value < 3)
        rejected.append(value is None and number is not None)

    assert expected == found.mine.tolist()
    assert rejected == [index in found.rejected for index in range(len(numbers))]


@pytest.mark.parametrize("gate", [PASS_ALL, RecordFilter((FEW,), EVEN, KIND, "lake.b.of_a")])
def test_a_gate_survives_its_way_to_a_worker(gate: RecordFilter) -> None:
    assert gate == filter_from_data(json.loads(json.dumps(filter_to_data(gate))))


def test_records_are_decoded_once_for_all_rules_with_the_same_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluations, compute = [0], sql_values.evaluate

    def counted(*given: Any) -> sql_values.SqlValues:
        evaluations[0] += 1
        return compute(*given)

    monkeypatch.setattr("penstock.rows.route.router.evaluate", counted)
    sorter, same = Router(numbered(1, 2, 3), AT), plain_readers()
    for _ in range(20):
        sorter.route(RecordFilter(where=FEW), OPTIONS, readers=same(None))
    assert [1] == evaluations


def test_results_are_not_shared_between_readers_even_after_they_were_freed() -> None:
    """Another's may be found at the same address in memory once these are let go."""
    sorter = Router(numbered(1, 2, 3), AT)
    for _ in range(20):
        sorter.route(RecordFilter(where=FEW), OPTIONS, readers=ReaderCache())
    assert 20 == len(sorter._answers)
