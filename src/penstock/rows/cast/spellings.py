"""Fields that are spelled otherwise than their columns, where `case_sensitive: false` lets them be,
or that have another name of theirs in the table's name mapping (`match: name_mapping`).

Theory of operation: the records of a block are mostly spelled alike. The block is read with the
schema as its first records spell it; a record that is spelled otherwise fails it, is read alone,
and is respelled field by field. Records of a format with types are spelled by their schema, so the
columns of a block are renamed (`respelled`).

Invariants:
- two fields of one object that are one column reject the record, whatever they hold;
- keys of maps are data and stay as they are;
- where fields are spelled as their columns are nothing here is asked (`RowOptions.is_exact`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.core.column_paths import joined_path
from penstock.core.errors import InvalidError
from penstock.core.names import folded
from penstock.core.schema import Field, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import walk
from penstock.rows.decode.format_reader import DecodedBlock, FormatReader
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

_SAMPLE = 64
_TWICE = {
    False: "two fields are this column where case does not count",
    True: "two fields are this column by the table's name mapping",
}


def require_distinct(schema: Schema, table: str) -> None:
    """Raise InvalidError (P435) when columns of a table differ in case only."""
    for path, each in walk(schema):
        seen: dict[str, str] = {}
        for name in each.names if isinstance(each, Struct) else ():
            other = seen.setdefault(folded(name), name)
            if other is not name:
                raise InvalidError(
                    f"{table} has the columns {joined_path(path, other)} and {name}, which are the"
                    " same where case does not count",
                    code="P435",
                    hint="remove  case_sensitive: false  from its rule, or rename one of them",
                )


def require_one_column(
    names: Mapping[str, Mapping[str, Sequence[str]]], table: str
) -> dict[str, dict[str, str]]:
    """Return the one column of each name in each struct. Raises InvalidError (P435): several."""
    for path, columns in names.items():
        for name, several in columns.items():
            if len(several) > 1:
                columns_there = " and ".join(joined_path(path, each) for each in several)
                raise InvalidError(
                    f"{table} has the columns {columns_there}, which are all called {name} by its"
                    " name mapping",
                    code="P435",
                    hint="take the name from one of them in  schema.name-mapping.default",
                )
    return {path: {n: c[0] for n, c in columns.items()} for path, columns in names.items()}


def normalized(
    record: dict[str, Any], schema: Schema, options: RowOptions, path: str = ""
) -> dict[str, Any]:
    """Return a record, or the object at a path of it, with the names of its columns.

    Raises RejectError of stage convert when two fields are one column.
    """
    columns = {options.spelling(path, field.name): field for field in schema.fields}
    found: dict[str, Any] = {}
    for name, member in record.items():
        field = columns.get(options.spelling(path, name))
        if field is None:
            found[name] = member
            continue
        place = joined_path(path, field.name)
        if field.name in found:
            raise RejectError(RejectCode.DUPLICATE_KEY, _TWICE[options.case_sensitive], place)
        found[field.name] = _value(member, field.type, options, place)
    return found


def schema_as_spelled(values: pa.BinaryArray, schema: Schema, options: RowOptions) -> Schema:
    """Return the schema as the first records of a block spell it."""
    found = schema
    for value in values[:_SAMPLE].to_pylist():
        try:
            record = parse_object(value, depth_max=options.depth_max)
            normalized(record, schema, options)
        except RejectError:
            continue
        found = _struct_as_in(record, found, schema, options, "")
    return found


def spelled_as(shown: Schema, schema: Schema, options: RowOptions, path: str = "") -> Schema:
    """Return the schema that records show with the names of the columns they land in."""
    if options.is_exact:
        return shown
    columns = {options.spelling(path, field.name): field for field in schema.fields}
    fields = []
    for field in shown.fields:
        column = columns.get(options.spelling(path, field.name), field)
        place = joined_path(path, column.name)
        type_ = _type_spelled_as(field.type, column.type, options, place)
        fields.append(Field(column.name, type_, field.required))
    return Struct(tuple(fields))


def _type_spelled_as(shown: Type, own: Type, options: RowOptions, path: str) -> Type:
    match shown, own:
        case Struct(), Struct():
            return spelled_as(shown, own, options, path)
        case List(element, required), List(its):
            return List(_type_spelled_as(element, its, options, f"{path}[]"), required)
        case Map(key, value, required), Map(_, its):
            return Map(key, _type_spelled_as(value, its, options, f"{path}{{}}"), required)
        case _:
            return shown


def respelled(reader: FormatReader, schema: Schema, options: RowOptions) -> FormatReader:
    """Return a reader of records with the names of the columns that they land in.

    A schema that has two fields for one column has no blocks: `record` rejects each of its records.
    """
    if options.is_exact:
        return reader

    def block(values: pa.BinaryArray) -> DecodedBlock:
        decoded = reader.block(values)
        return replace(decoded, array=_array_as(decoded.array, schema, options, ""))

    def record(value: bytes) -> dict[str, Any]:
        return normalized(reader.record(value), schema, options)

    return FormatReader(spelled_as(reader.type, schema, options), block, record)


def _array_as(array: pa.Array, own: Type, options: RowOptions, path: str) -> pa.Array:
    """Return an array whose structs have the names of columns.

    Raises ArrowInvalid: two fields are one column.
    """
    kind = array.type
    mask = array.is_null()
    if isinstance(own, Struct) and pa.types.is_struct(kind):
        columns = {options.spelling(path, field.name): field for field in own.fields}
        members, names = [], []
        for name, member in zip(kind.names, array.flatten(), strict=True):
            column = columns.get(options.spelling(path, name))
            if column is not None:
                place = joined_path(path, column.name)
                member = _array_as(member, column.type, options, place)  # noqa: PLW2901
            members.append(member)
            names.append(name if column is None else column.name)
        if len({*names}) < len(names):
            raise pa.ArrowInvalid(_TWICE[options.case_sensitive])
        return pa.StructArray.from_arrays(members, names, mask=mask)
    if isinstance(own, List) and pa.types.is_list(kind):
        whole = pa.concat_arrays([array])
        items = _array_as(whole.values, own.element, options, f"{path}[]")
        return pa.ListArray.from_arrays(whole.offsets, items, mask=mask)
    if isinstance(own, Map) and pa.types.is_map(kind):
        whole = pa.concat_arrays([array])
        items = _array_as(whole.items, own.value, options, f"{path}{{}}")
        return pa.MapArray.from_arrays(whole.offsets, whole.keys, items, mask=mask)
    return array


def _value(value: Any, type_: Type, options: RowOptions, path: str) -> Any:
    match value, type_:
        case dict(), Struct():
            return normalized(value, type_, options, path)
        case dict(), Map(_, inner):
            below = f"{path}{{}}"
            return {key: _value(member, inner, options, below) for key, member in value.items()}
        case list(), List(element):
            return [_value(member, element, options, f"{path}[]") for member in value]
        case _:
            return value


def _struct_as_in(
    value: dict[str, Any], found: Struct, own: Struct, options: RowOptions, path: str
) -> Struct:
    """Take over a record's spelling of columns that are not spelled otherwise yet."""
    names = {options.spelling(path, name): name for name in value}
    fields = []
    for now, column in zip(found.fields, own.fields, strict=True):
        name = names.get(options.spelling(path, column.name), now.name)
        kept = now.name if now.name != column.name else name
        place = joined_path(path, column.name)
        type_ = _type_as_in(value.get(name), now.type, column.type, options, place)
        fields.append(Field(kept, type_, now.required))
    return Struct(tuple(fields))


def _type_as_in(value: Any, found: Type, own: Type, options: RowOptions, path: str) -> Type:
    match value, found, own:
        case dict(), Struct(), Struct():
            return _struct_as_in(value, found, own, options, path)
        case [dict() as first, *_], List(Struct() as now, required), List(Struct() as element):
            return List(_struct_as_in(first, now, element, options, f"{path}[]"), required)
        case _:
            return found
