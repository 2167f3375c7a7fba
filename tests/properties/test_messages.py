"""Rows become JSON: read again it is what the row's Python values are, or the row is a misfit."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.rows.encode.encoder import encode
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.rules import MessageRules

UTC = dt.UTC
NOTHING = object()
"""Of a value that JSON cannot hold."""
NAMES = st.one_of(st.sampled_from(["a", "A", "b", 'q"', "n\\m", "é", "two words", "x.y", "\n"]))
SCALARS = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.binary(3),
        pa.uuid(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns", "UTC"),
        pa.decimal128(9, 2),
        pa.decimal128(38, 0),
        pa.decimal128(38, 30),
        pa.null(),
    ]
)
KEYS = st.sampled_from([pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.date32()])


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda it: it[0])
    return fields.map(pa.struct)


TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        st.tuples(KEYS, inner).map(lambda pair: pa.map_(*pair)),
        _structs(inner),
    ),
    max_leaves=4,
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(['"', "\\", '\\"', "\x00", "\x1f\n\t", "\x7f\u2028", "\U0010ffff", "null"]),
    st.sampled_from([b"\xed\xa0\x80", b"\xff", b"ok\xc3"]),
)
DAYS = st.one_of(st.integers(-800_000, 3_000_000), st.sampled_from([-719_162, -719_163, 2_932_896]))
STAMPS = st.one_of(
    st.integers(-(10**17), 10**18),
    st.sampled_from([0, -1, 253_402_300_799_999_999, 253_402_300_800_000_000]),
    st.sampled_from([-62_135_596_800_000_000, -62_135_596_800_000_001, 2**63 - 1, -(2**63)]),
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return values as they are stored: days and microseconds are numbers, texts may be bytes."""
    match kind:
        case pa.MapType():
            keys = values_of(kind.key_type).filter(lambda key: not isinstance(key, bytes))
            pairs = st.tuples(keys, nullable(kind.item_type))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
        case pa.ListType() | pa.LargeListType():
            return st.lists(nullable(kind.value_type), max_size=3)
        case pa.FixedSizeListType():
            return st.lists(nullable(kind.value_type), min_size=2, max_size=2)
        case pa.StructType():
            return st.fixed_dictionaries({each.name: nullable(each.type) for each in kind})
        case pa.UuidType():
            return st.binary(min_size=16, max_size=16)
        case pa.FixedSizeBinaryType():
            if pa.types.is_decimal(kind):
                largest = 10**kind.precision - 1
                whole = st.one_of(st.integers(-largest, largest), st.integers(-9, 9))
                return whole.map(lambda it: Decimal(f"{it}e-{kind.scale}"))
            return st.binary(min_size=3, max_size=3)
    by_type = {
        pa.bool_(): st.booleans(),
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.float32(): st.floats(width=32),
        pa.float64(): st.floats(),
        pa.string(): TEXTS,
        pa.large_string(): TEXTS,
        pa.binary(): st.binary(max_size=6),
        pa.date32(): DAYS,
        pa.time64("us"): st.integers(0, 86_399_999_999),
        pa.timestamp("us"): STAMPS,
        pa.timestamp("us", "UTC"): STAMPS,
        pa.timestamp("ns", "UTC"): st.integers(-(2**63), 2**63 - 1),
        pa.null(): st.none(),
    }
    return by_type[kind]


def nullable(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values_of(kind))


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Build an array of stored values, without asking whether Python could show them."""
    valid = [each is not None for each in values]
    mask = pa.array([not each for each in valid], pa.bool_())
    match kind:
        case pa.StructType():
            members = [array_of([(v or {}).get(f.name) for v in values], f.type) for f in kind]
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
        case pa.MapType():
            flat = [pair for each in values for pair in each or ()]
            keys = array_of([key for key, _ in flat], kind.key_type)
            items = array_of([item for _, item in flat], kind.item_type)
            return pa.MapArray.from_arrays(_offsets(values), keys, items)
        case pa.ListType():
            items = array_of([item for each in values for item in each or ()], kind.value_type)
            return pa.ListArray.from_arrays(_offsets(values), items)
        case pa.FixedSizeListType():
            items = array_of([i for v in values for i in v or (None, None)], kind.value_type)
            return pa.FixedSizeListArray.from_arrays(items, 2, mask=mask)
        case pa.LargeListType():
            items = array_of([item for each in values for item in each or ()], kind.value_type)
            return pa.LargeListArray.from_arrays(_offsets(values).cast(pa.int64()), items)
        case pa.UuidType():
            return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if kind in (pa.string(), pa.large_string()):
        raw = [v.encode() if isinstance(v, str) else v for v in values]
        of = pa.binary() if kind == pa.string() else pa.large_binary()
        buffers = pa.array(raw, of).buffers()
        return pa.Array.from_buffers(kind, len(values), buffers)
    numbers = {pa.date32(): pa.int32(), pa.time64("us"): pa.int64()}
    if kind in numbers or pa.types.is_timestamp(kind):
        return pa.array(values, numbers.get(kind, pa.int64())).view(kind)
    return pa.array(values, kind)


def _offsets(values: list[Any]) -> pa.Array:
    """Return offsets of lists, null where a list is; the last one never is."""
    lengths = [len(each or ()) for each in values]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.array(ends, mask=np.array([each is None for each in values] + [False]))


def said(value: Any, kind: pa.DataType, form: JsonForm) -> Any:
    """Return what JSON has to say of a stored value, or NOTHING: by Python, value by value."""
    if value is None:
        return None
    match kind:
        case pa.StructType():
            return _whole({f.name: said(value[f.name], f.type, form) for f in kind})
        case pa.MapType():
            keys = [_named(key, kind.key_type) for key, _ in value]
            items = [said(item, kind.item_type, form) for _, item in value]
            return NOTHING if NOTHING in keys else _whole(dict(zip(keys, items, strict=True)))
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            return _whole([said(each, kind.value_type, form) for each in value])
        case pa.UuidType():
            digits = value.hex()
            return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else NOTHING
    if pa.types.is_decimal(kind):
        return format(value, "f") if form.decimals == "string" else value
    if isinstance(value, bytes) and kind in (pa.string(), pa.large_string()):
        return NOTHING
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _moment(value, kind, form)


def _moment(value: Any, kind: pa.DataType, form: JsonForm) -> Any:
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001
    try:
        if pa.types.is_date32(kind):
            return dt.date.fromordinal(value + epoch.toordinal()).isoformat()
        if pa.types.is_time64(kind):
            time = (epoch + dt.timedelta(microseconds=value)).time()
            return time.isoformat(timespec="microseconds")
        if pa.types.is_timestamp(kind):
            nanos = kind.unit == "ns"
            micros, rest = divmod(value, 1000) if nanos else (value, 0)
            if form.times == "millis":
                return micros // 1000
            moment = (epoch + dt.timedelta(microseconds=micros)).isoformat(timespec="microseconds")
            return moment + (f"{rest:03}" if nanos else "") + ("Z" if kind.tz else "")
    except (OverflowError, ValueError):
        return NOTHING
    return value


def _named(key: Any, kind: pa.DataType) -> Any:
    shown = said(key, kind, JsonForm())
    return shown if isinstance(shown, str) or shown is NOTHING else json.dumps(shown)


def _whole(value: Any) -> Any:
    """Return NOTHING for an object or a list in which something has no form."""
    members = value.values() if isinstance(value, dict) else value
    return NOTHING if any(each is NOTHING for each in members) else value


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[dict[str, Any]]]:
    kinds = draw(
        st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=4, unique_by=lambda i: i[0])
    )
    rows = draw(st.lists(st.fixed_dictionaries({n: nullable(k) for n, k in kinds}), max_size=5))
    arrays = [array_of([row[name] for row in rows], kind) for name, kind in kinds]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(kinds))
    begin = draw(st.integers(0, len(rows)))
    return batch.slice(begin), rows[begin:]


def read(text: bytes) -> Any:
    return json.loads(text.decode(), parse_float=Exactly, parse_constant=None)


class Exactly(Decimal):
    """A number of JSON with a point: compared with decimals, and with doubles, exactly."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, float):
            return float(self) == other and math.copysign(1, float(self)) == math.copysign(1, other)
        return Decimal.__eq__(self, other)

    __hash__ = Decimal.__hash__


@given(tables(), st.sampled_from(["string", "number"]), st.sampled_from(["iso", "millis"]))
@settings(max_examples=400)
def test_json_says_what_the_row_has_or_the_row_is_a_misfit(table, decimals, times):
    batch, rows = table
    form = JsonForm(decimals, times)
    made = encode(batch, MessageRules(form=form), now_ms=7)
    struct = pa.struct(list(batch.schema))
    expected = [said(row, struct, form) for row in rows]

    fitting = [place for place, each in enumerate(expected) if each is not NOTHING]
    assert fitting == made.places.tolist()
    assert sorted({*range(len(rows))} - {*fitting}) == [each.row for each in made.misfits]
    texts = made.messages.column("value").to_pylist()
    assert [expected[place] for place in fitting] == [read(each) for each in texts]


@given(tables())
@settings(max_examples=100)
def test_a_verdict_does_not_depend_on_the_rows_around_it(table):
    batch, _ = table
    whole = encode(batch, MessageRules(), now_ms=7)
    alone = [encode(batch.slice(row, 1), MessageRules(), now_ms=7) for row in range(len(batch))]

    assert whole.messages.to_pylist() == [m for each in alone for m in each.messages.to_pylist()]
    assert [each[1:] for each in whole.misfits] == [m[1:] for one in alone for m in one.misfits]
