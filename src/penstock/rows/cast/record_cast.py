"""The converter of single records: the authority on what fits a schema, and why not.

A schema is compiled once into nested functions; each takes a parsed value and gives what
`pyarrow.array` takes, or raises. The block path (block_parser.py) may only accept what this one
accepts, with equal rows; a property test says so.

Invariants:
- members are matched by their exact names; a missing member is null;
- what is dropped or rescued is told to `LeftOut`, and only for records that land;
- a value that does not fit is left out at the nearest optional place at or above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.schema import Field, Kind, List, Map, Schema, Struct, Type
from penstock.rows.cast.rescued_column import LeftOut
from penstock.rows.cast.scalars import Scalar, scalar_cast
from penstock.rows.column_paths import joined_path
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.json.parser import is_empty, kind_of
from penstock.rows.decode.logical_types import Temporal
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import NO_TEXT, RejectCode, RejectError

LENIENT = ("drop_value", "rescue")
"""The policies under which a record lands without what does not fit."""
LEFT_OUT = "the source left the value out"
NO_COLUMN = "the table has no such column"
REQUIRED = "a required column is null or missing"

Cast = Callable[[Any, LeftOut], Any]


def compile_record_cast(schema: Schema, options: RowOptions) -> Cast:
    """Compile a schema of payload columns into the converter of a parsed object."""
    return _struct(schema, "", options)


def available_scalar_cast(type_: Any, options: RowOptions) -> Scalar:
    """Return the function that converts a value, and rejects what stands in place of one.

    It raises RejectError.
    """
    convert = scalar_cast(type_, options)
    if options.envelope in WITH_PLACEHOLDERS:
        convert = _available(convert, placeholder(options.unavailable_value).values)
    return convert


def _cast(type_: Type, path: str, options: RowOptions) -> Cast:
    match type_:
        case Struct():
            return _struct(type_, path, options)
        case List():
            return _list(type_, path, options)
        case Map():
            return _map(type_, path, options)
        case _:
            return _scalar(type_, path, options)


def _scalar(type_: Any, path: str, options: RowOptions) -> Cast:
    convert = available_scalar_cast(type_, options)

    def fit(value: Any, _: LeftOut) -> Any:
        try:
            return convert(value)
        except RejectError as error:
            error.path = error.path or path
            raise

    return fit


def _available(
    convert: Callable[[Any], Any], placeholders: frozenset[str | bytes]
) -> Callable[[Any], Any]:
    """Reject what stands in place of a value that the source left out."""

    def available(value: Any) -> Any:
        if isinstance(value, str | bytes) and value in placeholders:
            raise RejectError(RejectCode.NOT_AVAILABLE, LEFT_OUT)
        return convert(value)

    return available


def _stands_in(items: list[Any], numbers: tuple[str, ...]) -> bool:
    """Return whether an array of numbers, or of days and times, is the placeholder's bytes."""
    if len(items) != len(numbers):
        return False
    counts = (each.count if isinstance(each, Temporal) else each for each in items)
    return tuple(map(str, counts)) == numbers


def _struct(type_: Struct, path: str, options: RowOptions) -> Cast:
    members = [(field.name, _member_cast(field, path, options)) for field in type_.fields]
    names = frozenset(type_.names)
    looks_first = options.columns == "quarantine"  # what has no column is rejected at once

    def leave_out(value: dict[str, Any], drops: LeftOut) -> None:
        # The keys of a map, which may be what stands here, need not be text.
        unknown = sorted((name for name in value if name not in names), key=str)
        for (
            name
        ) in unknown:  # in this order, as columns do not tell which stood first (bulk_rejects.py)
            _leave_out(value[name], joined_path(path, str(name)), options, drops)

    def fit(value: Any, drops: LeftOut) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise RejectError(RejectCode.WRONG_TYPE, f"{kind_of(value)}, not an object", path)
        complete = names.issuperset(value)
        if looks_first and not complete:
            leave_out(value, drops)
        row = {name: member(value.get(name), drops) for name, member in members}
        if not looks_first and not complete:
            leave_out(value, drops)
        return row

    return fit


def _leave_out(value: Any, path: str, options: RowOptions, drops: LeftOut) -> None:
    if is_empty(value):
        if value is not None:
            drops.leave(path, value, "drop_value")
        return
    if options.columns not in LENIENT:
        raise RejectError(RejectCode.UNKNOWN_FIELD, NO_COLUMN, path)
    drops.leave(path, value, options.columns)


def _list(type_: List, path: str, options: RowOptions) -> Cast:
    place = f"{path}[]"
    element = _optional(
        _cast(type_.element, place, options), place, options, required=type_.element_required
    )

    enveloped = options.envelope in WITH_PLACEHOLDERS
    numbers = placeholder(options.unavailable_value).numbers

    def fit(value: Any, drops: LeftOut) -> list[Any]:
        if not isinstance(value, list):
            raise RejectError(RejectCode.WRONG_TYPE, f"{kind_of(value)}, not an array", path)
        if enveloped and _stands_in(value, numbers):
            raise RejectError(RejectCode.NOT_AVAILABLE, LEFT_OUT, path)
        return [element(item, drops) for item in value]

    return fit


def _map(type_: Map, path: str, options: RowOptions) -> Cast:
    place = f"{path}{{}}"
    key_fit = _cast(type_.key, place, options)
    value_fit = _optional(
        _cast(type_.value, place, options), place, options, required=type_.value_required
    )

    def fit(value: Any, drops: LeftOut) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise RejectError(RejectCode.WRONG_TYPE, f"{kind_of(value)}, not an object", path)
        entries = [(key_fit(key, drops), value_fit(item, drops)) for key, item in value.items()]
        if len({key for key, _ in entries}) != len(entries):
            raise RejectError(RejectCode.DUPLICATE_KEY, "two keys of the map become equal", path)
        return entries

    return fit


def _member_cast(field: Field, path: str, options: RowOptions) -> Cast:
    place = joined_path(path, field.name)
    fit = _cast(field.type, place, options)
    if not path and field.type is Kind.STRING and field.name in options.not_empty:
        fit = _with_text(fit, place)
    return _optional(fit, place, options, required=field.required)


def _with_text(fit: Cast, path: str) -> Cast:
    def filled(value: Any, drops: LeftOut) -> Any:
        if value == "":
            raise RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, path)
        return fit(value, drops)

    return filled


def _optional(fit: Cast, path: str, options: RowOptions, *, required: bool) -> Cast:
    """Let null pass where it may stand, and land null for a reject where the spec says so."""
    if required:
        return _required(fit, path)
    if options.types not in LENIENT:
        return lambda value, drops: None if value is None else fit(value, drops)

    def lenient(value: Any, drops: LeftOut) -> Any:
        if value is None:
            return None
        mark = drops.mark()
        try:
            return fit(value, drops)
        except RejectError as error:
            if error.code is RejectCode.UNKNOWN_FIELD:
                raise
            drops.back_to(mark)
            drops.leave(path, value, options.types)
            return None

    return lenient


def _required(fit: Cast, path: str) -> Cast:
    def strict(value: Any, drops: LeftOut) -> Any:
        if value is None:
            raise RejectError(RejectCode.MISSING, REQUIRED, path)
        return fit(value, drops)

    return strict
