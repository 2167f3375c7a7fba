"""Records of a keyed table become changes with its computed columns, within its partitions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.convert import convert_changes_for_table
from penstock.landing.task.messages import TableJob, WriteTarget
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.changes import ChangeBatch
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.rows.route.compute import no_functions
from penstock.rows.route.filters import ComputedColumns, SqlExpression

AT = TopicPartition("id", 0, "orders")
ID = Struct((Field("id", Kind.LONG),))
FIELDS = (Field("id", Kind.LONG), Field("name", Kind.STRING, required=True))
COMPUTED = Field("it", Kind.LONG)


def sql(text: str) -> SqlExpression:
    return SqlExpression(text, ID, "tables[0].transform.columns.it")


def job(keys: tuple[str, ...], computed: ComputedColumns, **more: Any) -> TableJob:
    options = RowOptions(
        {},
        envelope="debezium",
        tombstones="delete",
        key_format="json",
        keyed=KeyedOptions(keys),
    )
    schema = Struct((*FIELDS, COMPUTED) if computed.names else FIELDS)
    return TableJob(schema, options, WriteTarget("c", "t"), computed=computed, **more)


def event(op: str, before: Any, after: Any) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after}).encode()


def row(number: Any) -> dict[str, Any]:
    return {"id": number, "name": "Ann"}


def changed(table: TableJob, *values: bytes | None, functions: Any = no_functions) -> ChangeBatch:
    batch = pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
            "key": pa.array([b'{"id":5}'] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    return convert_changes_for_table(table, batch, AT, 0, ReaderCache(), functions)


def told(made: ChangeBatch) -> tuple[list[Any], dict[int, str]]:
    rows = [
        (int(offset), bool(upsert), {k: v for k, v in row.items() if v is not None})
        for offset, upsert, row in zip(
            made.changes.offset, made.changes.upsert, made.changes.rows.to_pylist(), strict=True
        )
    ]
    return rows, {each.offset: each.code for each in made.rejects}


EVENTS = (
    event("c", None, row(1)),
    event("u", row(1), row(2)),
    event("d", row(2), None),
    event("d", {"id": 3}, None),
    None,
    event("u", None, row(None)),
)


def test_columns_are_computed_for_upserts() -> None:
    rows, rejects = told(changed(job(("id",), ComputedColumns({"it": sql("id * 10")})), *EVENTS))

    assert [
        (0, True, row(1) | {"it": 10}),
        (1, False, {"id": 1}),
        (1, True, row(2) | {"it": 20}),
        (2, False, {"id": 2}),
        (3, False, {"id": 3}),
        (4, False, {"id": 5}),
    ] == rows
    assert {5: "P373"} == rejects


def test_a_key_that_is_computed_is_known_of_rows_that_events_show_whole() -> None:
    table = job(("it",), ComputedColumns({"it": sql("id * 10")}))
    rows, rejects = told(changed(table, *EVENTS))

    assert [
        (0, True, row(1) | {"it": 10}),
        (1, False, {"it": 10}),
        (1, True, row(2) | {"it": 20}),
        (2, False, {"it": 20}),
        (3, False, {"it": 30}),
    ] == rows
    assert {4: "P373", 5: "P373"} == rejects


def test_a_former_key_of_which_a_column_is_computed_is_known_too() -> None:
    table = job(("it", "id"), ComputedColumns({"it": sql("id * 10")}))
    rows, rejects = told(changed(table, *EVENTS))

    assert [0, 1, 1, 2, 3] == [offset for offset, _, _ in rows]
    assert (1, False, {"it": 10, "id": 1}) == rows[1]
    assert {4: "P373", 5: "P373"} == rejects


def test_a_key_that_a_function_fills_is_known_of_upserts_alone() -> None:
    def filled(given: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"it": pc.multiply(given.column("id"), 10)})

    table = job(("it",), ComputedColumns({}, "shop:fill", ("it",)))
    rows, rejects = told(changed(table, *EVENTS, functions=lambda _: filled))

    assert [(0, True, row(1) | {"it": 10}), (1, True, row(2) | {"it": 20})] == rows
    assert dict.fromkeys((2, 3, 4, 5), "P373") == rejects


def test_a_row_below_all_partitions_is_rejected_and_deletes_no_former_one() -> None:
    table = job(("id",), ComputedColumns(), least={("id",): Decimal(2)})
    events = (event("u", row(5), row(1)), event("u", row(1), row(5)), event("d", row(1), None))
    rows, rejects = told(changed(table, *events))

    assert [(1, False, {"id": 1}), (1, True, row(5)), (2, False, {"id": 1})] == rows
    assert {0: "P346"} == rejects


def test_a_table_whose_operations_stand_in_headers_wants_them() -> None:
    keyed = KeyedOptions(("id",), {"D": "delete"}, operation_header="op")
    table = TableJob(ID, RowOptions({}, keyed=keyed), WriteTarget("c", "t"))

    assert table.wants_headers("orders")
    assert not job(("id",), ComputedColumns()).wants_headers("orders")
