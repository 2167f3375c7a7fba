"""What must agree within a rule of a keyed table: its keys, what records say, what it cannot have.

Invariant: a setting that a rule has no use for is refused, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from penstock.core.key_columns import is_inexact, is_nested
from penstock.core.names import folded
from penstock.core.schema import Kind, List, Map, Type
from penstock.spec.language.expressions import expression, fields_of
from penstock.spec.language.notation import PLACEHOLDER, MalformedError
from penstock.spec.problems import KeyPath, Problem, listed, shown
from penstock.spec.settings.records import Records
from penstock.spec.settings.table import Table, type_of

OF_KEYED = (
    "keys",
    "operation",
    "deletes",
    "soft",
    "truncates",
    "across_partitions",
    "sequence_by",
    "row_deletes",
    "rewrite_bytes_max",
)
COORDINATES = ("topic", "partition", "offset")
_OWN = ("_kafka_", "_change_", "_rescued")
_MESSAGE_KEY = "_kafka_key"
_OF_A_KEY = frozenset({"_kafka_topic", _MESSAGE_KEY})
_WITH_PLACEHOLDERS = frozenset({"debezium", "flattened"})
_IMAGES = frozenset({"after", "before", "payload", "data", "value"})
_LENIENT = frozenset({"drop_value", "rescue"})
_VECTORS = "delta.enableDeletionVectors"
_WITHOUT_DELETES = {
    "format-version": "1",
    _VECTORS: "false",
    "delta.appendOnly": "true",
    "delta.enableChangeDataFeed": "true",
}
"""Properties with the values by which no row of a table can be deleted."""
_OF_ICEBERG = "_deleted"
"""A column that Iceberg's readers have of themselves; no table of theirs may have another one."""
_SOFT = "soft: { flag: _is_deleted, at: _deleted_at }"
_EXAMPLE = "operation: { field: op, map: { I: insert, U: update, D: delete } }"


def check_keyed(at: KeyPath, table: Table, shared: Records) -> Iterator[Problem]:
    """Find what does not agree in one rule; `shared` are the records of the whole spec."""
    if not table.is_keyed:
        yield from _check_append(at, table)
        return
    yield from _check_keys(at, table, table.records_by(shared))
    yield from _check_operation(at, table, table.records_by(shared))
    yield from _check_tombstones(at, table, shared)
    yield from _check_soft(at, table)
    yield from _check_sequence(at, table, shared)
    yield from _check_target(at, table)
    yield from _check_row_deletes(at, table)
    yield from _check_condition(at, table)
    yield from _check_placeholders(at, table, table.records_by(shared))


def _check_append(at: KeyPath, table: Table) -> Iterator[Problem]:
    for name in OF_KEYED:
        if name in table.model_fields_set:
            fact = f"'{name}' is of keyed tables, and mode: append keeps each record as a row"
            hint = "write  mode: cdc  or  mode: upsert, or remove it"
            yield Problem((*at, name), "P197", fact, hint, on_key=True)
    if table.tombstones == "delete":
        fact = "with mode: append a record without a value has no row to delete"
        hint = "write  tombstones: skip, or  mode: upsert  with keys"
        yield Problem((*at, "tombstones"), "P197", fact, hint)


def _check_keys(at: KeyPath, table: Table, records: Records) -> Iterator[Problem]:
    enveloped = records.envelope != "none"
    if not table.keys:
        fact = f"mode: {table.mode} needs 'keys': the columns that say which row a record changes"
        yield Problem((*at, "mode"), "P194", fact, "add  keys: [id]")
    types = _types(table)
    for number, name in enumerate(table.keys):
        fact, hint = _no_key(name, table, types, enveloped=enveloped)
        if fact:
            fact = f"{shown(name)} cannot be a column of the key: it {fact}"
            yield Problem((*at, "keys", number), "P195", fact, hint)


def _no_key(
    name: str, table: Table, types: Mapping[str, Type], *, enveloped: bool
) -> tuple[str, str]:
    """Return why a column cannot be of a key, and what to do; nothing where it can."""
    type_ = types.get(name)
    if table.mode == "cdc" and name in _filled(table):
        hint = "compute it under transform.columns"
        return "is filled by a function, which is not called for deletes", hint
    if name == _MESSAGE_KEY:
        hint = "write  source_columns: [topic, partition, offset, key]"
        return ("", "") if "key" in table.source_columns else ("is not among source_columns", hint)
    if name.startswith(_OWN):
        return "says where a record was, and not which row it means", "write columns of the record"
    parent, dot, member = name.partition(".")
    if dot and parent in _IMAGES and enveloped:
        return "is what the envelope holds, and its row is the record", f"write  {member}"
    if dot:
        hint = "compute a column of it under transform.columns, and write that"
        return "is a member of an object, and a key is of columns", hint
    return _not_exact(type_)


def _filled(table: Table) -> Collection[str]:
    """Return the columns that a function fills."""
    function = table.transform.function if table.transform else None
    return function.columns if function else ()


def _types(table: Table) -> dict[str, Type]:
    """Return the types of columns as far as the spec says them."""
    fields = fields_of(table.schema_.hint_types())
    found = {field.name: field.type for field in fields.fields}
    for name in table.schema_.hints:
        for sign, type_ in (("[]", List(Kind.UNKNOWN)), ("{}", Map(Kind.STRING, Kind.UNKNOWN))):
            if sign in name:
                found.setdefault(name.partition(sign)[0], type_)
    if table.transform is not None:
        for name, text in table.transform.columns.items():
            with suppress(MalformedError):  # which its own check reports
                found[name] = type_of(text, fields)
        found |= table.transform.function.types() if table.transform.function else {}
    return found


def _check_operation(at: KeyPath, table: Table, records: Records) -> Iterator[Problem]:
    operation, enveloped = table.operation, records.envelope != "none"
    if table.mode == "upsert" and enveloped:
        fact = f"a record's envelope {records.envelope} says more than that its row is to be put"
        yield Problem((*at, "mode"), "P196", fact, "write  mode: cdc")
    elif table.mode == "cdc" and operation is None and not enveloped:
        fact = "records without an envelope do not say what they do to a row"
        hint = f"add  {_EXAMPLE}, or records.envelope, or write  mode: upsert"
        yield Problem((*at, "mode"), "P196", fact, hint)
    if operation is None:
        return
    path = (*at, "operation")
    if table.mode == "upsert":
        fact = "with mode: upsert every record with a value puts its row"
        yield Problem(path, "P196", fact, "write  mode: cdc, or remove it", on_key=True)
    elif enveloped:
        fact = f"the envelope {records.envelope} says it already"
        yield Problem(path, "P196", fact, "remove it", on_key=True)
    if (operation.field is None) == (operation.header is None):
        fact = "an operation is in a field or in a header"
        yield Problem(path, "P196", fact, "write one of  field: op  and  header: op", on_key=True)


def _check_tombstones(at: KeyPath, table: Table, shared: Records) -> Iterator[Problem]:
    if table.tombstones_by(shared) != "delete":
        return
    named = [name for name in table.keys if name not in {_MESSAGE_KEY, *table.header_columns}]
    key_format, path = table.records_by(shared).key_format, (*at, "tombstones")
    looked_at = expression(table.where).columns if table.where is not None else ()
    if any(not name.startswith("_kafka_") for name in looked_at):
        fact = "a tombstone deletes the row of its key, and has no field for where to look at"
        hint = "write  tombstones: skip, or use _kafka_key and _kafka_headers alone"
        yield Problem((*at, "where"), "P199", fact, hint)
    computed = {*(table.transform.columns if table.transform else ()), *_filled(table)}
    if computed & {*table.keys}:
        names = listed(sorted(computed & {*table.keys}))
        fact = f"a tombstone deletes the row of its key, and has no field to compute {names} of"
        yield Problem(path, "P199", fact, "write  tombstones: skip  or quarantine", on_key=True)
    elif key_format == "bytes" and named:
        fact = "a tombstone deletes the row of its key, and keys are of format bytes"
        hint = "write  records: { key_format: json }, or  tombstones: skip"
        yield Problem(path, "P199", fact, hint, on_key=True)
    elif key_format == "text" and len(named) > 1:
        fact = (
            f"a tombstone deletes the row of its key, and a text does not hold {len(named)} columns"
        )
        yield Problem(path, "P199", fact, "write  tombstones: skip  or quarantine", on_key=True)


def _check_soft(at: KeyPath, table: Table) -> Iterator[Problem]:
    if table.soft is not None and table.deletes != "soft":
        fact = f"with deletes: {table.deletes} no row says that it was deleted"
        yield Problem(
            (*at, "soft"), "P260", fact, "write  deletes: soft, or remove it", on_key=True
        )
        return
    names = table.soft_columns or ()
    others = {*table.keys, *_types(table), *table.header_columns}
    path = (*at, "soft") if table.soft is not None else (*at, "deletes")
    for name in dict.fromkeys(names):
        if "." in name or name.startswith(_OWN) or folded(name) == _OF_ICEBERG:
            fact = f"{shown(name)} cannot be the column of a deleted row's flag or time"
            yield Problem(path, "P260", fact, f"write another name of letters and _: {_SOFT}")
        elif name in others or names.count(name) > 1:
            fact = f"{shown(name)} says of a row that it was deleted, and is another column as well"
            yield Problem(path, "P260", fact, "write another name, as in  soft: { flag: gone }")


def _check_sequence(at: KeyPath, table: Table, shared: Records) -> Iterator[Problem]:
    if table.sequence_by and table.deletes == "hard":
        fact = (
            "deletes: hard forgets the sequence of a delete, and an earlier change that comes later"
            " would bring the row back"
        )
        hint = "write  deletes: soft, and a view that hides deleted rows; or  deletes: ignore"
        yield Problem((*at, "sequence_by"), "P261", fact, hint, on_key=True)
    inside = [name for name in table.sequence_by if not _is_beside_value(name, table)]
    if inside and table.deletes == "soft" and table.tombstones_by(shared) == "delete":
        fact = f"a record without a value has no {listed(inside)}, and is quarantined (P375)"
        hint = "write  [_kafka_timestamp], or one of header_columns; or  tombstones: skip"
        yield Problem((*at, "sequence_by"), "P156", fact, hint, "warning", on_key=True)
    types = _types(table)
    for number, name in enumerate(table.sequence_by):
        fact, hint = _no_sequence(name, table, types.get(name))
        if fact:
            fact = f"{shown(name)} cannot say which change is the later one: it {fact}"
            yield Problem((*at, "sequence_by", number), "P262", fact, hint)


def _is_beside_value(name: str, table: Table) -> bool:
    return name.startswith("_kafka_") or name in table.header_columns


def _no_sequence(name: str, table: Table, type_: Type | None) -> tuple[str, str]:
    """Return why a column cannot be of a sequence, and what to do; nothing where it can."""
    if "." in name:
        hint = "compute a column of it under transform.columns, and write that"
        return "is a member of an object", hint
    if name in table.keys:
        return "is of the key, and the same in all changes of a row", "remove it"
    if name in (table.soft_columns or ()):
        return "says that a row was deleted", "remove it"
    if name in _filled(table):
        hint = "compute it under transform.columns"
        return "is filled by a function, which is not called for all changes", hint
    return _not_exact(type_)


def _not_exact(type_: Type | None) -> tuple[str, str]:
    """Return why values of a type cannot be compared, and what to do; nothing where they can."""
    if type_ is not None and is_inexact(type_):
        hint = "declare it as long, decimal(p,s) or string under schema.hints"
        return f"is a {type_}: no two of them are surely equal", hint
    if type_ is not None and is_nested(type_):
        return "holds several values", "write a column of one value"
    return "", ""


def _check_target(at: KeyPath, table: Table) -> Iterator[Problem]:
    if table.route:
        fact = "a rule with keys leads to one table"
        hint = "write a rule with its own where for each table"
        yield Problem((*at, "route"), "P198", fact, hint, on_key=True)
    elif PLACEHOLDER.search(table.into):
        fact = "a rule with keys leads to one table"
        yield Problem((*at, "into"), "P198", fact, "write a rule for each topic")
    missing = [name for name in COORDINATES if name not in table.source_columns]
    if missing:
        fact = f"which change is the later one is said by a row's {listed(missing)}"
        hint = "write  source_columns: [topic, partition, offset]"
        yield Problem((*at, "source_columns"), "P198", fact, hint)
    if table.identifier_fields and {*table.identifier_fields} != {*table.keys}:
        fact = "the keys identify a row, and these are other columns"
        hint = "remove it: identifier fields are the keys by themselves"
        yield Problem((*at, "identifier_fields"), "P198", fact, hint)
    if table.write.sort == "at_write":
        fact = "files of a keyed table are sorted by its keys as they land"
        yield Problem((*at, "write", "sort"), "P198", fact, "remove it")
    for name, value in table.properties.items():
        needless = name == _VECTORS and table.row_deletes == "rewrite"
        if value.lower() == _WITHOUT_DELETES.get(name) and not needless:
            fact = f"{name}: {value} keeps the table from having rows replaced and deleted"
            yield Problem((*at, "properties", name), "P198", fact, "remove it")


def _check_row_deletes(at: KeyPath, table: Table) -> Iterator[Problem]:
    if "rewrite_bytes_max" in table.model_fields_set and table.row_deletes != "rewrite":
        fact = f"with row_deletes: {table.row_deletes} no file is written again"
        hint = "write  row_deletes: rewrite, or remove it"
        yield Problem((*at, "rewrite_bytes_max"), "P266", fact, hint, on_key=True)


def _check_condition(at: KeyPath, table: Table) -> Iterator[Problem]:
    """Warn of conditions that two changes of a row may meet differently, or a delete does not."""
    if table.where is None:
        return
    by_key = {*table.keys, *_OF_A_KEY}
    others = [name for name in expression(table.where).columns if name not in by_key]
    if others:
        fact = (
            f"a change or delete that this leaves out changes no row, and {listed(others)} may vary"
        )
        hint = "use fields of keys alone, unless it is the same for all changes of a row"
        yield Problem((*at, "where"), "P156", fact, hint, "warning")


def _check_placeholders(at: KeyPath, table: Table, records: Records) -> Iterator[Problem]:
    types = table.schema_.types
    if records.envelope in _WITH_PLACEHOLDERS and types in _LENIENT:
        fact = f"{types} lands null over a value that a change left out (unavailable_value)"
        hint = "write  types: quarantine, unless the source's events hold whole rows"
        yield Problem((*at, "schema", "types"), "P156", fact, hint, "warning")
