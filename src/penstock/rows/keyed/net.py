"""The net of changes: of each key the last one, in the order of the fold (docs/design/0243).

Theory of operation: a slice nets its changes by key and partition; what several partitions or
slices change is merged by the driver (merge.py). A later change is one of a higher sequence, if the
table has one, then of a higher offset, then of a later place in its record.

Invariant: the net depends on the changes alone, not on how they were cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.arrow_arrays import Mask
from penstock.rows.keyed.digest import key_digests, words_of
from penstock.rows.keyed.sequence import sequence_numbers


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the keys of one table.

    `rows` has the table's columns; of a delete those of the key alone are filled. `upsert` says
    which changes bring a row. `counts` is false for the half of a change of key that deletes the
    former one: the record counts once. `lane` numbers the partitions of the epoch in the order of
    (topic id, partition); `offset` is the record's, `sub` the change's place in it.
    """

    rows: pa.RecordBatch
    upsert: Mask
    counts: Mask
    lane: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    sub: npt.NDArray[np.int8]

    def __post_init__(self) -> None:
        given = (self.upsert, self.counts, self.lane, self.offset, self.sub)
        assert {self.rows.num_rows} == {len(each) for each in given}, "one of each a change"

    def take(self, places: npt.NDArray[np.int64]) -> Changes:
        """Return the changes at some places, in their order."""
        return Changes(
            self.rows.take(pa.array(places)),
            self.upsert[places],
            self.counts[places],
            self.lane[places],
            self.offset[places],
            self.sub[places],
        )

    @staticmethod
    def concat(parts: Sequence[Changes]) -> Changes:
        """Join changes; there is at least one part."""
        return Changes(
            pa.concat_batches([each.rows for each in parts]),
            np.concatenate([each.upsert for each in parts]),
            np.concatenate([each.counts for each in parts]),
            np.concatenate([each.lane for each in parts]),
            np.concatenate([each.offset for each in parts]),
            np.concatenate([each.sub for each in parts]),
        )


@dataclass(frozen=True, slots=True)
class Net:
    """The changes that stay, in the order in which they were given, and how many records of each
    lane are superseded by later ones.
    """

    changes: Changes
    superseded: dict[int, int]


def net_by_lane(changes: Changes, keys: Sequence[str], sequence: Sequence[str] = ()) -> Net:
    """Keep the last change of each key in each partition: what a slice hands on.

    `keys` and `sequence` are columns of the rows.
    """
    words = words_of(key_digests([changes.rows.column(name) for name in keys]))
    stays = _last_places(changes, [changes.lane, *words], sequence)
    gone = np.ones(len(changes.offset), np.bool_)
    gone[stays] = False
    lanes, counts = np.unique(changes.lane[gone & changes.counts], return_counts=True)
    superseded = dict(zip(lanes.tolist(), counts.tolist(), strict=True))
    return Net(changes.take(stays), superseded)


def net_by_key(
    changes: Changes, keys: Sequence[str], sequence: Sequence[str] = ()
) -> tuple[Changes, npt.NDArray[np.int64]]:
    """Keep the last change of each key, whatever its partition; return which one each change has
    come to.

    Of a key that changed in two partitions a sequence says which change is the last, or nothing
    does: then the caller has left it out.
    """
    words = words_of(key_digests([changes.rows.column(name) for name in keys]))
    stays = _last_places(changes, words, sequence)
    _, number = np.unique(np.stack(words), axis=1, return_inverse=True)
    number = number.reshape(-1)
    place = np.empty(len(stays), np.int64)
    place[number[stays]] = np.arange(len(stays))
    return changes.take(stays), place[number]


def _last_places(
    changes: Changes, group: Sequence[npt.NDArray[Any]], sequence: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return the places of the last changes of groups, ascending."""
    later: list[npt.NDArray[Any]] = [changes.sub, changes.offset]
    if sequence:
        later.append(sequence_numbers([changes.rows.column(name) for name in sequence]))
    order = np.lexsort([*later, *group])
    ends = np.zeros(len(order), np.bool_)
    ends[-1:] = True
    for each in group:
        ordered = each[order]
        ends[:-1] |= ordered[1:] != ordered[:-1]
    return np.sort(order[ends])
