"""The live rows of one state of a table: the digest of each one's key, and its record's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.ports.tables import Table, TableState
from penstock.rows.keyed.digest import key_columns_of, key_digests

ELSEWHERE = -1
"""The lane of a row that says no partition which the chain has read."""


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows with a key; `lane` is the place of their partition, or `ELSEWHERE`.

    `keyless` counts the rows that have a null in their key.
    """

    digests: pa.Array
    lane: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    keyless: int


def live_rows(
    table: Table,
    state: TableState,
    keys: Mapping[str, pa.DataType],
    source: Sequence[str],
    lanes: Mapping[tuple[str, int], int],
) -> LiveRows:
    """Read key and source (topic, partition, offset) of all rows; `keys` are columns and types.

    Raises what reading the table raises.
    """
    none = key_digests([pa.array([], each) for each in keys.values()])
    digests, lane, offset, keyless = [none], [_NONE], [_NONE], 0
    for file in table.live_files(state):
        for batch in table.read_live(state, file, [*keys, *source]):
            columns, whole = key_columns_of(batch, keys)
            keyless += int((~whole).sum())
            kept = pa.array(whole)
            digests.append(key_digests([column.filter(kept) for column in columns]))
            places = [batch.column(name).filter(kept) for name in source]
            where = _lanes_of(places[0], places[1], lanes)
            at = places[2].cast(pa.int64()).fill_null(ELSEWHERE).to_numpy(zero_copy_only=False)
            lane.append(np.where(at == ELSEWHERE, ELSEWHERE, where))
            offset.append(at)
    return LiveRows(
        pa.concat_arrays(digests), np.concatenate(lane), np.concatenate(offset), keyless
    )


_NONE = np.zeros(0, np.int64)


def _lanes_of(
    topic: pa.Array, partition: pa.Array, lanes: Mapping[tuple[str, int], int]
) -> npt.NDArray[np.int64]:
    """Look places up, each distinct one once."""
    topics = topic.cast(pa.string()).dictionary_encode()
    names = [*topics.dictionary.to_pylist(), None]
    name = topics.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
    number = partition.cast(pa.int64()).fill_null(ELSEWHERE).to_numpy(zero_copy_only=False)
    pairs, which = np.unique(np.stack([name, number], axis=1), axis=0, return_inverse=True)
    found = [lanes.get((names[first], second), ELSEWHERE) for first, second in pairs.tolist()]
    return np.array(found, np.int64)[which.reshape(-1)]
