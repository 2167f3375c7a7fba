"""Columns become the texts of JSON, column by column, at any depth.

Invariants:
- a text read again is the value that the row has: numbers are exact, decimals have their digits,
  binary is base64; only `times: millis` loses what is below a millisecond;
- a value that JSON cannot hold is a misfit of its row, with the path of its column: NaN and
  infinite numbers, dates outside of the years 1 to 9999, text that is not UTF-8;
- a text depends on its value alone, not on the rows around it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.rows.arrow_arrays import list_array, mask_of, validity_of
from penstock.rows.cast import iso8601
from penstock.rows.decode.logical_types import PER_SECOND
from penstock.rows.encode.nesting import (
    NOT_UTF8,
    Cause,
    Misfits,
    as_lists,
    lengths_of_lists,
    of_lists,
    out_of_range,
)

NULL = "null"
IN_ISO, IN_MILLIS = "iso", "millis"
NO_YEAR = out_of_range("it is outside of the years 1 to 9999")
_NO_TIME = out_of_range("it is no time of a day")
_NO_NUMBER = out_of_range("it is no number")
_CONTROL = r"[\x00-\x1f]"
_QUOTE, _BACKSLASH, _SPACE = b'"\\ '


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How values are written that JSON has no type for."""

    decimals: Literal["string", "number"] = "string"
    times: Literal["iso", "millis"] = "iso"


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """The text of each value, never null: a null is `null`. A misfit has some text."""

    texts: pa.StringArray
    misfits: list[Misfits] = field(default_factory=list)


class _Bare(NamedTuple):
    """Texts without quotes, null where the value is; `quote` is what stands around them."""

    texts: pa.StringArray
    quote: str
    misfits: list[Misfits]


def json_texts(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> JsonTexts:
    """Write values as JSON. Raises InvalidError (P839) for a type that has no form in JSON."""
    bare = bare_texts(values, kind, path, form)
    texts = bare.texts
    if bare.quote:
        texts = pc.binary_join_element_wise(bare.quote, texts, bare.quote, "")
    return JsonTexts(texts.fill_null(NULL), bare.misfits)


class Column(NamedTuple):
    """A column under its name, without extension types, and its own type."""

    name: str
    values: pa.Array
    kind: pa.DataType


def object_texts(columns: list[Column], path: str, form: JsonForm) -> JsonTexts:
    """Write an object for each row, with a member for each column, in their order."""
    parts: list[Any] = []
    misfits: list[Misfits] = []
    opening = "{"
    for name, values, kind in columns:
        bare = bare_texts(values, kind, f"{path}.{name}" if path else name, form)
        texts, quote = bare.texts, bare.quote
        misfits += bare.misfits
        if texts.null_count:
            quoted = pc.binary_join_element_wise(quote, texts, quote, "") if quote else texts
            texts, quote = quoted.fill_null(NULL), ""
        parts += [f"{opening}{json.dumps(name, ensure_ascii=False)}:{quote}", texts]
        opening = f"{quote},"
    return JsonTexts(pc.binary_join_element_wise(*parts, f"{opening[:-1]}}}", ""), misfits)


def bare_texts(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    """Write values as JSON without the quotes around them; nulls stay null."""
    if kind == pa.uuid():
        return _Bare(_by_value(values, uuid_text), '"', [])
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    for is_of, write in _WRITERS:
        if is_of(stored):
            return write(values, stored, path, form)
    raise formless(path, kind)


def formless(path: str, kind: pa.DataType) -> InvalidError:
    """Return the error of a column that JSON cannot hold."""
    return InvalidError(
        f"the column {path} is of the type {kind}, which has no form in JSON",
        code="P839",
        hint="publish a table, or a view of it, without this column",
    )


def _nulls(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, path, form
    return _Bare(pa.nulls(len(values), pa.string()), "", [])


def _plain(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, path, form
    return _Bare(values.cast(pa.string()), "", [])


def _dictionary(values: pa.DictionaryArray, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    return bare_texts(values.dictionary_decode(), kind.value_type, path, form)


def _numbers(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    """Write doubles shortest; a whole one keeps its point, and so its sign and its kind."""
    del kind, form
    values = values.cast(pa.float64())
    finite = pc.is_finite(values).fill_null(True)
    is_fitting = pc.all(finite).as_py()
    misfits = [] if is_fitting else [Misfits(path, ~mask_of(finite), _NO_NUMBER)]
    texts = values.cast(pa.string())
    whole = pc.equal(values, pc.floor(values)).fill_null(False)
    if pc.any(whole).as_py():  # looked at alone, for a search in all texts costs as much as they do
        own = texts.filter(whole)
        marked = pc.match_substring_regex(own, "[.ein]")
        own = pc.if_else(marked, own, pc.binary_join_element_wise(own, ".0", ""))
        texts = pc.replace_with_mask(texts, whole, own)
    return _Bare(texts, "", misfits)


def _decimals(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, path
    texts = values.cast(pa.string())
    exponents = pc.match_substring(texts, "E")
    if pc.any(exponents).as_py():
        plain = pa.array([format(each, "f") for each in values.filter(exponents).to_pylist()])
        texts = pc.replace_with_mask(texts, exponents.fill_null(False), plain.cast(pa.string()))
    return _Bare(texts, '"' if form.decimals == "string" else "", [])


def _strings(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, form
    texts, misfits = utf8_texts(values, path)
    if _may_need_escapes(texts):
        texts = pc.replace_substring(texts, "\\", "\\\\")
        texts = pc.replace_substring(texts, '"', '\\"')
        rare = pc.match_substring_regex(texts, _CONTROL)
        if pc.any(rare).as_py():
            given = pa.array([_escaped(each) for each in texts.filter(rare).to_pylist()])
            texts = pc.replace_with_mask(texts, rare.fill_null(False), given.cast(pa.string()))
    return _Bare(texts, '"', misfits)


def _may_need_escapes(texts: pa.StringArray) -> bool:
    """Look at the bytes of all texts at once: a search in each takes twenty times as long."""
    _, bounds, held = texts.buffers()
    if held is None or not len(texts):
        return False
    ends = np.frombuffer(bounds, np.int32, len(texts) + 1, 4 * texts.offset)
    data = np.frombuffer(held, np.uint8)[ends[0] : ends[-1]]
    is_escaped = data.size and data.min() < _SPACE
    return bool(is_escaped or (data == _QUOTE).any() or (data == _BACKSLASH).any())


def utf8_texts(values: pa.Array, path: str) -> tuple[pa.StringArray, list[Misfits]]:
    """Return the texts of a column, empty where it is none, and which these are."""
    values = values.cast(pa.string())
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.cast(pa.binary())
        wrong = np.array([not _is_utf8(each) for each in raw.to_pylist()], np.bool_)
        if not wrong.any():
            raise
        cleared = pc.replace_with_mask(raw, pa.array(wrong), pa.scalar(b""))
        return cleared.cast(pa.string()), [Misfits(path, wrong, NOT_UTF8)]
    return values, []


def _bytes(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, path, form
    return _Bare(_by_value(values, _base64), '"', [])


def _dates(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, form
    days = values.cast(pa.date32())
    days, misfits = _within(days, iso8601.DAY_MIN, iso8601.DAY_MAX, path)
    return _Bare(days.cast(pa.string()), '"', misfits)


def times_of_day(values: pa.Array, path: str) -> tuple[pa.Array, list[Misfits]]:
    """Return times without those that no day has, as 24:00, and which these are."""
    last = iso8601.DAY_US // PER_SECOND["us"] * PER_SECOND[values.type.unit] - 1
    return _within(values, 0, last, path, _NO_TIME)


def _times(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    del kind, form
    values, misfits = times_of_day(values, path)
    return _Bare(values.cast(pa.string()), '"', misfits)


def _timestamps(values: pa.Array, kind: Any, path: str, form: JsonForm) -> _Bare:
    zone, unit = "Z" if kind.tz else "", kind.unit
    if form.times == IN_MILLIS:
        return _Bare(millis_of(values).cast(pa.string()), "", [])
    per_day = iso8601.DAY_US // PER_SECOND["us"] * PER_SECOND[unit]
    low = max(iso8601.DAY_MIN * per_day, -(1 << 63))
    high = min((iso8601.DAY_MAX + 1) * per_day, 1 << 63) - 1
    values, misfits = _within(values, low, high, path)
    texts = values.cast(pa.timestamp(unit)).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T")
    if zone:
        texts = pc.binary_join_element_wise(texts, zone, "")
    return _Bare(texts, '"', misfits)


def millis_of(values: pa.Array) -> pa.Int64Array:
    """Return timestamps as milliseconds since 1970, rounded down."""
    counts = values.view(pa.int64())
    scale = PER_SECOND[values.type.unit]
    if scale <= PER_SECOND["ms"]:
        return pc.multiply(counts, PER_SECOND["ms"] // scale)
    present = counts.fill_null(0).to_numpy() // (scale // PER_SECOND["ms"])
    return pa.array(present, mask=~validity_of(counts))


def _within(
    values: pa.Array,
    low: int,
    high: int,
    path: str,
    cause: Cause = NO_YEAR,
) -> tuple[pa.Array, list[Misfits]]:
    """Return values without those whose counts are outside of bounds, and which these are."""
    counts = pa.int32() if values.type.bit_width == 32 else pa.int64()  # noqa: PLR2004
    numbers = values.view(counts)
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)).fill_null(True)
    if pc.all(inside).as_py():
        return values, []
    fitting = pc.if_else(inside, numbers, pa.scalar(0, counts)).view(values.type)
    return fitting, [Misfits(path, ~mask_of(inside), cause)]


def _structs(values: pa.StructArray, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    members = [
        Column(each.name, member, each.type)
        for each, member in zip(kind, values.flatten(), strict=True)
    ]
    if members:
        made = object_texts(members, path, form)
    else:
        made = JsonTexts(pa.array(["{}"] * len(values), pa.string()))
    return _Bare(_as_null(made.texts, values), "", made.misfits)


def _lists(values: pa.Array, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    made = json_texts(values.flatten(), kind.value_type, f"{path}[]", form)
    return _joined(values, lengths_of_lists(values), made, "[]")


def _maps(values: pa.MapArray, kind: pa.DataType, path: str, form: JsonForm) -> _Bare:
    if pa.types.is_nested(kind.key_type):
        raise InvalidError(
            f"the keys of the map {path} are of the type {kind.key_type}, and members of an"
            " object of JSON have names",
            code="P839",
            hint="publish a table, or a view of it, without this column",
        )
    lists = as_lists(values)
    keys, items = lists.flatten().flatten()
    keyed = bare_texts(keys, kind.key_type, f"{path}{{}}", form)
    made = json_texts(items, kind.item_type, f"{path}{{}}", form)
    members = pc.binary_join_element_wise('"', keyed.texts, '":', made.texts, "")
    return _joined(
        values, lengths_of_lists(lists), JsonTexts(members, [*keyed.misfits, *made.misfits]), "{}"
    )


def _joined(
    values: pa.Array,
    lengths: npt.NDArray[np.int64],
    made: JsonTexts,
    brackets: str,
) -> _Bare:
    texts = pc.binary_join(list_array(lengths, made.texts), ",")
    texts = pc.binary_join_element_wise(brackets[0], texts, brackets[1], "")
    return _Bare(_as_null(texts, values), "", of_lists(made.misfits, lengths))


def _as_null(texts: pa.StringArray, values: pa.Array) -> pa.StringArray:
    if not values.null_count:
        return texts
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _by_value(values: pa.Array, write: Callable[[bytes], str]) -> pa.StringArray:
    return pa.array([None if v is None else write(v) for v in values.to_pylist()], pa.string())


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def uuid_text(value: bytes) -> str:
    """Return a UUID's bytes in its standard form."""
    digits = value.hex()
    return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def _escaped(text: str) -> str:
    """Escape control characters alone; quotes and backslashes are escaped already."""
    return "".join(each if each >= " " else json.dumps(each)[1:-1] for each in text)


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _one_of(*kinds: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(is_of(kind) for is_of in kinds)


is_text = _one_of(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
is_binary = _one_of(
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
is_list = _one_of(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_Writer = Callable[[Any, Any, str, JsonForm], _Bare]
_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], _Writer], ...] = (
    (pa.types.is_null, _nulls),
    (pa.types.is_dictionary, _dictionary),
    (pa.types.is_boolean, _plain),
    (pa.types.is_integer, _plain),
    (pa.types.is_floating, _numbers),
    (pa.types.is_decimal, _decimals),
    (is_text, _strings),
    (is_binary, _bytes),
    (pa.types.is_date, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_struct, _structs),
    (is_list, _lists),
    (pa.types.is_map, _maps),
)
