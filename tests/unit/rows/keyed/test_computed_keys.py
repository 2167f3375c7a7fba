"""A key that is computed of a record changes as a key of the record itself does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.rows.keyed.test_changes import AT, LANE, OPTIONS, avro, batch_of, debezium, refused
from tests.unit.rows.schema.test_evolution import One

from penstock.core.schema import Field, Kind, Struct
from penstock.ports.registry import RegisteredSchema
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.changes import ChangeBatch, convert_changes
from penstock.rows.options import KeyedOptions
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.filters import ComputedColumns, SqlExpression

ID = Field("id", Kind.LONG)
SCHEMA = Struct((ID, Field("name", Kind.STRING), Field("twice", Kind.LONG)))
TWICE = SqlExpression("id * 2", Struct((ID,)), "tables[0].transform.columns.twice")


def row(number: Any, name: Any = "Ann") -> dict[str, Any]:
    return {"id": number, "name": name}


def changed(
    batch: pa.RecordBatch, key: tuple[str, ...], *, twice: SqlExpression = TWICE, **options: Any
) -> ChangeBatch:
    keyed = replace(KeyedOptions(key), ignores_deletes=options.pop("ignores_deletes", False))
    registered = options.pop("registered", None)
    readers = ReaderCache(One(registered)) if registered else None
    given = replace(OPTIONS, keyed=keyed, **options)
    computed = ComputedColumns({"twice": twice})
    return convert_changes(
        batch, at=AT, lane=LANE, schema=SCHEMA, options=given, readers=readers, computed=computed
    )


def shown(made: ChangeBatch, *columns: str) -> list[tuple[Any, ...]]:
    changes = made.changes
    books = (changes.offset, changes.sub, changes.upsert, changes.counts)
    values = [changes.rows.column(name).to_pylist() for name in columns]
    return list(zip(*(each.tolist() for each in books), *values, strict=True))


EVENTS = [
    debezium("c", None, row(1)),
    debezium("u", row(1), row(1, "Bob")),
    debezium("u", row(1, "Bob"), row(2)),
    debezium("u", None, row(3)),
    debezium("u", {"name": "Ann"}, row(4)),
    debezium("u", row(None), row(5)),
    debezium("r", row(9), row(6)),
    debezium("d", row(2), None),
    debezium("d", row(None), None),
    debezium("u", row(7), row(None)),
]
IMAGE = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "name", "type": "string"}],
}
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "before", "type": ["null", IMAGE]},
        {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string"},
    ],
}


def as_avro(event: dict[str, Any]) -> bytes:
    images = {name: event[name] and {"id": None, **event[name]} for name in ("before", "after")}
    return avro(AVRO, {**images, "op": event["op"]})


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("ignores_deletes", [False, True])
def test_a_computed_key_changes_as_the_column_does_that_it_is_computed_of(
    ignores_deletes: bool, typed: bool
) -> None:
    options: dict[str, Any] = {"envelope": "debezium", "ignores_deletes": ignores_deletes}
    events: list[Any] = EVENTS
    if typed:
        events = [as_avro(event) for event in EVENTS]
        registered = RegisteredSchema("avro", json.dumps(AVRO))
        options |= {"format": "avro", "registered": registered}
    plain = changed(batch_of(*events), ("id",), **options)
    computed = changed(batch_of(*events), ("twice",), **options)

    rejected = [9] if ignores_deletes else [8, 9]
    for made in (plain, computed):
        assert rejected == [each.offset for each in made.rejects]
    expected = [(*books, number * 2) for *books, number in shown(plain, "id")]
    assert expected == shown(computed, "twice")
    assert [2] == [offset for offset, _, _, counts, _ in expected if not counts]


@pytest.mark.parametrize("types", ["quarantine", "drop_value"])
def test_a_key_of_which_either_column_changes_is_deleted_whole(types: Any) -> None:
    """What is computed may be of another field than the column of the key beside it."""
    box = Struct((Field("box", Struct((Field("no", Kind.LONG),))),))
    twice = replace(TWICE, sql="coalesce(box.no, 0) * 2", fields=box)
    events = [
        {"type": "update", "data": row(2) | {"box": {"no": 5}}, "old": {"id": 1}},
        {"type": "update", "data": row(2) | {"box": {"no": 6}}, "old": {"box": {"no": 5}}},
        {"type": "update", "data": row(3) | {"box": {"no": 7}}, "old": {"id": 2, "box": None}},
        {"type": "update", "data": row(3) | {"box": {"no": 7}}, "old": {"name": "Bob"}},
        {"type": "update", "data": row(3) | {"box": {"no": 7}}, "old": {"box": {"no": "x"}}},
    ]
    events = [{"database": "d", "table": "t", "ts": 1, **event} for event in events]
    made = changed(
        batch_of(*events),
        ("id", "twice"),
        twice=twice,
        envelope="maxwell",
        types=types,
        columns="drop_value",
    )

    assert [
        (0, 0, False, False, 1, 10),
        (0, 1, True, True, 2, 10),
        (1, 0, False, False, 2, 10),
        (1, 1, True, True, 2, 12),
        (2, 0, False, False, 2, 0),
        (2, 1, True, True, 3, 14),
        (3, 0, True, True, 3, 14),
    ] == shown(made, "id", "twice")
    said = "twice: the column is computed, and what the record says of the former row does not"
    assert {4: (RejectCode.KEY_MISSING, f"{said} give it")} == refused(made)


def test_a_former_row_with_null_beside_what_is_computed_had_no_key() -> None:
    """The row's own value is not put in its place: that key may be another row's."""
    events = [
        debezium("u", row(1, None), row(2)),
        debezium("u", {"id": 2}, row(3)),
        debezium("u", row(3), row(4)),
    ]
    made = changed(batch_of(*events), ("name", "twice"), envelope="debezium")

    assert [
        (0, 0, True, True, "Ann", 4),
        (1, 0, True, True, "Ann", 6),
        (2, 0, False, False, "Ann", 6),
        (2, 1, True, True, "Ann", 8),
    ] == shown(made, "name", "twice")


def test_a_former_row_of_which_no_key_can_be_computed_rejects_its_record() -> None:
    twice = replace(TWICE, sql="case when id = 1 then error('no') else id * 2 end")
    events = [debezium("u", row(1), row(2)), debezium("u", row(3), row(4))]
    made = changed(batch_of(*events), ("twice",), twice=twice, envelope="debezium")

    assert [(1, 0, False, 6), (1, 1, True, 8)] == [
        (offset, sub, upsert, twice) for offset, sub, upsert, _, twice in shown(made, "twice")
    ]
    assert {0: RejectCode.KEY_MISSING} == {at: code for at, (code, _) in refused(made).items()}


def test_what_is_computed_of_a_record_s_place_is_the_same_of_its_former_row() -> None:
    place = SqlExpression("cast(length(_kafka_topic) as bigint)", Struct(()), TWICE.spec_path)
    batch = batch_of(debezium("u", row(1), row(2)), debezium("d", row(2), None))
    made = changed(batch, ("twice", "id"), twice=place, envelope="debezium")

    assert () == made.rejects
    assert [(11, 1), (11, 2), (11, 2)] == [each[-2:] for each in shown(made, "twice", "id")]


@pytest.mark.parametrize("soft", [None, ("_is_deleted", "_deleted_at")])
def test_records_that_tell_no_former_row_delete_by_a_computed_key(soft: Any) -> None:
    batch = batch_of({"op": "I", **row(1)}, {"op": "D", "id": 1}, {"op": "I", **row(2)})
    keyed = KeyedOptions(("twice",), {"I": "upsert", "D": "delete"}, "op", soft=soft)
    columns = (Field("_is_deleted", Kind.BOOLEAN), Field("_deleted_at", Kind.TIMESTAMPTZ))
    made = convert_changes(
        batch,
        at=AT,
        lane=LANE,
        schema=Struct((*SCHEMA.fields, Field("op", Kind.STRING), *columns)),
        options=replace(OPTIONS, keyed=keyed),
        computed=ComputedColumns({"twice": TWICE}),
    )

    assert () == made.rejects
    assert [2, 2, 4] == made.changes.rows.column("twice").to_pylist()
    assert [True, soft is not None, True] == made.changes.upsert.tolist()
