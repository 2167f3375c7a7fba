"""Records of which some values do not fit land without these by columns, where the spec says so.

Columns are looked at twice: reject_columns.py tells which records are refused whatever is left out,
here the others get their rows. What does not fit becomes null, and is counted or kept as text.

Invariants:
- a row, its counts and its rescued text are those that the record converter (record_cast.py) gives;
  property tests say so;
- a record of which columns cannot tell all is left to the record converter, whole;
- a value that lands was exactly finished by json_columns.py or typed_columns.py, or converted
  alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions, merged_counts
from penstock.rows.cast.json_columns import mask_of, without_text
from penstock.rows.cast.record_cast import LENIENT, available_scalar_cast
from penstock.rows.cast.rescued_column import path_wrapping
from penstock.rows.cast.typed_columns import count_unknown
from penstock.rows.column_paths import joined_path
from penstock.rows.convert.reject_columns import (
    Finish,
    Mask,
    first_failures,
    group_alike,
    has_content,
    holds_map,
    values_at,
)
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """Values that rows are without: a member's, by the names that lead to it, of some records."""

    names: tuple[str, ...]
    array: pa.Array
    mask: Mask
    policy: str

    @property
    def path(self) -> str:
        """Return the column path."""
        path = ""
        for name in self.names:
            path = joined_path(path, name)
        return path


TextsOf = Callable[[Sequence[tuple[LeftOutColumn, Positions]]], Sequence[list[str] | None]]
"""Gives the JSON texts of left values at some places; None where the record converter must."""


def split_partial(
    array: pa.StructArray,
    own: Struct,
    options: RowOptions,
    *,
    finish: Finish,
    unsure: Mask,
    texts: TextsOf,
) -> tuple[BlockResult, Mask]:
    """Refuse and land what columns can tell the fate of, and tell which records are undecided.

    `unsure` tells of which records nothing is to be said.
    """
    if unsure.all():
        return BlockResult.none_of(own), np.ones(len(array), np.bool_)
    verdict = first_failures(array, own, options, finish=finish, unsure=unsure)
    misfits = {at: misfit for at, misfit in enumerate(verdict.first) if misfit is not None}
    undecided = np.ones(len(array), np.bool_)
    undecided[[*misfits]] = False
    if not verdict.open.any():
        return replace(BlockResult.none_of(own), rejects=misfits), undecided
    salvage = _PartialRows(options, finish, ~verdict.open)
    rows = salvage.struct(array, own, verdict.open, ())
    salvage.keep(texts)
    landed = ~salvage.doubts
    dropped = salvage.dropped(landed)
    mask = pa.array(landed)
    if options.columns != "rescue":
        count_unknown(array.filter(mask), own, dropped)
    saved = BlockResult(
        rows.filter(mask),
        np.flatnonzero(landed),
        misfits,
        merged_counts([dropped]),
        rescued=salvage.rescued(landed),
    )
    return saved, undecided & ~landed


@dataclass(slots=True)
class _PartialRows:
    options: RowOptions
    finish: Finish
    doubts: Mask
    """Which records the record converter must look at."""
    left: list[LeftOutColumn] = field(default_factory=list)
    kept: list[tuple[str, Positions, list[str]]] = field(default_factory=list)
    """Rescued texts by path, with their places, in the order of the record converter."""

    def struct(
        self, array: pa.StructArray, own: Struct, here: Mask, names: tuple[str, ...]
    ) -> pa.StructArray:
        """Return objects with the members that fit."""
        given = dict(zip(array.type.names, array.flatten(), strict=True))
        members = []
        for each in own.fields:
            member = given.pop(each.name, None)
            member = pa.nulls(len(array)) if member is None else member
            members.append(self._member(member, each, here, (*names, each.name)))
        if self.options.columns == "rescue":
            for name in sorted(given):
                self._unknown(given[name], here, (*names, name))
        bits = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(arrow_type(own), len(array), [bits], children=members)

    def _unknown(self, array: pa.Array, here: Mask, names: tuple[str, ...]) -> None:
        here = here & mask_of(array.is_valid())
        if holds_map(array.type):
            self.doubts |= here
            return
        said = here & has_content(array)
        self._leave(LeftOutColumn(names, array, said, "rescue"))
        self._leave(LeftOutColumn(names, array, here & ~said, "drop_value"))

    def _leave(self, left: LeftOutColumn) -> None:
        if left.mask.any():
            self.left.append(left)

    def _member(self, array: pa.Array, own: Field, here: Mask, names: tuple[str, ...]) -> pa.Array:
        here = here & mask_of(array.is_valid())
        if not here.any():
            return pa.nulls(len(array), arrow_type(own.type))
        done, unfit = self._value(array, own.type, here, names)
        minded = own.type is Kind.STRING and own.name in self.options.not_empty
        if minded and len(names) == 1 and pa.types.is_string(array.type):
            unfit = unfit | (here & without_text(array))
        if not unfit.any():
            return done
        if own.required or self.options.types not in LENIENT:
            self.doubts |= unfit  # refused, if anything: not here
        else:
            self._leave(LeftOutColumn(names, array, unfit, self.options.types))
        if pa.types.is_null(done.type):
            return done
        return pc.if_else(pa.array(unfit), pa.scalar(None, done.type), done)

    def _value(
        self, array: pa.Array, own: Type, here: Mask, names: tuple[str, ...]
    ) -> tuple[pa.Array, Mask]:
        """Return the values that fit, and which do not."""
        nothing = np.zeros(len(array), np.bool_)
        match own:
            case Struct() if pa.types.is_struct(array.type):
                return self.struct(array, own, here, names), nothing
            case List() | Map() if pa.types.is_list(array.type) or pa.types.is_map(array.type):
                done = self.finish(array, own, self.options)
                if done.uncertain is not None:
                    self.doubts |= here & (done.uncertain != 0)
                return done.array, nothing
            case Struct() | List() | Map():
                is_map = isinstance(own, Map) or pa.types.is_map(array.type)  # objects are as well
                self.doubts |= here if is_map else nothing
                return pa.nulls(len(array), arrow_type(own)), here
            case _:
                return self._scalar(array, own, here)

    def _scalar(
        self, array: pa.Array, own: Kind | Decimal | Fixed, here: Mask
    ) -> tuple[pa.Array, Mask]:
        done = self.finish(array, own, self.options)
        unfit = np.zeros(len(array), np.bool_)
        marked = here if done.uncertain is None else here & (done.uncertain != 0)
        if done.uncertain is None or not marked.any():
            return done.array, unfit
        if pa.types.is_floating(array.type):  # the text of a number tells, which may not be here
            self.doubts |= marked
            return done.array, unfit
        for mask, _ in group_alike(array, own, marked, self.options):
            unfit |= mask & marked
        places = np.flatnonzero(marked & ~unfit)
        if not len(places):
            return done.array, unfit
        convert, fits, values = available_scalar_cast(own, self.options), [], []
        for place, value in zip(places.tolist(), values_at(array, places), strict=True):
            try:
                values.append(convert(value))
            except RejectError:
                unfit[place] = True
                continue
            fits.append(place)
        if not fits:
            return done.array, unfit
        patched = np.zeros(len(array), np.bool_)
        patched[fits] = True
        found = pa.array(values, arrow_type(own))
        return pc.replace_with_mask(done.array, pa.array(patched), found), unfit

    def keep(self, texts: TextsOf) -> None:
        """Get the texts of what is rescued; where that cannot be, the records are doubtful."""
        wanted = [
            (left, np.flatnonzero(left.mask & ~self.doubts))
            for left in self.left
            if left.policy == "rescue"
        ]
        for (left, places), found in zip(wanted, texts(wanted), strict=True):
            if found is None:
                self.doubts |= left.mask
            else:
                self.kept.append((left.path, places, found))

    def dropped(self, landed: Mask) -> Counter[str]:
        """Count the values that rows are without, by column path."""
        drops: Counter[str] = Counter()
        for left in self.left:
            count = int((left.mask & landed).sum()) if left.policy != "rescue" else 0
            if count:
                drops[left.path] += count
        return drops

    def rescued(self, landed: Mask) -> dict[int, str]:
        """Return the text of what each row leaves out, by its place."""
        members: dict[int, str] = {}
        for path, places, found in self.kept:
            before, behind = path_wrapping(path)
            texts = dict(zip(places.tolist(), found, strict=True))
            if not landed[places].all():
                texts = {place: texts[place] for place in places[landed[places]].tolist()}
            both = members.keys() & texts.keys()
            earlier = {place: f"{members[place]},{before}{texts[place]}{behind}" for place in both}
            members |= {place: f"{before}{text}{behind}" for place, text in texts.items()}
            members |= earlier
        return {place: f"{{{text}}}" for place, text in members.items()}
