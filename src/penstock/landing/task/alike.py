"""Tables that are alike but for which records are theirs: converted once, then each takes its own.

A route's tables are: their records are one batch, and a conversion costs nearly as much for a
few records as for thousands.

Invariants:
- a table gets what it would get if its records were converted alone: the verdict on a record does
  not depend on the records around it (rows/convert/batch.py);
- where what was converted for all cannot be divided (it raised, or counted by other things than
  records), each table converts its own: one table's error is that table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

    `masks` has by table which records are its. `offsets` are those of the batch.
    """

    masks: Mapping[str, Mask]
    offsets: npt.NDArray[np.int64]
    convert: Convert
    _all: Converted | None = None
    _tried: bool = False
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
            if isinstance(self._all, ConvertedBatch) and _is_of_records(self._all):
                return _part(self._all, mask, self.offsets)
        return self.convert(table, mask)

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


def _is_of_records(converted: ConvertedBatch) -> bool:
    """Return whether all that was counted is known by record."""
    return not converted.filtered and not converted.dropped


def _part(converted: ConvertedBatch, mask: Mask, offsets: npt.NDArray[np.int64]) -> ConvertedBatch:
    def own(of: Iterable[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.flatnonzero(mask[np.searchsorted(offsets, np.asarray(of, np.int64))])

    places = own(converted.offsets)
    rejects = own([reject.offset for reject in converted.rejects])
    return ConvertedBatch(
        converted.rows.take(pa.array(places)),
        converted.offsets[places],
        tuple(converted.rejects[at] for at in rejects.tolist()),
        {},
        {},
    )
