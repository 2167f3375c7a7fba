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

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Field, Kind, List, Schema, Struct, Type, join
from penstock.rows.adapting import adapt
from penstock.rows.block import Refused, parse_block, parsed_type
from penstock.rows.codes import MisfitError
from penstock.rows.columns import Marks, finish, mask_of, not_numbers
from penstock.rows.document import Number, parse_object
from penstock.rows.envelopes import WITH_PLACEHOLDERS
from penstock.rows.infer import columns_in, type_of
from penstock.rows.judging import judged
from penstock.rows.learning import LEARNED_MAX, WIDEST, sample
from penstock.rows.options import RowOptions
from penstock.rows.placeholders import placeholder
from penstock.rows.reading import Decoded
from penstock.rows.record import LENIENT
from penstock.rows.sift import Looks, looks

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_SHAPES_MAX = 4
_ALIKE_MIN = 64


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
        if shape is None:
            break
        look, parsed = _read(taken, shape)
        undecided.append(positions[look.broken])
        if parsed is not None:
            mine = positions[look.plain]
            alike = taken if look.plain.all() else taken.filter(pa.array(look.plain))
            found = _judged(alike, parsed, own, options)
            misfits |= {at: m for at, m in zip(mine.tolist(), found, strict=True) if m is not None}
            undecided.append(mine[[misfit is None for misfit in found]])
        rest = ~(look.plain | look.broken)
        if rest.all():
            break
        positions = positions[rest]
    return misfits, np.sort(np.concatenate([positions, *undecided]))


def refuse_typed(
    decoded: Decoded, positions: Positions, own: Schema, options: RowOptions
) -> tuple[dict[int, MisfitError], Positions]:
    """Refuse those of some records with types that columns can tell the fault of; give the rest."""
    if options.columns in LENIENT or options.types in LENIENT:
        misfits = dict(decoded.faults)
        return misfits, np.setdiff1d(positions, [*misfits])
    taken = decoded.array.take(pa.array(positions))
    unsure = decoded.doubtful[positions]
    found = judged(taken, own, options, marks=_marks_typed, unsure=unsure)
    if decoded.faults:
        found = [decoded.faults.get(at, m) for at, m in zip(positions.tolist(), found, strict=True)]
    misfits = {at: m for at, m in zip(positions.tolist(), found, strict=True) if m is not None}
    return misfits, positions[[misfit is None for misfit in found]]


def _marks_typed(array: pa.Array, own: Type, options: RowOptions) -> Marks | None:
    return adapt(array, own, options).marks


def _read(values: pa.BinaryArray, shape: Schema) -> tuple[Looks, pa.StructArray | None]:
    """Read the values that look like a shape; None where they are few, or do not parse."""
    parsed = parse_block(values, shape)
    if not isinstance(parsed, Refused):
        everything = np.ones(len(values), np.bool_)
        return Looks(everything, ~everything), parsed
    look = looks(values, shape, decimals=int | float)
    if look.plain.sum() < _ALIKE_MIN:
        return Looks(np.zeros(len(values), np.bool_), look.broken), None
    parsed = parse_block(values.filter(pa.array(look.plain)), shape)
    if isinstance(parsed, Refused):
        return Looks(np.zeros(len(values), np.bool_), look.broken), None
    return look, parsed


def _shown(values: pa.BinaryArray, own: Schema, options: RowOptions) -> Schema | None:
    """Give the types that a sample shows where its values are not of a schema's own."""
    shape, seen = own, False
    for index in sample(len(values)):
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
    digits = number.removeprefix("-")  # Python refuses to read thousands of them
    if len(digits) > len(str(bound)) or not digits.isdecimal():
        return False
    return -bound <= int(number) < bound


def _judged(
    values: pa.BinaryArray, parsed: pa.StructArray, own: Schema, options: RowOptions
) -> list[MisfitError | None]:
    """Give the misfit of each record, or None where the record converter has to look."""
    unsure = mask_of(parsed.is_null())
    marks = not_numbers(parsed)  # not JSON, whatever else it may be
    if marks is not None:
        unsure = unsure | (marks != 0)
    if options.envelope in WITH_PLACEHOLDERS:
        pattern = placeholder(options.unavailable_value).pattern
        unsure = unsure | mask_of(pc.match_substring_regex(values, pattern))
    return judged(parsed, own, options, marks=_marks, unsure=unsure)


def _marks(array: pa.Array, own: Type, options: RowOptions) -> Marks | None:
    """Mark the values of a column that may not fit: all, where it was read by another type."""
    exact = own in (Kind.INT, Kind.LONG) or isinstance(own, Decimal)
    if isinstance(own, List) or array.type == parsed_type(own):
        return finish(array, own, options).marks
    if exact and pa.types.is_decimal(array.type):
        return finish(array, own, options).marks
    return np.ones(len(array), np.uint8)
