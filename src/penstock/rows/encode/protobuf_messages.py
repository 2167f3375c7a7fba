"""Columns become Protobuf's wire format, column by column, at any depth.

Invariants:
- a message read again by its schema is the value that the row has: a value is written exactly, or
  is a misfit of its row, with the path of its column;
- what a schema has and a column cannot give is found before any row is looked at;
- bytes depend on a value alone, not on the rows around it.

A field that has no presence is written also where its value is zero: readers take it for the same.
A list or map that is null, and an item that is, are misfits: on the wire they would be nothing.

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import list_array, validity_of
from penstock.rows.encode.datums import (
    Datums,
    found_in,
    nulled,
    of_members,
    sized,
    unsigned_varints,
)
from penstock.rows.encode.json_texts import Column, is_list
from penstock.rows.encode.nesting import (
    IS_NULL,
    Cause,
    Misfits,
    as_lists,
    lengths_of_lists,
    of_lists,
)
from penstock.rows.encode.protobuf_scalars import PACKED, WIRE_TYPES, scalars
from penstock.rows.encode.protobuf_schema import Tree
from penstock.rows.encode.rules import MessageSchema
from penstock.rows.reject_codes import RejectCode

_SIZED = 2
_NULL_LIST = Cause("it is null, and Protobuf has no null of a list or map", RejectCode.MISSING)
_NULL_ITEM = Cause("an item is null, and Protobuf has no null in a list or map", RejectCode.MISSING)


@dataclass(frozen=True, slots=True)
class ProtobufWriter:
    """Writes by one schema."""

    schema: MessageSchema

    def message(self, columns: Sequence[Column], tree: Tree, path: str = "") -> Datums:
        """Write a message for each row. Raises InvalidError (P871), UnavailableError (P876)."""
        by_name, parts = {each.name: each for each in columns}, list[Any]()
        misfits: list[Misfits] = []
        for own in tree["fields"]:
            name = own["column"]
            at = f"{path}.{name}" if path else name
            if name not in by_name:
                raise self.schema.unfit(at, "the table has no such column")
            _, values, kind = by_name.pop(name)
            found = self._field(values, kind, own, at)
            parts.append(found.data)
            misfits += found.misfits
        if self.schema.is_made and by_name:
            raise self.schema.unfit(next(iter(by_name)), "the schema has no such field")
        if not parts:
            count = len(columns[0].values) if columns else 0
            return Datums(pa.array([b""] * count, pa.binary()), misfits)
        return Datums(pc.binary_join_element_wise(*parts, b""), misfits)

    def _field(self, values: pa.Array, kind: Any, field: Tree, path: str) -> Datums:
        """Write what a field has on the wire, which may be nothing; nothing of it is null."""
        if pa.types.is_dictionary(kind):
            return self._field(values.dictionary_decode(), kind.value_type, field, path)
        match field["label"]:
            case "map" if pa.types.is_map(kind):
                return self._map(values, kind, field, path)
            case "repeated" if is_list(kind):
                return self._list(values, kind, field, path)
            case "map" | "repeated" as label:
                raise self.schema.unfit(path, f"it is of the type {kind}, and not {label}")
        made = self._values(values, kind, field, path)
        misfits = made.misfits
        if field["label"] == "required":
            misfits = [*misfits, *found_in(path, ~validity_of(made.data), IS_NULL)]
        return Datums(_tagged(field, made.data).fill_null(b""), misfits)

    def _values(self, values: pa.Array, kind: Any, field: Tree, path: str) -> Datums:
        """Write values as they stand behind a tag; nulls stay null."""
        if pa.types.is_dictionary(kind):
            return self._values(values.dictionary_decode(), kind.value_type, field, path)
        if field["kind"] == "message" and pa.types.is_struct(kind):
            return self._structs(values, kind, field["message"], path)
        found = None if field["kind"] == "message" else scalars(values, kind, field, path)
        if found is None:
            raise self.schema.unfit(path, f"it is of the type {kind}, and not {field['kind']}")
        if not field.get("wrapped"):
            return found
        inner = _tag(1, WIRE_TYPES[field["kind"]])
        return Datums(sized(pc.binary_join_element_wise(inner, found.data, b"")), found.misfits)

    def _structs(self, values: pa.StructArray, kind: pa.DataType, tree: Tree, path: str) -> Datums:
        found = of_members(values, kind, lambda members: self.message(members, tree, path))
        return Datums(nulled(sized(found.data), values), found.misfits)

    def _list(self, values: pa.Array, kind: Any, field: Tree, path: str) -> Datums:
        made = self._items(values.flatten(), kind.value_type, field, f"{path}[]")
        lengths = lengths_of_lists(values)
        packed = field["kind"] in PACKED
        items = made.data if packed else _tagged(field, made.data)
        joined = pc.binary_join(list_array(lengths, items), b"")
        if packed:
            whole = pc.binary_join_element_wise(_tag(field["number"], _SIZED), sized(joined), b"")
            joined = pc.if_else(pa.array(lengths > 0), whole, pa.scalar(b""))
        missing = found_in(path, ~validity_of(values), _NULL_LIST)
        return Datums(joined, [*of_lists(made.misfits, lengths), *missing])

    def _map(self, values: pa.MapArray, kind: Any, field: Tree, path: str) -> Datums:
        """Write a map as a list of entries, in which 1 is the key and 2 the value."""
        lists = as_lists(values)
        keys, inner = lists.flatten().flatten()
        key: Mapping[str, Any] = {"kind": field["key"], "number": 1}
        keyed = self._items(keys, kind.key_type, key, f"{path}{{}}")
        made = self._items(inner, kind.item_type, field, f"{path}{{}}")
        both = (_tagged(key, keyed.data), _tagged({**field, "number": 2}, made.data))
        entries = sized(pc.binary_join_element_wise(*both, b""))
        entries = pc.binary_join_element_wise(_tag(field["number"], _SIZED), entries, b"")
        lengths = lengths_of_lists(lists)
        joined = pc.binary_join(list_array(lengths, entries), b"")
        missing = found_in(path, ~validity_of(values), _NULL_LIST)
        return Datums(joined, [*of_lists([*keyed.misfits, *made.misfits], lengths), *missing])

    def _items(self, values: pa.Array, kind: Any, field: Tree, path: str) -> Datums:
        made = self._values(values, kind, field, path)
        missing = found_in(path, ~validity_of(made.data), _NULL_ITEM)
        return Datums(made.data.fill_null(b""), [*made.misfits, *missing])


def _tagged(field: Tree, data: pa.BinaryArray) -> pa.BinaryArray:
    """Write the tag of a field before each value; nulls stay null."""
    is_sized = field["kind"] == "message" or field.get("wrapped")
    tag = _tag(field["number"], _SIZED if is_sized else WIRE_TYPES[field["kind"]])
    return pc.binary_join_element_wise(tag, data, b"")


def _tag(number: int, wire_type: int) -> bytes:
    found: bytes = unsigned_varints(np.array([number << 3 | wire_type], np.uint64))[0].as_py()
    return found
