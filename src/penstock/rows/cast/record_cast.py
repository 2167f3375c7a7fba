"""The converter of single records: the authority on what fits a schema, and why not.

A schema is compiled once into nested functions; each takes a parsed value and returns what
`pyarrow.array` accepts, or raises. The block path (block_parser.py) may only accept what this one
accepts, with equal rows; a property test says so.

Invariants:
- members are matched by their exact names; a missing member is null;
- dropped and rescued values are added to `LeftOut`, and only for records that land;
- a value that does not fit is left out at the nearest optional place at or above it; that of a
  former key never is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.core.column_paths import joined_path
from penstock.core.schema import Field, Kind, List, Map, Schema, Struct, Type
from penstock.rows.cast.rescued_column import LeftOut
from penstock.rows.cast.scalars import Scalar, scalar_cast
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.json.parser import is_empty, kind_of
from penstock.rows.decode.logical_types import Temporal
from penstock.rows.options import FORMER_KEY, RowOptions
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
    """Return the function that converts a value, and rejects anything else in its place.

    It raises RejectError.
    """
    convert = scalar_cast(type_, options)
    if options.envelope not in WITH_PLACEHOLDERS:
        return convert
    placeholders = placeholder(options.unavailable_value).values

    def available(value: Any) -> Any:
        if isinstance(value, str | bytes) and value in placeholders:
            raise RejectError(RejectCode.NOT_AVAILABLE, LEFT_OUT)
        return convert(value)

    return available


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


def _is_placeholder(items: list[Any], numbers: tuple[str, ...]) -> bool:
    """Return whether an array of numbers, or of days and times, is the placeholder's bytes."""
    if len(items) != len(numbers):
        return False
    counts = (each.count if isinstance(each, Temporal) else each for each in items)
    return tuple(map(str, counts)) == numbers


def _struct(type_: Struct, path: str, options: RowOptions) -> Cast:
    strict = replace(options, types="quarantine")
    members = [
        (field.name, _member_cast(field, path, strict if field.name == FORMER_KEY else options))
        for field in type_.fields
    ]
    names = frozenset(type_.names)
    looks_first = options.columns == "quarantine"  # what has no column is rejected at once

    def leave_out(value: dict[str, Any], drops: LeftOut) -> None:
        # The value may be a map, and the keys of a map need not be text. They are sorted,
        # since columns do not keep the order of members (bulk_rejects.py).
        for name in sorted((name for name in value if name not in names), key=str):
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
        if enveloped and _is_placeholder(value, numbers):
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

    def filled(value: Any, drops: LeftOut) -> Any:
        if value == "":
            raise RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, place)
        return fit(value, drops)

    must_not_be_empty = not path and field.type is Kind.STRING and field.name in options.not_empty
    return _optional(filled if must_not_be_empty else fit, place, options, required=field.required)


def _optional(fit: Cast, path: str, options: RowOptions, *, required: bool) -> Cast:
    """Let null pass where it is allowed, and land null for a reject where the spec says so."""

    def strict(value: Any, drops: LeftOut) -> Any:
        if value is None:
            raise RejectError(RejectCode.MISSING, REQUIRED, path)
        return fit(value, drops)

    if required:
        return strict
    if options.types not in LENIENT:
        return lambda value, drops: None if value is None else fit(value, drops)

    def lenient(value: Any, drops: LeftOut) -> Any:
        if value is None:
            return None
        dropped, rescued = len(drops.paths), len(drops.rescued)
        try:
            return fit(value, drops)
        except RejectError as error:
            if error.code is RejectCode.UNKNOWN_FIELD:
                raise
            del drops.paths[dropped:]
            del drops.rescued[rescued:]
            drops.leave(path, value, options.types)
            return None

    return lenient
