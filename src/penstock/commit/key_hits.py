"""Live rows of touched keys: where they lie, and of which records they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ports.row_deletes import POSITION
from penstock.rows.keyed.digest import alike
from penstock.rows.keyed.touched import SOURCE


@dataclass(frozen=True, slots=True)
class Hits:
    """Live rows of a touched key: which key, where in the file, of which record and sequence."""

    keys: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    topic: pa.Array
    partition: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    sequence: tuple[pa.Array, ...]


def hits_of(
    rows: pa.RecordBatch,
    keys: npt.NDArray[np.int64],
    source: Mapping[str, str],
    known: Mapping[str, Any],
    sequence: Mapping[str, pa.Array],
) -> Hits:
    """Take hits from rows; `known` are sources that all of them have."""
    positions = rows.column(POSITION).to_numpy()
    values = tuple(alike(rows.column(name), each.type) for name, each in sequence.items())
    if not source:
        nothing = np.full(len(keys), -1, np.int64)
        topics = pa.nulls(len(keys), pa.string())
        return Hits(keys, positions, topics, nothing, nothing, values)
    topic, partition, offset = (
        pa.repeat(known[role], len(keys)) if role in known else rows.column(source[role])
        for role in SOURCE
    )
    numbers = [
        each.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        for each in (partition, offset)
    ]
    return Hits(keys, positions, topic.cast(pa.string()), numbers[0], numbers[1], values)


def joined(parts: Sequence[Hits], sequence: Iterable[pa.Array]) -> Hits:
    """Join hits; `sequence` are columns of the types that the sequence has where there are none."""
    none = np.zeros(0, np.int64)
    if not parts:
        values = tuple(each.slice(0, 0) for each in sequence)
        return Hits(none, none, pa.array([], pa.string()), none, none, values)
    return Hits(
        np.concatenate([each.keys for each in parts]),
        np.concatenate([each.positions for each in parts]),
        pa.concat_arrays([each.topic for each in parts]),
        np.concatenate([each.partition for each in parts]),
        np.concatenate([each.offset for each in parts]),
        tuple(map(_joined_column, zip(*(each.sequence for each in parts), strict=True))),
    )


def _joined_column(parts: Sequence[pa.Array]) -> pa.Array:
    kind = parts[-1].type
    return pa.concat_arrays([each.cast(kind) for each in parts])


def last_of_each(
    hits: Hits, later: npt.NDArray[np.bool_], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which rows stay: of each key that loses the last of the later ones."""
    stays = np.zeros(len(hits.keys), np.bool_)
    places = np.flatnonzero(later)
    places = places[np.lexsort([hits.offset[places], numbers[places], hits.keys[places]])]
    ends = np.ones(len(places), np.bool_)
    ends[:-1] = hits.keys[places][1:] != hits.keys[places][:-1]
    stays[places[ends]] = True
    return stays
