"""Tables that are alike but for which records are theirs: converted once, then each takes its own.

A route's tables are: their records are one batch, and a conversion costs nearly as much for a
few records as for thousands.

Invariants:
- a table gets what it would get if its records were converted alone: the verdict on a record does
  not depend on the records around it (rows/convert/batch.py);
- a record that is neither a row nor rejected was filtered: its table counts it;
- where what was converted for all cannot be divided (it raised, is changes of keyed tables, or was
  filtered for several reasons), each table converts its own: one table's error is that table's;
- which values a row left out is not known by table: no book of a landing counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.landing.task.convert import Converted
from penstock.landing.task.messages import TableJob
from penstock.rows import bisection
from penstock.rows.convert.batch import ConvertedBatch
from penstock.rows.route.router import Mask

Convert = Callable[[TableJob, Mask], Converted]


def classes_of(tables: Mapping[str, TableJob]) -> dict[str, int]:
    """Return the number of each table's class: those of one class make the same of a record."""
    seen: list[TableJob] = []
    numbers = {}
    for name, table in tables.items():
        number = next((n for n, each in enumerate(seen) if each.converts_like(table)), len(seen))
        if number == len(seen):
            seen.append(table)
        numbers[name] = number
    return numbers


@dataclass(slots=True)
class AlikeTables:
    """The tables of one class that take records of a batch, and what these become.

    `masks` has by table which records are its. `offsets` are those of the batch; `_places` says at
    which of its records the rows that were made for all are, and at which the rejects.
    """

    masks: Mapping[str, Mask]
    offsets: npt.NDArray[np.int64]
    convert: Convert
    _all: Converted | None = None
    _tried: bool = False
    _places: tuple[npt.NDArray[np.int64], ...] = ()
    _union: Mask = field(init=False)

    def __post_init__(self) -> None:
        self._union = np.logical_or.reduce([*self.masks.values()])

    def of(self, name: str, table: TableJob) -> Converted:
        """Return what a table's records become. Raises what `convert` raises for these alone."""
        mask = self.masks[name]
        if len(self.masks) > 1:
            self._convert_all(table)
            if self._all is not None and np.array_equal(mask, self._union):
                return self._all
            if isinstance(self._all, ConvertedBatch) and len(self._all.filtered) <= 1:
                return self._part(self._all, mask)
        return self.convert(table, mask)

    def _part(self, converted: ConvertedBatch, mask: Mask) -> ConvertedBatch:
        rows, rejects = (np.flatnonzero(mask[places]) for places in self._places)
        rest = int(mask.sum()) - len(rows) - len(rejects)
        return ConvertedBatch(
            converted.rows.take(pa.array(rows)),
            converted.offsets[rows],
            tuple(converted.rejects[at] for at in rejects.tolist()),
            dict.fromkeys(converted.filtered, rest) if rest else {},
            {},
        )

    def _convert_all(self, table: TableJob) -> None:
        """Convert the records of all, once; after an error each table meets it again, or not."""
        if self._tried:
            return
        self._tried = True
        try:
            self._all = self.convert(table, self._union)
        except MemoryError:
            raise
        except PenstockError:
            return
        except bisection.UNEXPECTED_ERRORS:
            return
        if isinstance(self._all, ConvertedBatch):
            rejected = np.array([reject.offset for reject in self._all.rejects], np.int64)
            found = (self._all.offsets, rejected)
            self._places = tuple(np.searchsorted(self.offsets, each) for each in found)


def by_class(
    masks: Mapping[str, Mask],
    classes: Mapping[str, int],
    offsets: npt.NDArray[np.int64],
    convert: Convert,
) -> dict[str, AlikeTables]:
    """Put the tables that take records of a batch together by class; return each table's."""
    members: dict[int, dict[str, Mask]] = {}
    for name, mask in masks.items():
        members.setdefault(classes[name], {})[name] = mask
    alike = {n: AlikeTables(each, offsets, convert) for n, each in members.items()}
    return {name: alike[classes[name]] for name in masks}
