"""What many records of a block share, and the schema does not say, is learned from a few of them.

So a block that did not parse may parse still. `learn` adds the unknown fields that may be left out
as further members behind those of each struct: under `drop_value` any field, under `quarantine`
only those that say nothing (null, `{}`, `[]`), which are no reason to refuse a record. And it has
integers that come as text or with a point read as decimals, which json_columns.py narrows again.

Invariants: at most `LEARNED_MAX` fields are learned, whatever is in the records; a field that was
not learned makes the block fail to parse, so no field is ever ignored unseen.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import gcd
from typing import Any

import pyarrow as pa

from penstock.core.names import folded
from penstock.core.schema import Decimal, Field, Kind, List, Schema, Struct, Type
from penstock.core.schema_join import join
from penstock.rows.column_paths import joined_path
from penstock.rows.decode.json.exact_text import stands_for_integer
from penstock.rows.decode.json.parser import is_empty, parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, type_of

LEARNED_MAX = 256
WIDEST = Decimal(38, 38)
_SAMPLE = 64
_RHYTHMS = 2 * 3 * 5 * 7 * 11 * 13
_STEP_MIN = 17


def with_sampled_fields(values: pa.BinaryArray, schema: Schema, options: RowOptions) -> Schema:
    """Return the schema to read with: wide decimals, and a sample's unknown fields last."""
    learned = _widened(schema)
    for index in sample_positions(len(values)):
        try:
            record = parse_object(values[index].as_py(), depth_max=options.depth_max)
        except RejectError:
            continue
        wider = _with_members(record, learned, schema, options)
        if columns_in(wider) - columns_in(schema) <= LEARNED_MAX:
            learned = wider
    return learned


def sample_positions(count: int) -> list[int]:
    """Return places all over a block, by steps that no short rhythm of its records divides."""
    step = max(_STEP_MIN, count // _SAMPLE)
    while gcd(step, _RHYTHMS) > 1:
        step += 1
    places = (place for first in range(step) for place in range(first, count, step))
    return sorted(islice(places, _SAMPLE))


def _widened(struct: Struct) -> Struct:
    """Read decimals with all digits, so that one with too many does not fail the block."""
    return Struct(tuple(Field(f.name, _wide_type(f.type), f.required) for f in struct.fields))


def _wide_type(type_: Type) -> Type:
    match type_:
        case Decimal():
            return WIDEST
        case Struct():
            return _widened(type_)
        case List(element, required):
            return List(_wide_type(element), required)
        case _:
            return type_


def count_dropped(array: pa.Array, type_: Type, drops: Counter[str], path: str = "") -> None:
    """Count the non-null values of learned fields by column path, in an array as parsed."""
    match type_:
        case Struct(fields):
            for index in range(array.type.num_fields):
                name, member = array.type.field(index).name, array.field(index)
                place = joined_path(path, name)
                if index < len(fields):
                    count_dropped(member, fields[index].type, drops, place)
                elif len(member) > member.null_count:
                    drops[place] += len(member) - member.null_count
        case List(element):
            count_dropped(array.values, element, drops, f"{path}[]")
        case _:
            return


def _with_members(
    record: dict[str, Any], learned: Struct, own: Struct, options: RowOptions
) -> Struct:
    """Add a record's unknown members; `own` is what the table itself has at this place."""
    fields = {field.name: field for field in learned.fields}
    own_names = set(own.names)
    columns = set() if options.case_sensitive else {folded(name) for name in own_names}
    for name, value in record.items():
        known = fields.get(name)
        if name in own_names and known is not None:
            declared = own.field(name)
            assert declared is not None, "a name of its own is found"
            type_ = _within(value, known.type, declared.type, options)
            fields[name] = Field(name, type_, known.required)
        elif folded(name) in columns:
            continue  # a column that is spelled in two ways: such records are read alone
        elif options.columns == "drop_value" or is_empty(value):
            before = Kind.UNKNOWN if known is None else known.type
            fields[name] = Field(name, join(before, type_of(value))[0])
    return Struct(tuple(fields.values()))


def _within(value: Any, learned: Type, own: Type, options: RowOptions) -> Type:
    match value, learned, own:
        case str(), Kind.INT | Kind.LONG, _ if stands_for_integer(value):
            return WIDEST
        case dict(), Struct(), Struct():
            return _with_members(value, learned, own, options)
        case [dict() as first, *_], List(Struct() as element, required), List(Struct() as inner):
            return List(_with_members(first, element, inner, options), required)
        case _:
            return learned
