"""Records of a keyed table give the changes that a slow reading of each record alone gives, however
they are cut into batches; what becomes of upserts is what becomes of appends.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.rows.schema.test_evolution import One

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.ports.registry import RegisteredSchema
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.changes import ChangeBatch, convert_changes
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.rows.route.filters import ComputedColumns, SqlExpression

AT = TopicPartition("id", 0, "orders")
MAP = {"I": "upsert", "U": "upsert", "D": "delete"}
LONG_MAX = (1 << 63) - 1

Members = list[tuple[str, str]]
"""An object as it is written: names and JSON texts, of which a name may occur twice."""


SOFT = ("gone", "gone_at")


class BadKeyError(Exception):
    """A record has no key that can be read."""


@dataclass(frozen=True)
class Table:
    """A table and the rules for its records."""

    schema: Schema
    options: RowOptions
    readers: ReaderCache = field(default_factory=ReaderCache)

    @property
    def keyed(self) -> KeyedOptions:
        assert self.options.keyed is not None
        return self.options.keyed


@dataclass(frozen=True)
class Record:
    """A record, and what a slow reading finds in it.

    `operation` is what it does: upsert, delete, or unknown; None where it is filtered or broken,
    which an append says as well. `image` is the row as members, `former` what it was.
    """

    value: bytes | None
    key: bytes | None
    operation: str | None
    image: Any = None
    former: Any = None
    is_partial: bool = False


def written(members: Any) -> str:
    if not isinstance(members, list):
        return json.dumps(members)
    return "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"


IDS = st.sampled_from(["1", "2", "3", '"2"', '"x"', "null", "true", str(LONG_MAX + 1), "[1]"])
FEW_IDS = st.sampled_from(["1", "2", "3", "1", "2", '"2"'])
PARTS = st.sampled_from(['"a"', '"b"', '"a"', '"\\u0061"', "null", "5"])
FEW_PARTS = st.sampled_from(['"a"', '"b"', '"\\u0061"'])
NAMES = st.sampled_from(['"Ann"', '"Bob"', '"Ann"', "null", "7", '{"deep":[1,{}]}'])
COUNTS = st.sampled_from(["1", '"2"', '"x"', "null", "1.5"])


@st.composite
def images(draw: st.DrawFn) -> Members:
    tidy = draw(st.integers(0, 3)) > 0
    parts = FEW_PARTS if tidy else PARTS
    members = [("id", draw(FEW_IDS if tidy else IDS)), ("part", draw(parts))]
    members.append(("name", '"Ann"' if tidy else draw(NAMES)))
    members += [("count", '"2"' if tidy else draw(COUNTS))] if draw(st.booleans()) else []
    if not tidy:
        members += draw(st.sampled_from([[], [], [], [("more", "1")], [("id", "1")]]))
        gone = draw(st.sampled_from(["", "", "", "id", "part", "name"]))
        members = [each for each in members if each[0] != gone]
    return members


def maybe(images: st.SearchStrategy[Members]) -> st.SearchStrategy[Any]:
    return st.one_of(images, images, images, images, st.none(), st.just(5), st.just("x"))


OPERATIONS = st.sampled_from([*["update"] * 5, "insert", "delete", "delete", "read", "other"])
KEYS = st.one_of(
    st.none(),
    images().map(lambda members: written(members).encode()),
    FEW_IDS.map(str.encode),
    st.sampled_from([b'"x"', b"null", b"{", b""]),
)


@st.composite
def records(draw: st.DrawFn, envelope: str) -> Record:
    key = draw(KEYS)
    if not draw(st.integers(0, 7)):
        return Record(None, key, None)
    if not draw(st.integers(0, 11)):
        return Record(draw(st.sampled_from([b"{", b"", b"5", b"[]", b"{}x"])), key, None)
    said, image = draw(OPERATIONS), draw(images())
    if envelope in ("none", "flattened"):
        name = {"none": "op", "flattened": "__op"}[envelope]
        letters = {"none": "IUURDX", "flattened": "cuurd?"}[envelope]
        names = ["insert", "update", "update", "read", "delete", "other"]
        letter = dict(zip(names, letters, strict=True))[said]
        if envelope == "none":
            done = {"I": "upsert", "U": "upsert", "D": "delete"}.get(letter, "unknown")
        else:
            done = {"d": "delete", "?": "unknown"}.get(letter, "upsert")
        mark = draw(st.sampled_from(["op", "op", "op", "mark", "nothing"]))
        if mark == "op":
            return Record(written([*image, (name, json.dumps(letter))]).encode(), key, done, image)
        if mark == "mark" and envelope == "flattened":
            gone = draw(st.sampled_from(['"true"', '"false"', "true"]))
            done = "delete" if "true" in gone else "upsert"
            return Record(written([*image, ("__deleted", gone)]).encode(), key, done, image)
        done = "upsert" if envelope == "flattened" else "unknown"
        return Record(written(image).encode(), key, done, image)
    other = draw(maybe(images()))
    if not draw(st.integers(0, 3)) and isinstance(other, list):
        other = [*((n, t) for n, t in other if n != "id"), *((n, t) for n, t in image if n == "id")]
    row = draw(st.sampled_from([image] * 9 + [None]))
    done = {"delete": "delete", "other": "unknown"}.get(said, "upsert")
    if envelope == "debezium":
        op = {"insert": "c", "update": "u", "delete": "d", "read": "r", "other": "?"}[said]
        before, after = (row, None) if said == "delete" else (other, row)
        event = {"before": written(before), "after": written(after), "op": json.dumps(op)}
        former = before if said == "update" else None
    else:
        kind = {"read": "bootstrap-insert"}.get(said, said)
        many = envelope == "canal"
        kind = {"bootstrap-insert": "insert"}.get(kind, kind).upper() if many else kind
        if isinstance(other, list):
            other = [each for each in other if draw(st.booleans())]
        event = {"type": json.dumps(kind)}
        event["data"] = f"[{written(row)}]" if many and row is not None else written(row)
        old = written(other)
        event["old"] = f"[{old}]" if many and other is not None else old
        former = other if said == "update" else None
    value = "{" + ",".join(f'"{name}":{text}' for name, text in event.items()) + "}"
    return Record(value.encode(), key, done, row, former, envelope != "debezium")


@st.composite
def tables(draw: st.DrawFn, envelope: str) -> Table:
    keys = draw(st.sampled_from([("id",), ("part", "id")]))
    has_column = draw(st.booleans())
    fields = [
        Field("id", Kind.LONG, required=draw(st.booleans())),
        Field("part", Kind.STRING),
        Field("name", Kind.STRING, required=draw(st.booleans())),
        Field("count", Kind.LONG),
        Field("_kafka_offset", Kind.LONG),
    ]
    changes: dict[str, str] = {}
    operation = None
    if envelope == "flattened":
        fields += [Field("__op", Kind.STRING), Field("__deleted", Kind.STRING)]
    if envelope == "none":
        fields += [Field("op", Kind.STRING)] if has_column else []
        operation = "op"
    elif has_column:
        fields.append(Field("_change_operation", Kind.STRING))
        changes = {"operation": "_change_operation"}
    keyed = KeyedOptions(
        keys,
        MAP if operation else {},  # type: ignore[arg-type]
        operation_field=operation,
        ignores_deletes=not draw(st.integers(0, 4)),
    )
    if not keyed.ignores_deletes and draw(st.booleans()):
        keyed = replace(keyed, soft=SOFT)
        fields += [Field(SOFT[0], Kind.BOOLEAN), Field(SOFT[1], Kind.TIMESTAMPTZ)]
    options = RowOptions(
        {"offset": "_kafka_offset"},
        columns=draw(st.sampled_from(["quarantine", "drop_value"])),
        types=draw(st.sampled_from(["quarantine", "drop_value"])),
        tombstones=draw(st.sampled_from(["skip", "quarantine", "delete"])),
        envelope=envelope,  # type: ignore[arg-type]
        key_format="json",
        change_columns=changes,
        keyed=keyed,
    )
    return Table(Struct(tuple(fields)), options)


def members_of(image: Any) -> dict[str, Any]:
    """Read an image strictly."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise BadKeyError
        return dict(pairs)

    try:
        found = json.loads(
            image if isinstance(image, bytes) else written(image), object_pairs_hook=unique
        )
    except ValueError as error:
        raise BadKeyError from error
    if not isinstance(found, dict):
        raise BadKeyError
    return found


def key_value(name: str, value: Any) -> Any:
    if name == "part":
        if not isinstance(value, str):
            raise BadKeyError
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadKeyError
    try:
        number = int(value)
    except ValueError as error:
        raise BadKeyError from error
    if number > LONG_MAX:
        raise BadKeyError
    return number


def key_of(image: dict[str, Any], table: Table) -> dict[str, Any]:
    return {name: key_value(name, image.get(name)) for name in table.keyed.keys}


def former_of(record: Record, table: Table) -> dict[str, Any] | None:
    """Read the key that an update changes."""
    if record.former is None:
        return None
    if not isinstance(record.former, list):
        raise BadKeyError
    was, now = dict(record.former), dict(record.image)
    if record.is_partial:
        was = {**{n: t for n, t in now.items() if n in table.keyed.keys}, **was}
    texts = [(was.get(name), now.get(name)) for name in table.keyed.keys]
    if all(a == b for a, b in texts):
        return None
    members_of(record.former)
    if any(a in (None, "null") for a, _ in texts):
        return None
    own = {
        name: json.loads(text)
        for name, (text, _) in zip(table.keyed.keys, texts, strict=True)
        if text
    }
    former, key = key_of(own, table), key_of(members_of(record.image), table)
    return None if former == key else former


def appended(record: Record, table: Table) -> tuple[dict[str, Any] | None, str]:
    """Say what an append makes of a record alone: its row, or why there is none."""
    options = replace(table.options, keyed=None, tombstones="skip", key_format="bytes")
    fields = tuple(each for each in table.schema.fields if each.name not in SOFT)
    if table.options.envelope == "none" and table.schema.field("op") is None:
        fields = (*fields, Field("op", Kind.STRING))
    batch = batch_of([record])
    made = convert_batch(
        batch, at=AT, schema=Struct(fields), options=options, readers=table.readers
    )
    if made.rejects:
        return None, "rejected"
    if made.filtered:
        return None, next(iter(made.filtered))
    [row] = made.rows.to_pylist()
    flag = {SOFT[0]: False} if table.keyed.soft else {}
    return {**{name: row[name] for name in table.schema.names if name not in SOFT}, **flag}, ""


def gone(row: dict[str, Any], table: Table) -> dict[str, Any]:
    """Return a row of a deleted key: what is known of it, with the flag."""
    if not table.keyed.soft:
        return row
    if any(each.required and each.name not in row for each in table.schema.fields):
        raise BadKeyError
    names = (name for name in table.schema.names if name != SOFT[1])
    return {**dict.fromkeys(names), **row, SOFT[0]: True}


def expected_of(record: Record, table: Table) -> tuple[list[Any], str]:
    """Read one record slowly: its changes, and why it makes none."""
    keyed, options = table.keyed, table.options
    deletes = "delete" if keyed.ignores_deletes else ""
    if record.value is None:
        if options.tombstones != "delete":
            return [], "tombstone" if options.tombstones == "skip" else "rejected"
        return ([], deletes) if deletes else tombstone(record, table)
    row, why = appended(record, table)
    try:
        match record.operation:
            case None | "unknown":
                return [], why or "rejected"
            case "delete":
                if record.image is None:
                    return [], "rejected"
                image = members_of(record.image)
                if deletes:
                    return [], deletes
                key = key_of(image, table)
                if table.keyed.soft:
                    return ([("delete", gone(row, table))], "") if row is not None else ([], why)
                return [("delete", key)], ""
            case _ if row is None:
                return [], why
            case _:
                key_of(members_of(record.image), table)
                former = former_of(record, table)
                before = [("former", gone(former, table))] if former else []
                return [*before, ("upsert", row)], ""
    except BadKeyError:
        return [], "rejected"


def tombstone(record: Record, table: Table) -> tuple[list[Any], str]:
    if record.key is None:
        return [], "rejected"
    try:
        if not record.key.startswith(b"{") and len(table.keyed.keys) == 1:
            image = {table.keyed.keys[0]: json.loads(record.key)}
        else:
            image = members_of(record.key)
        return [("delete", gone(key_of(image, table), table))], ""
    except (BadKeyError, ValueError):
        return [], "rejected"


def batch_of(given_records: list[Record]) -> pa.RecordBatch:
    count = len(given_records)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("ms", "UTC")),
            "key": pa.array([each.key for each in given_records], pa.binary()),
            "value": pa.array([each.value for each in given_records], pa.binary()),
        }
    )


def shown(made: ChangeBatch, keys: tuple[str, ...]) -> Iterator[tuple[int, int, str, Any]]:
    changes = made.changes
    for place, row in enumerate(changes.rows.to_pylist()):
        upsert, counts = bool(changes.upsert[place]), bool(changes.counts[place])
        if SOFT[0] in row:
            assert upsert
            assert row[SOFT[0]] == (row.pop(SOFT[1]) is not None)
            upsert = not row[SOFT[0]]
            kind = "upsert" if upsert else "delete" if counts else "former"
            yield int(changes.offset[place]), int(changes.sub[place]), kind, without_offset(row)
            continue
        kind = "upsert" if upsert else "delete" if counts else "former"
        assert upsert or {None} >= {row[name] for name in row if name not in keys}
        held = row if upsert else {name: row[name] for name in keys}
        yield int(changes.offset[place]), int(changes.sub[place]), kind, without_offset(held)


def without_offset(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "_kafka_offset"}


def check(given_records: list[Record], table: Table, cuts: list[int]) -> None:
    batch = batch_of(given_records)
    parts = [
        convert_changes(
            batch.slice(start, stop - start),
            at=AT,
            lane=0,
            schema=table.schema,
            options=table.options,
            readers=table.readers,
        )
        for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True)
    ]
    slow = [expected_of(record, table) for record in given_records]
    changes = [
        (place, sub, kind, without_offset(row))
        for place, (mine, _) in enumerate(slow)
        for sub, (kind, row) in enumerate(mine)
    ]
    filtered = sum((Counter(part.filtered) for part in parts), Counter[str]())

    assert changes == [each for part in parts for each in shown(part, table.keyed.keys)]
    assert [place for place, (_, why) in enumerate(slow) if why == "rejected"] == [
        each.offset for part in parts for each in part.rejects
    ]
    assert Counter(why for _, why in slow if why not in ("", "rejected")) == filtered


@settings(max_examples=120)
@given(st.sampled_from(["debezium", "maxwell", "canal", "flattened", "none"]), st.data())
def test_changes_are_those_of_a_slow_reading_of_each_record(
    envelope: str, data: st.DataObject
) -> None:
    table = data.draw(tables(envelope))
    given_records = data.draw(st.lists(records(envelope), min_size=1, max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given_records)), max_size=2)))

    check(given_records, table, cuts)


def row_type(id_type: str) -> dict[str, Any]:
    types = {"id": id_type, "part": "string", "name": "string", "count": "long"}
    fields = [{"name": name, "type": ["null", type_]} for name, type_ in types.items()]
    return {"type": "record", "name": "Row", "fields": fields}


def event_type(id_type: str) -> dict[str, Any]:
    fields = [
        {"name": "before", "type": ["null", row_type(id_type)]},
        {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Event", "fields": fields}


@st.composite
def avro_records(draw: st.DrawFn, id_type: str) -> Record:
    numbers: list[Any] = [1, 2, 3, 1, 2, None]
    ids = st.sampled_from(numbers if id_type == "long" else ["1", "2", "3", "x"])
    rows = st.fixed_dictionaries(
        {
            "id": ids,
            "part": st.sampled_from(["a", "b", "a", None]),
            "name": st.sampled_from(["Ann", "Ann", "Bob", None]),
            "count": st.sampled_from([1, None]),
        }
    )
    maybe_rows = st.one_of(rows, rows, rows, rows, st.none())
    op, key = draw(st.sampled_from("uuuucdr?")), draw(KEYS)
    if not draw(st.integers(0, 7)):
        return Record(None, key, None)
    before, after = draw(maybe_rows), draw(maybe_rows)
    out = io.BytesIO()
    event = {"before": before, "after": after, "op": op}
    fastavro.schemaless_writer(out, fastavro.parse_schema(event_type(id_type)), event)
    done = {"d": "delete", "?": "unknown"}.get(op, "upsert")
    image = as_members(before if op == "d" else after)
    former = as_members(before) if op == "u" else None
    return Record(b"\x00\x00\x00\x00\x01" + out.getvalue(), key, done, image, former)


def as_members(row: dict[str, Any] | None) -> Members | None:
    return None if row is None else [(name, json.dumps(each)) for name, each in row.items()]


@settings(max_examples=80)
@given(st.sampled_from(["long", "string"]), st.data())
def test_changes_of_avro_s_events_are_those_of_a_slow_reading(
    id_type: str, data: st.DataObject
) -> None:
    schema = RegisteredSchema("avro", json.dumps(event_type(id_type)))
    table = data.draw(tables("debezium"))
    options = replace(table.options, format="avro")
    table = Table(table.schema, options, ReaderCache(One(schema)))
    given_records = data.draw(st.lists(avro_records(id_type), min_size=1, max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given_records)), max_size=2)))

    check(given_records, table, cuts)


def converted(batch: pa.RecordBatch, table: Table, computed: ComputedColumns) -> ChangeBatch:
    return convert_changes(
        batch,
        at=AT,
        lane=0,
        schema=table.schema,
        options=table.options,
        readers=table.readers,
        computed=computed,
    )


@settings(max_examples=60)
@given(st.sampled_from(["debezium", "maxwell", "canal", "flattened", "none"]), st.data())
def test_a_computed_key_changes_as_the_column_does_that_it_is_computed_of(
    envelope: str, data: st.DataObject
) -> None:
    table = data.draw(tables(envelope))
    same = SqlExpression("id", Struct((Field("id", Kind.LONG),)), "same")
    others = table.schema.fields[1:]  # a row of a key alone has null in the column
    schema = Struct((Field("id", Kind.LONG), *others, Field("same", Kind.LONG)))
    table = replace(table, schema=schema, options=replace(table.options, tombstones="skip"))
    keys = tuple("same" if name == "id" else name for name in table.keyed.keys)
    keyed = replace(table.options, keyed=replace(table.keyed, keys=keys))
    batch = batch_of(data.draw(st.lists(records(envelope), min_size=1, max_size=12)))
    computed = ComputedColumns({"same": same})
    plain = converted(batch, table, computed)
    made = converted(batch, replace(table, options=keyed), computed)

    def told(changes: ChangeBatch, keys: tuple[str, ...]) -> list[Any]:
        found = changes.changes
        columns = (found.rows.column(name).to_pylist() for name in keys)
        books = (found.offset, found.sub, found.upsert, found.counts)
        return list(zip(*(each.tolist() for each in books), *columns, strict=True))

    assert told(plain, table.keyed.keys) == told(made, keys)
    assert [each.offset for each in plain.rejects] == [each.offset for each in made.rejects]
    assert plain.filtered == made.filtered
