"""Columns become Avro's binary encoding, column by column, at any depth.

Invariants:
- a datum read again by its schema is the value that the row has: a value is written exactly, or is
  a misfit of its row, with the path of its column;
- what a schema has and a column cannot give is found before any row is looked at;
- a datum depends on its value alone, not on the rows around it.

Source: Apache Avro specification 1.12, "Binary encoding", "Logical Types".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import list_array, validity_of
from penstock.rows.encode.avro_scalars import scalars, varints
from penstock.rows.encode.avro_schema import Tree, column_of, optional
from penstock.rows.encode.datums import Datums, Numbers, nulled, of_members
from penstock.rows.encode.json_texts import Column, is_list, is_text
from penstock.rows.encode.nesting import IS_NULL, Misfits, as_lists, lengths_of_lists, of_lists
from penstock.rows.encode.rules import MessageSchema

_ENDED = b"\0"


@dataclass(frozen=True, slots=True)
class AvroWriter:
    """Writes by one schema."""

    schema: MessageSchema

    def record(self, columns: Sequence[Column], tree: Tree, path: str = "") -> Datums:
        """Write a record for each row. Raises InvalidError (P871), UnavailableError (P876)."""
        assert isinstance(tree, Mapping), "a record is a mapping"
        by_name, parts = {each.name: each for each in columns}, list[Any]()
        misfits: list[Misfits] = []
        for own in tree["fields"]:
            name = column_of(own)
            at = f"{path}.{name}" if path else name
            if name not in by_name:
                raise self.schema.unfit(at, "the table has no such column")
            _, values, kind = by_name.pop(name)
            found = self._branch(values, kind, own["type"], at)
            parts += found.data
            misfits += found.misfits
        if self.schema.is_made and by_name:
            raise self.schema.unfit(next(iter(by_name)), "the schema has no such field")
        if not parts:
            count = len(columns[0].values) if columns else 0
            return Datums(pa.array([b""] * count, pa.binary()), misfits)
        return Datums(pc.binary_join_element_wise(*parts, b""), misfits)

    def _branch(self, values: pa.Array, kind: pa.DataType, tree: Tree, path: str) -> _Parts:
        """Write what may be null, by its branch in a union; nothing that is left is null."""
        branches = optional(tree)
        if branches is None:
            made = self._datums(values, kind, tree, path)
            if not made.data.null_count:
                return _Parts([made.data], made.misfits)
            missing = Misfits(path, ~validity_of(made.data), IS_NULL)
            return _Parts([made.data.fill_null(b"")], [*made.misfits, missing])
        inner, null = branches
        made = self._datums(values, kind, inner, path)
        of_null, of_value = (b"\0", b"\2") if null == 0 else (b"\2", b"\0")
        if not made.data.null_count:
            return _Parts([of_value, made.data], made.misfits)
        marked = pc.binary_join_element_wise(of_value, made.data, b"")
        return _Parts([marked.fill_null(of_null)], made.misfits)

    def _datums(self, values: pa.Array, kind: Any, tree: Tree, path: str) -> Datums:
        """Write values; nulls stay null."""
        if pa.types.is_dictionary(kind):
            return self._datums(values.dictionary_decode(), kind.value_type, tree, path)
        data: Mapping[str, Any] = tree if isinstance(tree, Mapping) else {"type": tree}
        match data["type"]:
            case "record" if pa.types.is_struct(kind):
                return self._structs(values, kind, tree, path)
            case "array" if is_list(kind):
                return self._lists(values, kind, data["items"], path)
            case "array" if pa.types.is_map(kind):
                return self._entries(values, kind, data["items"], path)
            case "map" if pa.types.is_map(kind) and is_text(kind.key_type):
                return self._maps(values, kind, data["values"], path)
            case _:
                found = scalars(values, kind, data, path)
                if found is None:
                    fact = f"it is of the type {kind}, and not {_words(data)}"
                    raise self.schema.unfit(path, fact)
                return found

    def _structs(self, values: pa.StructArray, kind: pa.DataType, tree: Tree, path: str) -> Datums:
        found = of_members(values, kind, lambda members: self.record(members, tree, path))
        return Datums(nulled(found.data, values), found.misfits)

    def _lists(self, values: pa.Array, kind: Any, items: Tree, path: str) -> Datums:
        found = self._branch(values.flatten(), kind.value_type, items, f"{path}[]")
        return _blocks(values, lengths_of_lists(values), found)

    def _maps(self, values: pa.MapArray, kind: Any, items: Tree, path: str) -> Datums:
        lists = as_lists(values)
        keys, inner = lists.flatten().flatten()
        keyed = self._branch(keys, kind.key_type, "string", f"{path}{{}}")
        made = self._branch(inner, kind.item_type, items, f"{path}{{}}")
        both = _Parts([*keyed.data, *made.data], [*keyed.misfits, *made.misfits])
        return _blocks(values, lengths_of_lists(lists), both)

    def _entries(self, values: pa.MapArray, kind: Any, items: Tree, path: str) -> Datums:
        """Write a map as an array of records with `key` and `value`."""
        if not isinstance(items, Mapping) or items["type"] != "record":
            raise self.schema.unfit(path, "it is a map, and not an array of other values")
        lists = as_lists(values)
        pair = zip(("key", "value"), lists.flatten().flatten(), strict=True)
        kinds = (kind.key_type, kind.item_type)
        columns = [Column(*each, own) for each, own in zip(pair, kinds, strict=True)]
        made = self.record(columns, items, f"{path}{{}}")
        return _blocks(values, lengths_of_lists(lists), _Parts([made.data], made.misfits))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is joined to one datum for each value: arrays without nulls, and bytes for all."""

    data: list[Any]
    misfits: list[Misfits]


def _blocks(values: pa.Array, lengths: Numbers, items: _Parts) -> Datums:
    """Write lists: how many items, these, and the end; of an empty one the end alone."""
    data = pc.binary_join_element_wise(*items.data, b"")
    joined = pc.binary_join(list_array(lengths, data), b"")
    whole = pc.binary_join_element_wise(varints(lengths), joined, _ENDED, b"")
    if not lengths.all():
        whole = pc.if_else(pa.array(lengths > 0), whole, pa.scalar(_ENDED))
    return Datums(nulled(whole, values), of_lists(items.misfits, lengths))


def _words(data: Mapping[str, Any]) -> str:
    """Say to people what a type is."""
    size = f" of {data['size']} bytes" if "size" in data else ""
    logical = f" ({data['logicalType']})" if "logicalType" in data else ""
    digits = f" of {data['precision']} digits" if "precision" in data else ""
    scale = f", {data.get('scale', 0)} behind the point" if "precision" in data else ""
    return f"{data['type']}{size}{logical}{digits}{scale}"
