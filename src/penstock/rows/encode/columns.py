"""The columns that messages are made of: those of rows, those that SQL computes, and headers.

Invariants:
- a row that `deleted` spares, a tombstone of its source, is no misfit of what is computed: it has
  no values to compute with; but it has a key and headers, and is one where a header of its message
  is made of one that cannot be read;
- a header that is a header of the record, or its key, and no more, has its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.names import folded
from penstock.ports.sources import MESSAGES
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.encode.conditions import NAMELESS, computed, is_headers, is_key, no_column
from penstock.rows.encode.extensions import stored
from penstock.rows.encode.json_texts import (
    Column,
    JsonForm,
    bare_texts,
    is_binary,
    is_text,
    utf8_texts,
)
from penstock.rows.encode.nesting import Cause, Mask, Misfits, misfits_by_cause
from penstock.rows.encode.rules import MessageRules
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.coordinates import header_values
from penstock.spec.language.expressions import expression

_HEADERS = MESSAGES.field("headers").type
UNNAMED = Cause("a header has a name that is not UTF-8", RejectCode.NOT_UTF8)


class StoredRows(NamedTuple):
    """Rows without extension types, and their columns' own types."""

    rows: pa.RecordBatch
    kinds: pa.Schema

    def column(self, name: str, field: str) -> Column:
        """Return the column that a field of the spec names. Raises InvalidError (P838)."""
        count = self.kinds.names.count(name)
        if not count:
            raise no_column(self.rows, name, field)
        if count > 1:
            raise InvalidError(
                f"the rows have {count} columns of the name {name}",
                code="P838",
                hint="rename all but one, or leave them out",
            )
        return Column(name, self.rows.column(name), self.kinds.field(name).type)


def deleted_rows(table: StoredRows, rules: MessageRules) -> Mask:
    """Return which rows are tombstones of their source."""
    if not rules.deleted:
        return np.zeros(len(table.rows), np.bool_)
    return mask_of(table.column(rules.deleted, "").values.fill_null(False))


def with_computed(table: StoredRows, rules: MessageRules) -> tuple[StoredRows, list[Misfits]]:
    """Put the computed columns behind the others. Raises InvalidError (P838)."""
    if not rules.computed:
        return table, []
    spared, misfits = deleted_rows(table, rules), list[Misfits]()
    columns = dict[str, pa.Array]()
    for name, sql in rules.computed.items():
        unread_spared = spared & (name not in rules.headers.values())
        place = f"transform.columns.{name}"
        columns[name], found = _in_sql(table, sql, place, spared, unread_spared)
        misfits += [each._replace(path=name) for each in found]
    fields = [*table.kinds, *(pa.field(name, each.type) for name, each in columns.items())]
    arrays = [*table.rows.columns, *columns.values()]
    names = [each.name for each in fields]
    return StoredRows(pa.RecordBatch.from_arrays(arrays, names), pa.schema(fields)), misfits


def made_columns(columns: pa.Schema, rules: MessageRules) -> pa.Schema:
    """Return columns with those that are computed of them. Raises InvalidError (P838)."""
    if not rules.computed:
        return columns
    nothing = pa.RecordBatch.from_arrays(
        [pa.nulls(0, each.type) for each in columns], schema=columns
    )
    return with_computed(StoredRows(stored(nothing), columns), rules)[0].kinds


def headers(table: StoredRows, rules: MessageRules) -> tuple[pa.ListArray, list[Misfits]]:
    """Return the headers of each row's message: those of its record, and the named ones behind.

    Raises InvalidError (P838, P839).
    """
    own, of_own = _own_headers(table, rules)
    if not rules.headers:
        return own, of_own
    named, of_named = _named_headers(table, rules)
    return _joined(own, named) if rules.headers_of else named, [*of_own, *of_named]


def _own_headers(table: StoredRows, rules: MessageRules) -> tuple[pa.ListArray, list[Misfits]]:
    """Return the headers that a record came with; without them it is a misfit, or has none."""
    if not rules.headers_of:
        return pa.nulls(len(table.rows), _HEADERS), []
    values = table.column(rules.headers_of, "headers").values.cast(_HEADERS)
    absent = mask_of(values.is_null())
    if rules.omits_headers or not absent.any():
        return values, []
    return values, [Misfits(rules.headers_of, absent, UNNAMED)]


def _joined(first: pa.ListArray, second: pa.ListArray) -> pa.ListArray:
    """Put the entries of one list behind those of the other, row by row."""
    counts = [pc.list_value_length(each).fill_null(0).to_numpy() for each in (first, second)]
    rows = np.concatenate([np.repeat(np.arange(len(each)), each) for each in counts])
    entries = pa.concat_arrays([first.flatten(), second.flatten()])
    begins = np.concatenate([[0], np.cumsum(sum(counts))]).astype(np.int32)
    ordered = entries.take(pa.array(np.argsort(rows, kind="stable")))
    return pa.ListArray.from_arrays(pa.array(begins), ordered, type=_HEADERS)


def _named_headers(table: StoredRows, rules: MessageRules) -> tuple[pa.ListArray, list[Misfits]]:
    count = len(table.rows)
    spared, misfits, parts = deleted_rows(table, rules), list[Misfits](), list[pa.BinaryArray]()
    for name, sql in rules.headers.items():
        place = f"headers.{name}"
        column, found = _of_header(table, sql, place, spared)
        data, of_values = bytes_of(column, rules.form)
        for each in of_values:
            data = pc.if_else(pa.array(each.rows & spared), pa.scalar(None, pa.binary()), data)
        parts.append(data)
        misfits += [*found, *(each._replace(rows=each.rows & ~spared) for each in of_values)]
    places = np.arange(len(parts))[None, :] * count + np.arange(count)[:, None]
    names = pa.array([*rules.headers] * count, pa.string())
    values = pa.concat_arrays(parts).take(pa.array(places.ravel()))
    entries = pa.StructArray.from_arrays([names, values], fields=[*_HEADERS.value_type])
    begins = np.arange(count + 1, dtype=np.int32) * len(parts)
    if rules.omits_headers:
        there = mask_of(values.is_valid())
        begins = np.concatenate([[0], np.cumsum(there)])[begins].astype(np.int32)
        entries = entries.filter(pa.array(there))
    return pa.ListArray.from_arrays(pa.array(begins), entries, type=_HEADERS), misfits


def _of_header(
    table: StoredRows, sql: str, place: str, spared: Mask
) -> tuple[Column, list[Misfits]]:
    """Return what a header is made of: a column, the record's key or header, or what SQL says."""
    if sql in table.kinds.names:
        return table.column(sql, place)._replace(name=place), []
    whole = expression(sql).whole
    for name, values in zip(table.kinds.names, table.rows.columns, strict=True):
        if whole is None or folded(name) != folded(whole.column):
            continue
        if whole.entry is None and is_key(name, values):
            return Column(place, values, values.type), []
        if whole.entry is not None and is_headers(name, values):
            found = header_values(values, whole.entry)
            nameless = mask_of(values.is_null())
            misfits = [Misfits(place, nameless, NAMELESS)] if nameless.any() else []
            return Column(place, found, found.type), misfits
    values, misfits = _in_sql(table, sql, place, spared, np.zeros(len(spared), np.bool_))
    return Column(place, values, values.type), misfits


def bytes_of(column: Column, form: JsonForm) -> tuple[pa.BinaryArray, list[Misfits]]:
    """Return the values of a column as bytes: of texts and bytes themselves, of others their text.

    Raises InvalidError (P839).
    """
    name, values, kind = undone(column)
    if is_text(kind):
        texts, misfits = utf8_texts(values, name)
        return texts.cast(pa.binary()), misfits
    if is_binary(kind):
        return values.cast(pa.binary()), []
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.binary()), []
    bare = bare_texts(values, kind, name, form)
    return bare.texts.cast(pa.binary()), bare.misfits


def undone(column: Column) -> Column:
    """Return a column whose kind is that of its values: a text is one, however it is held."""
    name, values, kind = column
    if isinstance(kind, pa.BaseExtensionType) and kind != pa.uuid():
        return undone(Column(name, values, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return undone(Column(name, values.dictionary_decode(), kind.value_type))
    return column


def _in_sql(
    table: StoredRows, sql: str, field: str, spared: Mask, unread_spared: Mask
) -> tuple[pa.Array, list[Misfits]]:
    """Compute an expression for each row; those without an answer that are not `spared` misfit.

    Of unread rows other ones may be spared.
    """
    found = computed(table.rows, sql, field)
    causes = {row: why for row, why in found.undecided.items() if not spared[row]}
    causes |= {row: why for row, why in found.unread.items() if not unread_spared[row]}
    return found.values, misfits_by_cause(field, causes, len(spared))
