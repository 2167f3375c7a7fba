"""Columns tell which records do not fit, and why: the first misfit of each, as record_cast.py finds
it.

Columns are looked at in the order in which the record converter looks at members. Of a column only
the values that are marked are converted, and where all of them fail alike, one stands for them.

Invariants:
- a misfit has the code, path and reason that the record converter gives; property tests say so;
- what columns cannot tell is a doubt, never a misfit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.cast.json_columns import CastResult, mask_of, of_lists, shortened, without_text
from penstock.rows.cast.record_cast import (
    LENIENT,
    NO_COLUMN,
    REQUIRED,
    available_scalar_cast,
)
from penstock.rows.cast.scalars import READABLE, Scalar
from penstock.rows.column_paths import joined_path
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.json.parser import JsonNumber, kind_of
from penstock.rows.decode.logical_types import MS, NS, US, DateValue, TimestampValue, TimeValue
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import NO_TEXT, RejectCode, RejectError

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
Finish = Callable[[pa.Array, Type, RowOptions], CastResult]
"""Brings a column to a type, and marks the values that may not fit it."""

_UNITS = {"s": 1, "ms": MS, "us": US, "ns": NS}


def first_failures(
    array: pa.StructArray, own: Struct, options: RowOptions, *, finish: Finish, unsure: Mask
) -> Verdicts:
    """Return why each record is rejected, where columns show it.

    `unsure` tells of which records nothing is to be said. Under a lenient policy a record that is
    not refused may still hold values that do not fit, and that its row is to be without.
    """
    verdict = Verdicts([None] * len(array), ~unsure)
    everything = np.ones(len(array), np.bool_)
    _Classifier(options, finish, verdict).struct(array, own, everything, "", verdict.refuse)
    return verdict


@dataclass(slots=True)
class Verdicts:
    """Collect the first misfit of each record."""

    first: list[RejectError | None]
    open: Mask
    """Which records have neither a misfit nor a doubt yet."""

    def refuse(self, mask: Mask, misfit: RejectError) -> None:
        """Refuse those of some records that are open."""
        for index in np.flatnonzero(mask & self.open).tolist():
            self.first[index] = misfit
        self.open &= ~mask

    def doubt(self, mask: Mask, _: RejectError | None = None) -> None:
        """Leave records to the record converter."""
        self.open &= ~mask


Refuse = Callable[[Mask, RejectError], None]


@dataclass(slots=True)
class _Classifier:
    options: RowOptions
    finish: Finish
    verdict: Verdicts
    told: dict[tuple[str, str, str], RejectError] = field(default_factory=dict)
    """Misfits by their code, reason and path: a storm needs few of them."""

    def struct(
        self, array: pa.StructArray, own: Struct, here: Mask, path: str, refuse: Refuse
    ) -> None:
        """Look at the members of objects, in the order of the record converter.

        `refuse` is called for records of which a required member does not fit.
        """
        members = dict(zip(array.type.names, array.flatten(), strict=True))
        unknown = {name: members[name] for name in sorted(members.keys() - set(own.names))}
        looks_first = self.options.columns == "quarantine"
        if looks_first:
            self._unknown(unknown, here, path)
        for each in own.fields:
            member = members.get(each.name)
            member = pa.nulls(len(array)) if member is None else member
            self._member(member, each, here, path, refuse)
        if not looks_first and self.options.columns not in LENIENT:
            self._unknown(unknown, here, path)

    def _unknown(self, members: dict[str, pa.Array], here: Mask, path: str) -> None:
        for name, array in members.items():
            if holds_map(array.type):
                self.verdict.doubt(here & mask_of(array.is_valid()))
                continue
            misfit = RejectError(RejectCode.UNKNOWN_FIELD, NO_COLUMN, joined_path(path, name))
            self.verdict.refuse(here & has_content(array), misfit)

    def _member(self, array: pa.Array, own: Field, parent: Mask, path: str, refuse: Refuse) -> None:
        place = joined_path(path, own.name)
        absent = mask_of(array.is_null())
        if own.required:
            refuse(parent & absent, RejectError(RejectCode.MISSING, REQUIRED, place))
        here = parent & ~absent
        if not here.any():
            return
        if not own.required and self.options.types in LENIENT:
            # The value is left out if it does not fit, with all that is within.
            if isinstance(own.type, Struct) and pa.types.is_struct(array.type):
                self.struct(array, own.type, here, place, self.verdict.doubt)
            elif isinstance(own.type, Struct | List | Map) and pa.types.is_nested(array.type):
                self.verdict.doubt(here)  # what has no column there refuses the record
            return
        minded = not path and own.type is Kind.STRING and own.name in self.options.not_empty
        if minded and pa.types.is_string(array.type):
            empty = RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, place)
            refuse(here & without_text(array), empty)
        match own.type:
            case Struct() if pa.types.is_struct(array.type):
                self.struct(array, own.type, here, place, refuse)
            case List() if pa.types.is_list(array.type):
                marks = self.finish(array, own.type, self.options).uncertain
                if marks is not None:
                    self.verdict.doubt(here & (marks != 0))
            case Struct() | List() if not pa.types.is_map(array.type):
                wanted = "an object" if isinstance(own.type, Struct) else "an array"
                reason = f"{kind_of(_first(array, here))}, not {wanted}"
                refuse(here, RejectError(RejectCode.WRONG_TYPE, reason, place))
            case Kind() | Decimal() | Fixed() if not pa.types.is_map(array.type):
                self._scalar(array, own.type, here, place, refuse)
            case _:
                self.verdict.doubt(here)

    def _scalar(self, array: pa.Array, own: Any, here: Mask, place: str, refuse: Refuse) -> None:
        marks = self.finish(array, own, self.options).uncertain
        if marks is None:
            return
        here = here & (marks != 0)
        if pa.types.is_floating(array.type):  # the text of a number tells, which may not be here
            self.verdict.doubt(here)
            return
        convert = available_scalar_cast(own, self.options)
        if not here.any():
            return
        for mask, stand_in in group_alike(array, own, here, self.options):
            misfit = self._misfit(convert, stand_in, place)
            assert misfit is not None, "what stands for refused values is refused"
            refuse(here & mask, misfit)
        (places,) = np.nonzero(here & self.verdict.open)
        found: dict[int, Mask] = {}
        misfits: dict[int, RejectError] = {}
        for index, value in zip(places.tolist(), values_at(array, places), strict=True):
            if (misfit := self._misfit(convert, value, place)) is not None:
                misfits[id(misfit)] = misfit
                found.setdefault(id(misfit), np.zeros(len(array), np.bool_))[index] = True
        for number, mask in found.items():
            refuse(mask, misfits[number])

    def _misfit(self, convert: Scalar, value: Any, place: str) -> RejectError | None:
        try:
            convert(value)
        except RejectError as misfit:
            key = (misfit.code, misfit.reason, place)
            return self.told.setdefault(key, misfit.at_path(place).without_traceback())
        return None


def group_alike(
    array: pa.Array, own: Type, here: Mask, options: RowOptions
) -> Iterator[tuple[Mask, Any]]:
    """Yield values that are refused for the same reason, and one that stands for them.

    `here` tells of which values, some at least, that is asked: those that `Finish` marks.
    """
    exact = own in (Kind.INT, Kind.LONG) or isinstance(own, Decimal)
    if pa.types.is_decimal(array.type) and exact:
        scale = own.scale if isinstance(own, Decimal) else 0
        _, uncut = shortened(array, scale)
        yield mask_of(pc.invert(uncut).fill_null(False)), JsonNumber(f"1e-{scale + 1}")
        yield here, JsonNumber("1e76")
    elif pa.types.is_integer(array.type) and own in (Kind.INT, Kind.LONG):
        yield here, JsonNumber("1e76")
    elif _is_refused_whatever_it_is(array, own):
        yield here, _first(array, here)
    elif pa.types.is_string(array.type) and options.envelope not in WITH_PLACEHOLDERS:
        pattern = READABLE.get(own if isinstance(own, Kind) else type(own))
        if pattern is not None:
            read = pc.match_substring_regex(array, f"^(?:{pattern})$")
            yield mask_of(pc.invert(read).fill_null(False)), ""


def _is_refused_whatever_it_is(array: pa.Array, own: Type) -> bool:
    """Return whether no value of a column's type is ever one of another type."""
    if pa.types.is_nested(array.type):
        return True
    if pa.types.is_boolean(array.type):
        return own is not Kind.BOOLEAN
    return pa.types.is_decimal(array.type) and own not in (Kind.FLOAT, Kind.DOUBLE)


def values_at(array: pa.Array, places: Positions) -> list[Any]:
    """Return values at some places, none of them null, as the record converter gets them."""
    kind = array.type
    taken = array.take(pa.array(places))
    if pa.types.is_struct(kind):
        return [{}] * len(places)
    if pa.types.is_list(kind):
        return [[]] * len(places)
    if not pa.types.is_temporal(kind):
        values: list[Any] = taken.to_pylist()
        return values
    counts = taken.view(pa.int64() if kind.bit_width == pa.int64().bit_width else pa.int32())
    if pa.types.is_date(kind):
        return [DateValue(count) for count in counts.to_pylist()]
    per_second = _UNITS[kind.unit]
    if pa.types.is_time(kind):
        return [TimeValue(count, per_second) for count in counts.to_pylist()]
    zoned = kind.tz is not None
    return [TimestampValue(count, per_second, zoned) for count in counts.to_pylist()]


def _first(array: pa.Array, here: Mask) -> Any:
    """Return one value of those that are here: only their kind counts."""
    return values_at(array, np.flatnonzero(here)[:1])[0]


def holds_map(kind: pa.DataType) -> bool:
    """Return whether a type is a map or has one within."""
    inside = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(map(holds_map, inside))


def has_content(array: pa.Array) -> Mask:
    """Return which values are more than nulls and empty shells (`document.says_nothing`)."""
    valid = mask_of(array.is_valid())
    if pa.types.is_struct(array.type):
        said = np.zeros(len(array), np.bool_)
        for member in array.flatten():
            said |= has_content(member)
        return valid & said
    if pa.types.is_list(array.type):
        marked: Mask = of_lists(array, has_content(array.values).astype(np.uint8)) != 0
        return marked
    return valid
