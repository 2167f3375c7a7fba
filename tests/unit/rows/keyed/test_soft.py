"""Deletes that leave a row: the last image that the record brings, with a flag and a time."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.rows.keyed.test_changes import (
    AT,
    BY_FIELD,
    BY_ID,
    LANE,
    OPTIONS,
    batch_of,
    debezium,
    refused,
    row,
)

from penstock.core.schema import Field, Kind, Struct
from penstock.rows.convert.batch import ConvertedBatch
from penstock.rows.keyed.changes import ChangeBatch, convert_changes
from penstock.rows.options import KeyedOptions
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.filters import ComputedColumns, SqlExpression

SOFT = ("_is_deleted", "_deleted_at")
COLUMNS = (
    Field("id", Kind.LONG),
    Field("_is_deleted", Kind.BOOLEAN),
    Field("name", Kind.STRING),
    Field("_deleted_at", Kind.TIMESTAMPTZ),
    Field("_kafka_offset", Kind.LONG),
)
OPTIONAL = Struct(COLUMNS)
REQUIRED = Struct(tuple(replace(each, required=each.name == "name") for each in COLUMNS))
AT_MS = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


def changed(
    batch: pa.RecordBatch, keyed: KeyedOptions, schema: Struct = OPTIONAL, **options: Any
) -> tuple[list[tuple[Any, ...]], ChangeBatch]:
    """Return offset, key, name, flag, time of each change; all bring a row."""
    more = {name: options.pop(name) for name in ("computed", "fitted") if name in options}
    keyed = replace(keyed, soft=SOFT)
    made = convert_changes(
        batch,
        at=AT,
        lane=LANE,
        schema=schema,
        options=replace(OPTIONS, keyed=keyed, **options),
        **more,
    )
    assert made.changes.upsert.all()
    assert list(schema.names) == made.changes.rows.schema.names
    rows = made.changes.rows.to_pylist()
    assert made.changes.offset.tolist() == [each["_kafka_offset"] for each in rows]
    names = ("_kafka_offset", "id", "name", *SOFT)
    return [tuple(each[name] for name in names) for each in rows], made


def test_the_image_of_a_delete_is_a_row_with_flag_and_time() -> None:
    batch = batch_of(
        {"op": "I", **row(1)},
        {"op": "D", **row(1, "last")},
        {"op": "D", "id": 2},
        {"op": "D"},
        {"op": "D", **row(3, 7)},
        {"op": "x", **row(4)},
    )
    shown, made = changed(batch, BY_FIELD)

    assert [
        (0, 1, "Ann", False, None),
        (1, 1, "last", True, AT_MS),
        (2, 2, None, True, AT_MS),
    ] == shown
    assert {
        3: RejectCode.KEY_MISSING,
        4: RejectCode.WRONG_TYPE,
        5: RejectCode.UNKNOWN_OPERATION,
    } == {offset: code for offset, (code, _) in refused(made).items()}
    assert made.changes.counts.all()


def test_a_record_without_a_value_leaves_its_key_and_what_stands_next_to_it() -> None:
    batch = batch_of(row(1), None, None, None, keys=[None, b'{"id":1}', b"2", b'{"no":2}'])
    shown, made = changed(batch, BY_ID, tombstones="delete", key_format="json")

    assert [
        (0, 1, "Ann", False, None),
        (1, 1, None, True, AT_MS),
        (2, 2, None, True, AT_MS),
    ] == shown
    assert {3: RejectCode.KEY_MISSING} == {o: code for o, (code, _) in refused(made).items()}


@pytest.mark.parametrize("types", ["quarantine", "evolve", "drop_value"])
def test_a_row_that_would_lack_a_required_value_is_rejected(types: str) -> None:
    batch = batch_of({"op": "D", **row(1)}, {"op": "D", "id": 2}, None, keys=[None, None, b"3"])
    given = {"tombstones": "delete", "key_format": "json", "types": types}
    shown, made = changed(batch, BY_FIELD, REQUIRED, **given)

    assert [(0, 1, "Ann", True, AT_MS)] == shown
    said = "the column is required, and of the deleted row the record brings the key alone"
    assert ("P374", f"name: {said}") == refused(made)[2]
    assert RejectCode.MISSING == refused(made)[1][0]


def test_a_change_of_key_leaves_the_former_key() -> None:
    batch = batch_of(
        debezium("c", None, row(1)),
        debezium("u", row(1), row(2)),
        debezium("d", row(2, "last"), None),
    )
    shown, made = changed(batch, BY_ID, envelope="debezium")

    assert [
        (0, 1, "Ann", False, None),
        (1, 1, None, True, AT_MS),
        (1, 2, "Ann", False, None),
        (2, 2, "last", True, AT_MS),
    ] == shown
    assert [True, False, True, True] == made.changes.counts.tolist()
    assert [0, 0, 1, 0] == made.changes.sub.tolist()

    shown, made = changed(batch, BY_ID, REQUIRED, envelope="debezium")
    assert [0, 2] == [each[0] for each in shown]
    assert {1: RejectCode.KEY_ALONE} == {o: code for o, (code, _) in refused(made).items()}


def test_what_is_computed_is_null_where_only_the_key_is_known() -> None:
    schema = Struct((*OPTIONAL.fields, Field("twice", Kind.LONG)))
    looked_at = {"id": Kind.LONG}
    expression = SqlExpression("id * 2", Struct((Field("id", Kind.LONG),)), "twice")
    batch = batch_of({"op": "D", **row(4)}, None, keys=[None, b"5"])
    del looked_at
    _, made = changed(
        batch,
        BY_FIELD,
        schema,
        computed=ComputedColumns({"twice": expression}),
        tombstones="delete",
        key_format="json",
    )

    assert [8, None] == made.changes.rows.column("twice").to_pylist()


def test_a_row_of_a_delete_without_a_partition_is_rejected_as_others_are() -> None:
    def bounded(converted: ConvertedBatch) -> ConvertedBatch:
        kept = np.ones(len(converted.offsets), np.bool_)
        kept[-1] = False
        return replace(
            converted,
            rows=converted.rows.filter(pa.array(kept)),
            offsets=converted.offsets[kept],
            filtered={"test": 1},
        )

    batch = batch_of({"op": "D", **row(4)}, None, keys=[None, b"5"])
    given = {"tombstones": "delete", "key_format": "json", "fitted": bounded}
    shown, _ = changed(batch, BY_FIELD, **given)

    assert [4] == [key for _, key, *_ in shown]


def test_a_time_that_no_table_can_hold_is_left_out() -> None:
    batch = batch_of({"op": "D", **row(1)}, {"op": "D", **row(2)})
    times = pa.array([-(1 << 60), None], pa.timestamp("ms", "UTC"))
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)

    shown, _ = changed(batch, BY_FIELD)
    assert [(0, 1, "Ann", True, None), (1, 2, "Ann", True, None)] == shown


BY_NUMBER = replace(BY_FIELD, soft=SOFT, sequence=("no",))
WITH_NUMBER = Struct(
    (*COLUMNS, Field("no", Kind.LONG), Field("_kafka_timestamp", Kind.TIMESTAMPTZ))
)
SOURCE = {"offset": "_kafka_offset", "timestamp": "_kafka_timestamp"}


def numbered(
    batch: pa.RecordBatch, keyed: KeyedOptions, schema: Struct = WITH_NUMBER, **options: Any
) -> tuple[list[Any], dict[int, tuple[str, str]]]:
    """Return offset, place in the record and sequence of each change, and what is refused."""
    [name] = keyed.sequence
    _, made = changed(batch, keyed, schema, source_columns=SOURCE, **options)
    changes = made.changes
    columns = (changes.offset, changes.sub, changes.rows.column(name).to_pylist())
    return list(zip(*(list(each) for each in columns), strict=True)), refused(made)


@pytest.mark.parametrize("types", ["quarantine", "evolve", "drop_value"])
def test_a_record_without_a_sequence_is_rejected(types: str) -> None:
    batch = batch_of(
        {"op": "I", **row(1), "no": 5},
        {"op": "I", **row(1), "no": None},
        {"op": "I", **row(1)},
        {"op": "D", **row(1), "no": "x"},
        {"op": "D", **row(1), "no": 7},
        None,
        keys=[None, None, None, None, None, b"1"],
    )
    given = {"tombstones": "delete", "key_format": "json", "types": types}
    shown, found = numbered(batch, BY_NUMBER, **given)

    assert [(0, 0, 5), (4, 0, 7)] == shown
    said = ("P375", "no: a column of the sequence is null or missing")
    assert [said] * 3 == [found[each] for each in (1, 2, 5)]
    assert found[3][0] in {RejectCode.WRONG_TYPE, RejectCode.UNREADABLE, "P375"}


def test_a_record_without_a_value_has_the_sequence_that_stands_next_to_it() -> None:
    batch = batch_of({"op": "I", **row(1)}, None, None, keys=[None, b"1", b"2"])
    times = pa.array([1, 2, None], pa.timestamp("ms", "UTC"))
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)
    keyed = replace(BY_FIELD, soft=SOFT, sequence=("_kafka_timestamp",))
    shown, found = numbered(batch, keyed, tombstones="delete", key_format="json")

    assert [1000, 2000] == [at.microsecond for _, _, at in shown]
    assert {2: "P375"} == {offset: code for offset, (code, _) in found.items()}


def test_a_former_key_has_the_sequence_of_its_record() -> None:
    batch = batch_of(debezium("u", {**row(1), "no": 1}, {**row(2), "no": 8}))
    keyed = replace(BY_ID, soft=SOFT, sequence=("no",))
    shown, found = numbered(batch, keyed, envelope="debezium")

    assert ([(0, 0, 8), (0, 1, 8)], {}) == (shown, found)


def test_a_computed_sequence_may_be_null_in_no_record() -> None:
    expression = SqlExpression("nullif(id, 3) * 2", Struct((Field("id", Kind.LONG),)), "no")
    batch = batch_of({"op": "I", **row(4)}, {"op": "I", **row(3)}, {"op": "D", **row(5)})
    computed = ComputedColumns({"no": expression})
    shown, found = numbered(batch, BY_NUMBER, computed=computed)

    assert [(0, 0, 8), (2, 0, 10)] == shown
    assert {1: "P375"} == {offset: code for offset, (code, _) in found.items()}


def test_a_change_of_key_whose_row_cannot_be_computed_is_rejected_once() -> None:
    expression = SqlExpression("nullif(id, 2) * 2", Struct((Field("id", Kind.LONG),)), "no")
    batch = batch_of(
        debezium("u", row(1), row(2)), debezium("u", row(4), row(3)), debezium("u", row(5), row(2))
    )
    keyed = replace(BY_ID, soft=SOFT, sequence=("no",))
    computed = ComputedColumns({"no": expression})
    shown, found = numbered(batch, keyed, envelope="debezium", computed=computed)

    assert [(1, 0, 6), (1, 1, 6)] == shown
    assert {0: "P375", 2: "P375"} == {offset: code for offset, (code, _) in found.items()}


def test_where_deletes_are_ignored_a_former_key_keeps_its_row() -> None:
    """A row that goes would forget its sequence."""
    batch = batch_of(
        debezium("u", {**row(1), "no": 1}, {**row(2), "no": 8}),
        debezium("d", {**row(2), "no": 9}, None),
    )
    for sequence, subs in ((("no",), [0]), ((), [0, 1])):
        keyed = replace(BY_ID, ignores_deletes=True, sequence=sequence)
        options = replace(OPTIONS, keyed=keyed, envelope="debezium")
        made = convert_changes(batch, at=AT, lane=LANE, schema=WITH_NUMBER, options=options)
        assert subs == made.changes.sub.tolist()
        assert {"delete": 1} == made.filtered
