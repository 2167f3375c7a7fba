"""The converter of single records: the authority on what fits a schema, and why not.

A schema is compiled once into nested functions; each takes a parsed value and gives what
`pyarrow.array` takes, or raises. The block path (block_parser.py) may only accept what this one
accepts, with equal rows; a property test says so.

Invariants:
- members are matched by their exact names; a missing member is null;
- what is dropped or rescued is told to `Drops`, and only for records that land;
- a value that does not fit is left out at the nearest optional place at or above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.schema import Field, Kind, List, Map, Schema, Struct, Type
from penstock.rows.cast.rescued_column import Drops
from penstock.rows.cast.scalars import Scalar, scalar
from penstock.rows.column_paths import joined_path
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.json.parser import kind_of, says_nothing
from penstock.rows.decode.logical_types import Temporal
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import NO_TEXT, Code, MisfitError

LENIENT = ("drop_value", "rescue")
"""The policies under which a record lands without what does not fit."""
LEFT_OUT = "the source left the value out"
NO_COLUMN = "the table has no such column"
REQUIRED = "a required column is null or missing"

Fit = Callable[[Any, Drops], Any]


def record_fit(schema: Schema, options: RowOptions) -> Fit:
    """Compile a schema of payload columns into the converter of a parsed object."""
    return _struct(schema, "", options)


def available_scalar(type_: Any, options: RowOptions) -> Scalar:
    """Return the function that converts a value, and refuses what stands in place of one.

    It raises MisfitError.
    """
    convert = scalar(type_, options)
    if options.envelope in WITH_PLACEHOLDERS:
        convert = _available(convert, placeholder(options.unavailable_value).values)
    return convert


def _fit(type_: Type, path: str, options: RowOptions) -> Fit:
    match type_:
        case Struct():
            return _struct(type_, path, options)
        case List():
            return _list(type_, path, options)
        case Map():
            return _map(type_, path, options)
        case _:
            return _scalar(type_, path, options)


def _scalar(type_: Any, path: str, options: RowOptions) -> Fit:
    convert = available_scalar(type_, options)

    def fit(value: Any, _: Drops) -> Any:
        try:
            return convert(value)
        except MisfitError as misfit:
            misfit.path = misfit.path or path
            raise

    return fit


def _available(
    convert: Callable[[Any], Any], placeholders: frozenset[str | bytes]
) -> Callable[[Any], Any]:
    """Refuse what stands in place of a value that the source left out."""

    def available(value: Any) -> Any:
        if isinstance(value, str | bytes) and value in placeholders:
            raise MisfitError(Code.NOT_AVAILABLE, LEFT_OUT)
        return convert(value)

    return available


def _stands_in(items: list[Any], numbers: tuple[str, ...]) -> bool:
    """Return whether an array of numbers, or of days and times, is the placeholder's bytes."""
    if len(items) != len(numbers):
        return False
    counts = (each.count if isinstance(each, Temporal) else each for each in items)
    return tuple(map(str, counts)) == numbers


def _struct(type_: Struct, path: str, options: RowOptions) -> Fit:
    members = [(field.name, _member_fit(field, path, options)) for field in type_.fields]
    names = frozenset(type_.names)
    looks_first = options.columns == "quarantine"  # what has no column is refused at once

    def leave_out(value: dict[str, Any], drops: Drops) -> None:
        # The keys of a map, which may be what stands here, need not be text.
        unknown = sorted((name for name in value if name not in names), key=str)
        for (
            name
        ) in unknown:  # in this order, as columns do not tell which stood first (bulk_rejects.py)
            _leave_out(value[name], joined_path(path, str(name)), options, drops)

    def fit(value: Any, drops: Drops) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MisfitError(Code.WRONG_TYPE, f"{kind_of(value)}, not an object", path)
        complete = names.issuperset(value)
        if looks_first and not complete:
            leave_out(value, drops)
        row = {name: member(value.get(name), drops) for name, member in members}
        if not looks_first and not complete:
            leave_out(value, drops)
        return row

    return fit


def _leave_out(value: Any, path: str, options: RowOptions, drops: Drops) -> None:
    if says_nothing(value):
        if value is not None:
            drops.leave(path, value, "drop_value")
        return
    if options.columns not in LENIENT:
        raise MisfitError(Code.UNKNOWN_FIELD, NO_COLUMN, path)
    drops.leave(path, value, options.columns)


def _list(type_: List, path: str, options: RowOptions) -> Fit:
    place = f"{path}[]"
    element = _optional(
        _fit(type_.element, place, options), place, options, required=type_.element_required
    )

    enveloped = options.envelope in WITH_PLACEHOLDERS
    numbers = placeholder(options.unavailable_value).numbers

    def fit(value: Any, drops: Drops) -> list[Any]:
        if not isinstance(value, list):
            raise MisfitError(Code.WRONG_TYPE, f"{kind_of(value)}, not an array", path)
        if enveloped and _stands_in(value, numbers):
            raise MisfitError(Code.NOT_AVAILABLE, LEFT_OUT, path)
        return [element(item, drops) for item in value]

    return fit


def _map(type_: Map, path: str, options: RowOptions) -> Fit:
    place = f"{path}{{}}"
    key_fit = _fit(type_.key, place, options)
    value_fit = _optional(
        _fit(type_.value, place, options), place, options, required=type_.value_required
    )

    def fit(value: Any, drops: Drops) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise MisfitError(Code.WRONG_TYPE, f"{kind_of(value)}, not an object", path)
        entries = [(key_fit(key, drops), value_fit(item, drops)) for key, item in value.items()]
        if len({key for key, _ in entries}) != len(entries):
            raise MisfitError(Code.DUPLICATE_KEY, "two keys of the map become equal", path)
        return entries

    return fit


def _member_fit(field: Field, path: str, options: RowOptions) -> Fit:
    place = joined_path(path, field.name)
    fit = _fit(field.type, place, options)
    if not path and field.type is Kind.STRING and field.name in options.not_empty:
        fit = _with_text(fit, place)
    return _optional(fit, place, options, required=field.required)


def _with_text(fit: Fit, path: str) -> Fit:
    def filled(value: Any, drops: Drops) -> Any:
        if value == "":
            raise MisfitError(Code.EMPTY_TEXT, NO_TEXT, path)
        return fit(value, drops)

    return filled


def _optional(fit: Fit, path: str, options: RowOptions, *, required: bool) -> Fit:
    """Let null pass where it may stand, and land null for a misfit where the spec says so."""
    if required:
        return _required(fit, path)
    if options.types not in LENIENT:
        return lambda value, drops: None if value is None else fit(value, drops)

    def lenient(value: Any, drops: Drops) -> Any:
        if value is None:
            return None
        mark = drops.mark()
        try:
            return fit(value, drops)
        except MisfitError as misfit:
            if misfit.code is Code.UNKNOWN_FIELD:
                raise
            drops.back_to(mark)
            drops.leave(path, value, options.types)
            return None

    return lenient


def _required(fit: Fit, path: str) -> Fit:
    def strict(value: Any, drops: Drops) -> Any:
        if value is None:
            raise MisfitError(Code.MISSING, REQUIRED, path)
        return fit(value, drops)

    return strict
