"""Decides by columns what becomes of records: a row, a row without some values, or a reject.

Columns are examined in the order in which the record converter (record_cast.py) examines
members. Only the uncertain values of a column are converted, and where all of them fail alike, one
of them for all.

Invariants:
- a row, its counts, its rescued text, and the code, path and reason of a reject are those that the
  record converter returns; property tests check this;
- a record that columns cannot decide in full is left to the record converter, whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.column_paths import path_of
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.arrow_arrays import Mask, mask_of, validity_bits
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, merged_counts
from penstock.rows.cast.json_columns import CastResult, is_cut, of_lists, shortened, without_text
from penstock.rows.cast.record_cast import LENIENT, NO_COLUMN, REQUIRED, available_scalar_cast
from penstock.rows.cast.scalars import READABLE
from penstock.rows.cast.typed_columns import count_unknown
from penstock.rows.convert.left_out_columns import (
    LeftOutColumn,
    TextsOf,
    rescued_texts,
    values_at,
)
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.json.parser import JsonNumber, kind_of
from penstock.rows.options import FORMER_KEY, RowOptions
from penstock.rows.reject_codes import NO_TEXT, RejectCode, RejectError

Reject = Callable[[Mask, RejectError], None]
Failures = list[tuple[Mask, RejectError]]
ColumnCast = Callable[[pa.Array, Type, RowOptions], CastResult]
"""Brings a column to a type, and marks the values that may not fit it."""

_INTEGERS = (Kind.INT, Kind.LONG)


def classify_columns(
    array: pa.StructArray,
    own: Struct,
    options: RowOptions,
    *,
    cast: ColumnCast,
    unsure: Mask,
    texts_of: TextsOf,
) -> BlockResult:
    """Return the rows and rejects that columns can decide; the rest is in neither.

    `unsure` are the records of which nothing is to be said.
    """
    columns = _Classifier(options, cast, ~unsure)
    if unsure.all():
        return BlockResult(pa.array([], arrow_type(own)), np.zeros(0, np.int64), {}, Counter())
    rows = columns.struct(array, own, ~unsure, (), columns.reject)
    rescued, unread = rescued_texts(columns.left_out, columns.open, texts_of)
    landed = columns.open & ~unread
    dropped: Counter[str] = Counter()
    for each in columns.left_out:
        if each.policy != "rescue" and (each.mask & landed).any():
            dropped[path_of(each.names)] += int((each.mask & landed).sum())
    if not landed.all():
        rows, array = rows.filter(pa.array(landed)), array.filter(pa.array(landed))
    if options.columns != "rescue":
        count_unknown(array, own, dropped)
    return BlockResult(
        rows, np.flatnonzero(landed), columns.rejects, merged_counts([dropped]), rescued=rescued
    )


@dataclass(slots=True)
class _Classifier:
    options: RowOptions
    cast: ColumnCast
    open: Mask
    """The records that are neither rejected nor left to the record converter yet."""
    rejects: dict[int, RejectError] = field(default_factory=dict)
    left_out: list[LeftOutColumn] = field(default_factory=list)

    def reject(self, mask: Mask, error: RejectError) -> None:
        """Reject those of some records that are open."""
        self.rejects |= dict.fromkeys(np.flatnonzero(mask & self.open).tolist(), error)
        self.open &= ~mask

    def leave(self, mask: Mask, _: RejectError | None = None) -> None:
        """Leave records to the record converter."""
        self.open &= ~mask

    def struct(
        self, array: pa.StructArray, own: Struct, here: Mask, names: tuple[str, ...], reject: Reject
    ) -> pa.StructArray:
        """Cast the members of objects; `reject` gets those of which a required one does not fit."""
        given = dict(zip(array.type.names, array.flatten(), strict=True))
        own_names = set(own.names)
        unknown = {name: given[name] for name in sorted(given) if name not in own_names}
        looks_first = self.options.columns == "quarantine"
        if looks_first:
            self._unknown(unknown, here, names)
        members = []
        for each in own.fields:
            member = given[each.name] if each.name in given else pa.nulls(len(array))
            members.append(self._member(member, each, here, (*names, each.name), reject))
        if not looks_first:
            self._unknown(unknown, here, names)
        bits = validity_bits(array)
        return pa.Array.from_buffers(arrow_type(own), len(array), [bits], children=members)

    def _unknown(self, members: dict[str, pa.Array], here: Mask, names: tuple[str, ...]) -> None:
        if self.options.columns == "drop_value":
            return  # counted with the rows that land
        for name, array in members.items():
            place, valid = (*names, name), here & mask_of(array.is_valid())
            said = here & has_content(array)
            if _holds_map(array.type):
                self.leave(valid)
            elif self.options.columns == "rescue":
                self._leave_out(place, array, said, "rescue")
                self._leave_out(place, array, valid & ~said, "drop_value")
            else:
                self.reject(said, RejectError(RejectCode.UNKNOWN_FIELD, NO_COLUMN, path_of(place)))

    def _leave_out(self, names: tuple[str, ...], array: pa.Array, mask: Mask, policy: str) -> None:
        if mask.any():
            self.left_out.append(LeftOutColumn(names, array, mask, policy))

    def _member(
        self, array: pa.Array, own: Field, parent: Mask, names: tuple[str, ...], reject: Reject
    ) -> pa.Array:
        absent = mask_of(array.is_null())
        if own.required:
            reject(parent & absent, RejectError(RejectCode.MISSING, REQUIRED, path_of(names)))
        here = parent & ~absent & self.open
        if not here.any():
            return pa.nulls(len(array), arrow_type(own.type))
        must_not_be_empty = own.type is Kind.STRING and own.name in self.options.not_empty
        failures = []
        if must_not_be_empty and len(names) == 1 and pa.types.is_string(array.type):
            empty = RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, path_of(names))
            failures.append((here & without_text(array), empty))
        strict = own.required or names[0] == FORMER_KEY  # as in cast/record_cast.py
        if strict or self.options.types not in LENIENT:
            done, more = self._value(array, own.type, here, names, reject)
            for mask, error in (*failures, *more):
                reject(mask, error)
            return done
        # What does not fit is left out here, unless the record converter must decide it.
        done, more = self._value(array, own.type, here, names, self.leave)
        left_out = np.logical_or.reduce([~here & here, *(mask for mask, _ in (*failures, *more))])
        self._leave_out(names, array, left_out, self.options.types)
        if pa.types.is_null(done.type) or not left_out.any():
            return done
        return pc.if_else(pa.array(left_out), pa.scalar(None, done.type), done)

    def _value(
        self, array: pa.Array, own: Type, here: Mask, names: tuple[str, ...], reject: Reject
    ) -> tuple[pa.Array, Failures]:
        is_map = pa.types.is_map(array.type)
        match own:
            case Struct() if pa.types.is_struct(array.type):
                return self.struct(array, own, here, names, reject), []
            case List() | Map() if pa.types.is_list(array.type) or is_map:
                done = self.cast(array, own, self.options)
                if done.uncertain is not None:
                    self.leave(here & (done.uncertain != 0))
                return done.array, []
            case Kind() | Decimal() | Fixed() if not is_map:
                return self._scalar(array, own, here, names)
        nothing = pa.nulls(len(array), arrow_type(own))
        if is_map or not isinstance(own, Struct | List):
            self.leave(here)
            return nothing, []
        wanted = "an object" if isinstance(own, Struct) else "an array"
        reason = f"{kind_of(_first(array, here))}, not {wanted}"
        return nothing, [(here, RejectError(RejectCode.WRONG_TYPE, reason, path_of(names)))]

    def _scalar(
        self, array: pa.Array, own: Kind | Decimal | Fixed, here: Mask, names: tuple[str, ...]
    ) -> tuple[pa.Array, Failures]:
        done = self.cast(array, own, self.options)
        rest = here if done.uncertain is None else here & (done.uncertain != 0)
        if done.uncertain is None or not rest.any():
            return done.array, []
        if pa.types.is_floating(array.type) and _is_number(own):
            self.leave(rest)  # only the text of a number decides, which may not be here
            return done.array, []
        convert, path = available_scalar_cast(own, self.options), path_of(names)
        failures: Failures = []
        for mask, stand_in in group_alike(array, own, rest, self.options):
            try:
                convert(stand_in)
            except RejectError as error:
                failures.append((rest & mask, RejectError(error.code, error.reason, path)))
            rest = rest & ~mask
        fits, values = [], []
        failing: dict[tuple[RejectCode, str], list[int]] = {}
        places = np.flatnonzero(rest)
        for place, value in zip(places.tolist(), values_at(array, places), strict=True):
            try:
                values.append(convert(value))
            except RejectError as error:
                failing.setdefault((error.code, error.reason), []).append(place)
            else:
                fits.append(place)
        for (code, reason), found in failing.items():
            failures.append((_mask(found, len(array)), RejectError(code, reason, path)))
        if not fits:
            return done.array, failures
        patched = pa.array(_mask(fits, len(array)))
        fitting = pa.array(values, arrow_type(own))
        return pc.replace_with_mask(done.array, patched, fitting), failures


def group_alike(
    array: pa.Array, own: Type, here: Mask, options: RowOptions
) -> Iterator[tuple[Mask, Any]]:
    """Yield values that fail for the same reason, and one that represents them.

    `here` are the values that are asked for, some at least: those that the cast marks.
    """
    exact = own in _INTEGERS or isinstance(own, Decimal)
    if pa.types.is_decimal(array.type) and exact:
        scale = own.scale if isinstance(own, Decimal) else 0
        cut, uncut = shortened(array, scale)
        loses = pc.and_(pc.invert(uncut), is_cut(array, cut)).fill_null(False)
        yield mask_of(loses), JsonNumber(f"1e-{scale + 1}")
        yield mask_of(uncut.fill_null(False)), JsonNumber("1e76")
    elif pa.types.is_integer(array.type) and own in _INTEGERS:
        yield here, JsonNumber("1e76")
    elif _never_fits(array.type, own):
        yield here, _first(array, here)
    elif pa.types.is_string(array.type) and options.envelope not in WITH_PLACEHOLDERS:
        pattern = READABLE.get(own if isinstance(own, Kind) else type(own))
        if pattern is not None:
            read = pc.match_substring_regex(array, f"^(?:{pattern})$")
            yield mask_of(pc.invert(read).fill_null(False)), ""


def _never_fits(kind: pa.DataType, own: Type) -> bool:
    if pa.types.is_boolean(kind):
        return own is not Kind.BOOLEAN
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return pa.types.is_nested(kind) or (is_number and not _is_number(own))


def _is_number(own: Type) -> bool:
    return own in (*_INTEGERS, Kind.FLOAT, Kind.DOUBLE) or isinstance(own, Decimal)


def _mask(places: list[int], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return mask


def _first(array: pa.Array, here: Mask) -> Any:
    """Return one value of those that are here: only their kind counts."""
    return values_at(array, np.flatnonzero(here)[:1])[0]


def _holds_map(kind: pa.DataType) -> bool:
    inside = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(map(_holds_map, inside))


def has_content(array: pa.Array) -> Mask:
    """Return which values are more than nulls and empty shells (`parser.is_empty`)."""
    valid = mask_of(array.is_valid())
    if pa.types.is_struct(array.type):
        said = np.zeros(len(array), np.bool_)
        for member in array.flatten():
            said |= has_content(member)
        return valid & said
    if pa.types.is_list(array.type):
        return np.asarray(of_lists(array, has_content(array.values).astype(np.uint8)), np.bool_)
    return valid
