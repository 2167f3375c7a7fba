"""SQL over the rows of a table: conditions, and values; and which rows have no answer.

Keys and headers of Kafka's records are text to SQL, as in landing.

Invariants:
- an expression is bound to the columns before any row is looked at: what does not compute at all is
  a mistake of the spec, not of a row;
- a row is undecided only for what a run of it alone came to (sql_values.py), or unread: it has a
  text that the expression reads, and that is not UTF-8 (docs/design/0376).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.names import folded
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.encode.json_texts import utf8_texts
from penstock.rows.encode.nesting import Cause
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.coordinates import header_maps, headers_not_utf8, not_utf8, texts_of
from penstock.rows.route.sql_values import RECORD_SECONDS_MAX, SqlValues, evaluate, true_of
from penstock.spec.language.expressions import expression, text_hint
from penstock.spec.language.sandbox import sandbox
from penstock.spec.problems import listed, nearest, shown

if TYPE_CHECKING:
    from duckdb.typing import DuckDBPyType

Mask = npt.NDArray[np.bool_]
_BOOLEANS = ("BOOLEAN", '"NULL"')
_KEY, _HEADERS = "_kafka_key", "_kafka_headers"
_ALTERED = frozenset(
    {"uhugeint", "bignum", "bit", "time with time zone", "union", "variant", "geometry"}
)
"""Types that DuckDB gives to Arrow as what they are inside, or without a part of their value."""
_OF_CASTS = frozenset({"Conversion Error", "Out of Range Error"})
"""Errors that quote values, or write numbers; in others a value may be a word among words."""
_QUOTED = re.compile(r"""(['"]).*\1""")
_NUMBER = re.compile(r"(?<!\w)-?\d[\w.+-]*")
_NESTED = frozenset({"struct", "list", "array", "map"})


class Decided(NamedTuple):
    """Where a condition is true, and the rows for which it has no answer, with the cause."""

    true: Mask
    undecided: dict[int, Cause]


class Computed(NamedTuple):
    """The value of each row, null for those that have none, and those with the cause.

    `unread` are those that cannot be read, `undecided` the others.
    """

    values: pa.Array
    undecided: dict[int, Cause]
    unread: dict[int, Cause]


def decided(rows: pa.RecordBatch, sql: str, field: str) -> Decided:
    """Decide a condition, the spec's `field`, for each row. Raises InvalidError (P838)."""
    table, unread = _columns_of(rows, sql, field)
    bound = _bind(table.schema, sql, field)
    if bound.kind not in _BOOLEANS:
        raise _unfit(field, f"it gives {bound.kind}, and BOOLEAN is wanted", "compare or cast it")
    found = evaluate(sandbox(), f"((\n{sql}\n) is true)", table)
    undecided, true = _undecided(found, field) | unread, true_of(found.values)
    true[list(undecided)] = False
    return Decided(true, undecided)


def computed(rows: pa.RecordBatch, sql: str, field: str) -> Computed:
    """Compute an expression, the spec's `field`, for each row.

    Raises InvalidError (P838), also for a type whose values do not arrive as they are.
    """
    table, unread = _columns_of(rows, sql, field)
    bound = _bind(table.schema, sql, field)
    if bound.altered:
        fact = f"it gives {bound.kind}, whose values would not arrive as they are"
        raise _unfit(field, fact, "cast it, such as  cast(… as varchar)")
    found = evaluate(sandbox(), f"(\n{sql}\n)", table)
    values = found.values if found.values.type == bound.type else found.values.cast(bound.type)
    if unread:
        there = np.ones(len(values), np.bool_)
        there[list(unread)] = False
        values = pc.if_else(pa.array(there), values, pa.scalar(None, values.type))
    return Computed(values, _undecided(found, field), unread)


def _undecided(found: SqlValues, field: str) -> dict[int, Cause]:
    seconds = f"{RECORD_SECONDS_MAX:.0f} s"
    failed = Cause(f"{field} cannot be computed for this row", RejectCode.UNDECIDED)
    slow = Cause(f"{field} takes longer than {seconds} for this row", RejectCode.SLOW)
    return dict.fromkeys(found.failed, failed) | dict.fromkeys(found.slow, slow)


def failure_of(rows: pa.RecordBatch, sql: str, field: str) -> str:
    """Say what DuckDB answers where it cannot compute an expression; "" where it can.

    No value is said: what the answer quotes is left out.
    """
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    connection = sandbox()
    try:
        connection.register("records", _columns_of(rows, sql, field)[0])
        connection.execute(f"select (\n{sql}\n) from records as payload").fetchall()  # noqa: S608
    except Error as error:
        return _without_values(str(error))
    finally:
        connection.unregister("records")
    return ""


def _without_values(answer: str) -> str:
    """Return the kind of an error of DuckDB and what it says, without what may be values."""
    first, _, _ = answer.partition("\n")
    kind, _, said = first.partition(": ")
    if kind not in _OF_CASTS:
        return kind
    plain = _QUOTED.sub("'…'", said).partition(":")[0].partition("(")[0]
    return f"{kind}: {_NUMBER.sub('…', plain).strip()}"


def _columns_of(rows: pa.RecordBatch, sql: str, field: str) -> tuple[pa.Table, dict[int, Cause]]:
    """Return the columns that an expression names, in types that DuckDB takes, and unread rows."""
    columns, unread, parsed = dict[str, pa.Array](), dict[int, Cause](), expression(sql)
    for name in {folded(each): each for each in parsed.columns}.values():
        found = [each for each in rows.schema.names if folded(each) == folded(name)]
        if not found:
            raise no_column(rows, name, field, sql)
        if len(found) > 1:
            fact = f"SQL takes the columns {listed(found)} for one"
            raise _unfit(field, fact, "name no column whose name another one has in another case")
        values = rows.column(found[0])
        columns[found[0]] = _seen(folded(name), values)
        entries = {each.entry for each in parsed.reads if folded(each.column) == folded(name)}
        unread |= _unread(folded(name), values, entries)
    if not columns:
        columns = {"payload": pa.nulls(rows.num_rows)}
    return pa.table(columns), unread


def is_key(name: str, values: pa.Array) -> bool:
    """Return whether a column has the keys of records."""
    return folded(name) == _KEY and pa.types.is_binary(values.type)


def is_headers(name: str, values: pa.Array) -> bool:
    """Return whether a column has the headers of records."""
    return folded(name) == _HEADERS and pa.types.is_list(values.type)


def _seen(name: str, values: pa.Array) -> pa.Array:
    """Return a column as SQL sees it; what is no text is an empty one, which is not null."""
    if is_key(name, values):
        return texts_of(values, "")
    if is_headers(name, values):
        return header_maps(values, "")
    return _plain(values)


def _unread(name: str, values: pa.Array, entries: Collection[str | None]) -> dict[int, Cause]:
    """Return the rows whose key, or whose header of `entries`, cannot be read, with the cause.

    The entry None stands for all.
    """
    if entries and is_key(name, values):
        return dict.fromkeys(np.flatnonzero(not_utf8(values)).tolist(), not_read("the key"))
    if is_headers(name, values):  # without names it is not known whether one is there
        nameless = np.flatnonzero(mask_of(values.is_null())).tolist()
        wrong = headers_not_utf8(values, None if None in entries else entries)
        found = {row: not_read(f"the header {shown(each)}") for row, each in wrong.items()}
        return dict.fromkeys(nameless, NAMELESS) | found
    return {}


def not_read(what: str) -> Cause:
    """Return the cause of something of a record that cannot be read as text."""
    return Cause(f"{what} is not UTF-8", RejectCode.NOT_UTF8)


NAMELESS = not_read("the name of a header")


def _plain(values: pa.Array) -> pa.Array:
    """Return values without extension, and texts that are none as no text."""
    if isinstance(values.type, pa.BaseExtensionType):
        return _plain(values.storage)
    if pa.types.is_string(values.type):
        return utf8_texts(values, "")[0]
    return values


class _Bound(NamedTuple):
    """The type of an expression, as DuckDB calls it, and in Arrow, where it has one.

    `altered` says that DuckDB gives other values to Arrow than it has.
    """

    kind: str
    altered: bool
    type: pa.DataType | None


@lru_cache(maxsize=64)
def _bind(columns: pa.Schema, sql: str, field: str) -> _Bound:
    """Return the type of an expression; kept, as batches are alike.

    Raises InvalidError (P838) where it does not compute.
    """
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    connection = sandbox()
    query = f"select (\n{sql}\n) as it from records as payload"  # noqa: S608  it is bound
    try:
        connection.register("records", columns.empty_table())
        found = connection.sql(query)
        (kind,) = found.types
        if not _ALTERED.isdisjoint(_within(kind)):
            return _Bound(str(kind), altered=True, type=None)
        return _Bound(str(kind), altered=False, type=found.to_arrow_table().schema.field("it").type)
    except Error as error:
        first, _, _ = str(error).partition("\n")
        raise _unfit(field, f"it does not compute: {first}", "correct it in the spec") from error
    finally:
        connection.unregister("records")


def _within(kind: DuckDBPyType) -> Iterator[str]:
    """Yield the names of a type, and of those of its members."""
    yield kind.id
    if kind.id in _NESTED:
        for _, member in kind.children:
            if hasattr(member, "id"):  # an array has its size among them
                yield from _within(member)


def no_column(rows: pa.RecordBatch, name: str, field: str, sql: str = "") -> InvalidError:
    """Return the error of a column that a field of the spec names, in SQL, and the rows lack."""
    near = nearest(name, rows.schema.names)
    hint = f"did you mean {near}?" if near else f"they have {listed(rows.schema.names)}"
    if quotes := text_hint(sql, name):
        hint = f"{quotes};  or {near}?" if near else quotes
    return _unfit(field, f"they have no column {shown(name)}", hint)


def _unfit(field: str, fact: str, hint: str) -> InvalidError:
    return InvalidError(f"{field} does not fit the rows: {fact}", code="P838", hint=hint)
