"""Make one list of the keys that the slices of an epoch touch (docs/design/0244).

Theory of operation: each slice has netted its changes and written their rows. Of a key that is in
several parts, or in one for several partitions, the last change in the order of the fold stays; the
rows of the others are deleted in their own files by the same commit. A file of which no row stays
is left out of the commit.

Invariant: what stays is the net of all changes, however they were cut into parts, in whatever order
the parts come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.growth import FormerEnds, end_in
from penstock.core.offsets import Positions, TopicPartition
from penstock.rows.arrow_arrays import Mask
from penstock.rows.keyed.digest import grouped
from penstock.rows.keyed.sequence import sequence_numbers
from penstock.rows.keyed.touched import TouchedRows, touched_from_bytes, written

_LONG_MAX = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """The keys that an epoch changes in a keyed table, and what goes with them.

    `touched` are the keys as they go with the commit; `names` are the columns of the key, and
    `sequence` those by which changes compare. `files` are the ordinals of the files of which a row
    stays, ascending: the commit has these, and `touched` names them by their new places.
    `superseded` counts, by partition, the records whose change a later one replaces, `landed` the
    others, and `rows` what the files that stay hold: rows that land, and those that are deleted
    again. `across` counts the keys that were changed in two partitions.
    """

    names: tuple[str, ...]
    touched: bytes = field(repr=False)
    files: tuple[int, ...]
    superseded: Mapping[TopicPartition, int]
    landed: int
    rows: int
    across: int
    sequence: tuple[str, ...] = ()


def merge_touched(
    parts: Sequence[tuple[bytes, int]], rows_of_files: Sequence[int], grown: FormerEnds = ()
) -> MergedKeys:
    """Merge the parts of one table; there is at least one.

    With each part comes how many files of the table come before its own; `rows_of_files` are the
    rows written to each. By `grown` the order of some partitions is known: a sample may hold what
    is read in several epochs. Raises InvalidError (P190, P191).
    """
    whole = _joined([(touched_from_bytes(content), before) for content, before in parts])
    order, begins = grouped(whole.digests)
    ranks = _ranks(whole)[order]
    best = np.maximum.reduceat(ranks, begins) if len(begins) else ranks
    lengths = np.diff(np.append(begins, len(order)))
    stays = np.zeros(len(order), np.bool_)
    stays[order] = ranks == np.repeat(best, lengths)
    assert stays.sum() == len(begins), "a change is in one part"
    across = _across(whole, order, begins, grown)
    superseded = ~stays & (whole.file >= 0)
    files = np.asarray(rows_of_files, np.int64)
    empty = (files > 0) & (np.bincount(whole.file[superseded], minlength=len(files)) == files)
    renumbered = np.append(np.cumsum(~empty) - 1, -1).astype(np.int32)  # the last is for none
    left = superseded
    if len(files):
        left = superseded & ~empty[np.where(superseded, whole.file, 0)]
    lanes = np.bincount(whole.lane[~stays & whole.counts], minlength=len(whole.lanes))
    merged = replace(
        _taken(whole, np.flatnonzero(stays), renumbered),
        superseded_file=renumbered[whole.file[left]],
        superseded_row=whole.row[left],
        across=across,
    )
    return MergedKeys(
        names=whole.names,
        touched=written(merged),
        sequence=tuple(merged.sequence),
        files=tuple(np.flatnonzero(~empty).tolist()),
        superseded={at: int(n) for at, n in zip(whole.lanes, lanes, strict=True) if n},
        landed=int(merged.counts.sum()),
        rows=int(merged.upsert.sum()) + len(merged.superseded_row),
        across=across,
    )


def _joined(parts: Sequence[tuple[TouchedRows, int]]) -> TouchedRows:
    """Lay parts one after another; lanes and files are numbered through."""
    first, _ = parts[0]
    lanes = tuple(sorted({at for each, _ in parts for at in each.lanes}))
    number = {at: np.int32(place) for place, at in enumerate(lanes)}
    listed = [each for each, _ in parts]
    return replace(
        first,
        lanes=lanes,
        keys=tuple(
            pa.concat_arrays(column) for column in zip(*(e.keys for e in listed), strict=True)
        ),
        digests=pa.concat_arrays([each.digests for each in listed]),
        upsert=np.concatenate([each.upsert for each in listed]),
        counts=np.concatenate([each.counts for each in listed]),
        lane=np.concatenate(
            [np.array([number[at] for at in e.lanes], np.int32)[e.lane] for e in listed]
        ),
        offset=np.concatenate([each.offset for each in listed]),
        sub=np.concatenate([each.sub for each in listed]),
        file=np.concatenate(
            [np.where(e.file >= 0, e.file + np.int32(before), np.int32(-1)) for e, before in parts]
        ),
        row=np.concatenate([each.row for each in listed]),
        gone=_gone([each.gone for each in listed]),
        sequence={
            name: pa.concat_arrays([each.sequence[name] for each in listed])
            for name in first.sequence
        },
    )


def _gone(parts: Sequence[Mask | None]) -> Mask | None:
    """Join what parts of one table say of rows of deleted keys: all do, or none."""
    given = [each for each in parts if each is not None]
    assert len(given) in {0, len(parts)}, "parts are of one table"
    return np.concatenate(given) if given else None


def _taken(
    touched: TouchedRows, places: npt.NDArray[np.int64], files: npt.NDArray[np.int32]
) -> TouchedRows:
    """Return the keys at some places; `files` are the new ordinals of files."""
    taken = pa.array(places)
    return replace(
        touched,
        keys=tuple(key.take(taken) for key in touched.keys),
        digests=touched.digests.take(taken),
        upsert=touched.upsert[places],
        counts=touched.counts[places],
        lane=touched.lane[places],
        offset=touched.offset[places],
        sub=touched.sub[places],
        file=files[touched.file[places]],
        row=touched.row[places],
        gone=None if touched.gone is None else touched.gone[places],
        sequence={name: column.take(taken) for name, column in touched.sequence.items()},
    )


def _ranks(touched: TouchedRows) -> npt.NDArray[np.int64]:
    """Return numbers of the changes: a later one in the order of the fold has a higher one."""
    if not len(touched.offset):
        return touched.offset
    if touched.sequence:
        order = (touched.sub, touched.offset, touched.lane)
        return _in_order(*order, sequence_numbers([*touched.sequence.values()]))
    least, most = int(touched.offset.min()), int(touched.offset.max())
    subs = int(touched.sub.max()) + 1
    span = (most - least + 1) * subs
    if span * len(touched.lanes) > _LONG_MAX:
        return _in_order(touched.sub, touched.offset, touched.lane)
    return touched.lane.astype(np.int64) * span + (touched.offset - least) * subs + touched.sub


def _in_order(*given: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the places of rows in an order; the last column decides first."""
    ranks = np.empty(len(given[0]), np.int64)
    ranks[np.lexsort(given)] = np.arange(len(ranks))
    return ranks


def sides_of(
    ends: Positions,
    lanes: Sequence[TopicPartition],
    lane: npt.NDArray[Any],
    offset: npt.NDArray[np.int64],
) -> tuple[Mask, Mask]:
    """Return which records lie before the ends at which their topic grew, and which behind them."""
    found = [end_in(ends, at) for at in lanes]
    grew = np.array([end is not None for end in found], np.bool_)[lane]
    before = offset < np.array([end or 0 for end in found], np.int64)[lane]
    return grew & before, grew & ~before


def _across(
    touched: TouchedRows,
    order: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    grown: FormerEnds,
) -> int:
    """Count the keys that are changed in two partitions; deleting a former key shows nothing, nor a
    change from before a growth of the topic where another lies behind it.

    Where changes have sequences, those of the highest one of their key alone are looked at.
    """
    if len(touched.lanes) < 2 or not len(begins):  # noqa: PLR2004  two partitions
        return 0
    lane, counts = touched.lane[order], touched.counts[order]
    if touched.sequence:
        numbers = sequence_numbers([*touched.sequence.values()])[order]
        lengths = np.diff(np.append(begins, len(order)))
        counts &= numbers == np.repeat(np.maximum.reduceat(numbers, begins), lengths)
    lengths = np.diff(np.append(begins, len(order)))
    for ends in grown:
        before, behind = sides_of(ends, touched.lanes, lane, touched.offset[order])
        met = np.repeat(np.logical_or.reduceat(behind & counts, begins), lengths)
        counts &= ~(met & before)
    first = np.minimum.reduceat(np.where(counts, lane, len(touched.lanes)), begins)
    last = np.maximum.reduceat(np.where(counts, lane, -1), begins)
    return int((first < last).sum())
