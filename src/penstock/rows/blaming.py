"""Records that are refused in storms are refused by columns: which value of each does not fit.

Records that did not land are read once more as a block, by the types that a few of them show: a
text where the table has a number, a field that it does not have. So each fault becomes a column,
which is looked at as a whole, and only its own values by the record converter's functions.

Invariants:
- a record is refused here for what the record converter (record.py) would refuse it for: the same
  code, path and reason; a property test says so;
- what columns cannot tell is left to the record converter: nothing lands from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Field, Kind, List, Schema, Struct, Type, join
from penstock.rows.block import Refused, parse_block, parsed_type
from penstock.rows.codes import NO_TEXT, Code, MisfitError
from penstock.rows.columns import finish, mask_of, not_numbers, of_lists, shortened, without_text
from penstock.rows.document import Number, kind_of, parse_object
from penstock.rows.envelopes import WITH_PLACEHOLDERS
from penstock.rows.exact import READABLE, Scalar, scalar
from penstock.rows.infer import columns_in, type_of
from penstock.rows.learning import LEARNED_MAX, WIDEST
from penstock.rows.options import RowOptions
from penstock.rows.placeholders import placeholder
from penstock.rows.record import LENIENT, NO_COLUMN, REQUIRED, joined_path
from penstock.rows.sift import plain

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_SHAPES_MAX = 4
_ALIKE_MIN = 64
_SAMPLE = 16
_FLOATING = (Kind.FLOAT, Kind.DOUBLE)


@dataclass(slots=True)
class _Blame:
    """Collect the first misfit of each record, in the record converter's order."""

    first: list[MisfitError | None]
    open: Mask
    """Which records have neither a misfit nor a doubt yet."""

    @classmethod
    def of(cls, count: int) -> _Blame:
        return cls([None] * count, np.ones(count, np.bool_))

    def refuse(self, mask: Mask, misfit: MisfitError) -> None:
        for index in np.flatnonzero(mask & self.open).tolist():
            self.first[index] = misfit
        self.open &= ~mask

    def doubt(self, mask: Mask) -> None:
        self.open &= ~mask


def refuse_alike(
    values: pa.BinaryArray, positions: Positions, own: Schema, options: RowOptions
) -> tuple[dict[int, MisfitError], Positions]:
    """Refuse the records at some positions that columns can tell the fault of, and give the rest.

    `own` are the columns that records are read into. Records are read by at most `_SHAPES_MAX`
    sets of types, so that no sender of many kinds of faults makes this slow.
    """
    misfits: dict[int, MisfitError] = {}
    if options.columns in LENIENT or options.types in LENIENT or not options.case_sensitive:
        return misfits, positions
    undecided = []
    for _ in range(_SHAPES_MAX):
        taken = values.take(pa.array(positions))
        shape = _shown(taken, own, options) if len(positions) >= _ALIKE_MIN else None
        alike = None if shape is None else _alike(taken, shape)
        if shape is None or alike is None:
            break
        mask, parsed = alike
        mine = positions[mask]
        found = _judged(taken if mask.all() else taken.filter(pa.array(mask)), parsed, own, options)
        decided = [misfit is not None for misfit in found]
        misfits |= {at: m for at, m in zip(mine.tolist(), found, strict=True) if m is not None}
        undecided.append(mine[~np.array(decided, np.bool_)])
        positions = positions[~mask]
    return misfits, np.sort(np.concatenate([positions, *undecided]))


def _alike(values: pa.BinaryArray, shape: Schema) -> tuple[Mask, pa.StructArray] | None:
    """Read the values that are of a shape; None where they are too few."""
    parsed = parse_block(values, shape)
    if not isinstance(parsed, Refused):
        return np.ones(len(values), np.bool_), parsed
    mask = plain(values, shape, decimals=int | float)
    if mask.sum() < _ALIKE_MIN:
        return None
    parsed = parse_block(values.filter(pa.array(mask)), shape)
    return None if isinstance(parsed, Refused) else (mask, parsed)


def _shown(values: pa.BinaryArray, own: Schema, options: RowOptions) -> Schema | None:
    """Give the types that a sample shows where its values are not of a schema's own."""
    shape, seen = own, False
    for index in range(0, len(values), max(1, len(values) // _SAMPLE)):
        try:
            record = parse_object(values[index].as_py(), depth_max=options.depth_max)
        except MisfitError:
            continue
        seen, wider = True, _with_shown(record, shape, own)
        if columns_in(wider) - columns_in(own) <= LEARNED_MAX:
            shape = wider
    return shape if seen else None


def _with_shown(record: dict[str, Any], shape: Struct, own: Struct) -> Struct:
    fields = {each.name: each for each in shape.fields}
    for name, value in record.items():
        declared, known = own.field(name), fields.get(name)
        if declared is None or known is None:
            before = Kind.UNKNOWN if known is None else known.type
            fields[name] = Field(name, join(before, type_of(value))[0])
        else:
            fields[name] = Field(name, _type_shown(value, known.type, declared.type))
    return Struct(tuple(fields.values()))


def _type_shown(value: Any, shape: Type, own: Type) -> Type:
    """Give the type to read a column by: the first one that a value asks for counts."""
    if isinstance(value, dict) and isinstance(own, Struct) and isinstance(shape, Struct):
        return _with_shown(value, shape, own)
    if value is None or shape != own:
        return shape
    match value, own:
        case (dict(), Struct()) | (list(), List()):
            return shape
        case ((bool() | dict() | list()), _):
            return type_of(value)
        case Number(), Kind.FLOAT | Kind.DOUBLE:
            return shape
        case Number(), Kind.INT | Kind.LONG if _is_plain(value, own):
            return shape
        case Number(), _:
            return WIDEST
        case str(), Decimal() | Struct() | List():
            return Kind.STRING
        case str(), Kind.INT | Kind.LONG | Kind.FLOAT | Kind.DOUBLE | Kind.BOOLEAN | Kind.UNKNOWN:
            return Kind.STRING
        case _:
            return shape


def _is_plain(number: Number, own: Kind) -> bool:
    bound = 1 << (31 if own is Kind.INT else 63)
    return number.removeprefix("-").isdecimal() and -bound <= int(number) < bound


def _judged(
    values: pa.BinaryArray, parsed: pa.StructArray, own: Schema, options: RowOptions
) -> list[MisfitError | None]:
    """Give the misfit of each record, or None where the record converter has to look."""
    blame = _Blame.of(len(parsed))
    blame.doubt(mask_of(parsed.is_null()))
    marks = not_numbers(parsed)  # not JSON, whatever else it may be
    if marks is not None:
        blame.doubt(marks != 0)
    if options.envelope in WITH_PLACEHOLDERS:
        pattern = placeholder(options.unavailable_value).pattern
        blame.doubt(mask_of(pc.match_substring_regex(values, pattern)))
    _Judge(options, blame).struct(parsed, own, np.ones(len(parsed), np.bool_), "")
    return blame.first


@dataclass(slots=True)
class _Judge:
    options: RowOptions
    blame: _Blame
    told: dict[tuple[str, str, str], MisfitError] = field(default_factory=dict)
    """Misfits by their code, reason and path: a storm needs few of them."""

    def struct(self, array: pa.StructArray, own: Struct, here: Mask, path: str) -> None:
        """Look at the members of objects, in the order of the record converter."""
        looks_first = self.options.columns == "quarantine"
        if looks_first:
            self._unknown(array, own, here, path)
        for index, member in enumerate(own.fields):
            self._member(array.field(index), member, here, path)
        if not looks_first:
            self._unknown(array, own, here, path)

    def _unknown(self, array: pa.StructArray, own: Struct, here: Mask, path: str) -> None:
        names = array.type.names
        for index in sorted(range(len(own.fields), len(names)), key=names.__getitem__):
            misfit = MisfitError(Code.UNKNOWN_FIELD, NO_COLUMN, joined_path(path, names[index]))
            self.blame.refuse(here & _says(array.field(index)), misfit)

    def _member(self, array: pa.Array, own: Field, parent: Mask, path: str) -> None:
        place = joined_path(path, own.name)
        absent = mask_of(array.is_null())
        if own.required:
            self.blame.refuse(parent & absent, MisfitError(Code.MISSING, REQUIRED, place))
        here = parent & ~absent
        if not here.any():
            return
        minded = not path and own.type is Kind.STRING and own.name in self.options.not_empty
        if minded and pa.types.is_string(array.type):
            empty = MisfitError(Code.EMPTY_TEXT, NO_TEXT, place)
            self.blame.refuse(here & without_text(array), empty)
        match own.type:
            case Struct() if pa.types.is_struct(array.type):
                self.struct(array, own.type, here, place)
            case List() if pa.types.is_list(array.type):
                marks = finish(array, own.type, self.options).marks
                if marks is not None:
                    self.blame.doubt(here & (marks != 0))
            case Struct() | List():
                wanted = "an object" if isinstance(own.type, Struct) else "an array"
                reason = f"{kind_of(_standing(array))}, not {wanted}"
                self.blame.refuse(here, MisfitError(Code.WRONG_TYPE, reason, place))
            case _:
                self._scalar(array, own.type, here, place)

    def _scalar(self, array: pa.Array, own: Any, here: Mask, place: str) -> None:
        if _is_read_as(array, own):
            marks = finish(array, own, self.options).marks
            if marks is None:
                return
            here = here & (marks != 0)
            if own in _FLOATING:  # the text of a number tells, which is not here
                self.blame.doubt(here)
                return
        convert = scalar(own, self.options)
        for mask, stand_in in _alike_values(array, own):
            misfit = self._misfit(convert, stand_in, place)
            assert misfit is not None, "what stands for refused values is refused"
            self.blame.refuse(here & mask, misfit)
        (places,) = np.nonzero(here & self.blame.open)
        values = array.take(pa.array(places)).to_pylist() if len(places) else []
        for index, value in zip(places.tolist(), values, strict=True):
            if (misfit := self._misfit(convert, value, place)) is not None:
                self.blame.first[index] = misfit
                self.blame.open[index] = False

    def _misfit(self, convert: Scalar, value: Any, place: str) -> MisfitError | None:
        try:
            convert(value)
        except MisfitError as misfit:
            key = (misfit.code, misfit.reason, place)
            return self.told.setdefault(key, misfit.at(place).alone())
        return None


def _is_read_as(array: pa.Array, own: Type) -> bool:
    """Tell whether a column was read by its own type, or one that `finish` brings to it."""
    exact = own in (Kind.INT, Kind.LONG) or isinstance(own, Decimal)
    return array.type == parsed_type(own) or (exact and pa.types.is_decimal(array.type))


def _alike_values(array: pa.Array, own: Type) -> Iterator[tuple[Mask, Any]]:
    """Give values that are refused for the same reason, and one that stands for them."""
    everything = np.ones(len(array), np.bool_)
    if pa.types.is_decimal(array.type) and _is_read_as(array, own):
        scale = own.scale if isinstance(own, Decimal) else 0
        _, uncut = shortened(array, scale)
        yield mask_of(pc.invert(uncut).fill_null(False)), Number(f"1e-{scale + 1}")
        yield everything, Number("1e76")
    elif not pa.types.is_string(array.type):
        yield everything, _standing(array)
    elif (pattern := READABLE.get(own if isinstance(own, Kind) else type(own))) is not None:
        read = pc.match_substring_regex(array, f"^(?:{pattern})$")
        yield mask_of(pc.invert(read).fill_null(False)), ""


def _standing(array: pa.Array) -> Any:
    """Give a value that stands for all of a column, where only their kind counts."""
    if pa.types.is_struct(array.type):
        return {}
    if pa.types.is_list(array.type):
        return []
    if pa.types.is_decimal(array.type):
        return Number("0")
    return False if pa.types.is_boolean(array.type) else ""


def _says(array: pa.Array) -> Mask:
    """Tell which values are more than nulls and empty shells (`document.says_nothing`)."""
    valid = mask_of(array.is_valid())
    if pa.types.is_struct(array.type):
        said = np.zeros(len(array), np.bool_)
        for index in range(array.type.num_fields):
            said |= _says(array.field(index))
        return valid & said
    if pa.types.is_list(array.type):
        marked: Mask = of_lists(array, _says(array.values).astype(np.uint8)) != 0
        return marked
    return valid
