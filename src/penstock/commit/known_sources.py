"""What the bounds of a file say of the records that its rows come from, so that fewer columns are
read.

A commit asks of a row that it replaces whether it is of another partition than the change of its
key, whether it comes later in that partition, and whether it is from before the chain changed rows
or the topic grew.

Invariants:
- a value is known only where the file has no null in its column, and each answer is the same for
  all values between the bounds;
- bounds may be wider than what the file holds: where they are one value, all rows have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from penstock.core.offsets import TopicPartition
from penstock.ports.row_deletes import LiveFile
from penstock.rows.keyed.touched import SOURCE, TouchedRows

_TOPIC, _PARTITION, _OFFSET = SOURCE


def first_offsets(touched: TouchedRows) -> dict[TopicPartition, int]:
    """Return the first offset that changes something, by partition."""
    first = np.full(len(touched.lanes), np.iinfo(np.int64).max)
    np.minimum.at(first, touched.lane, touched.offset)
    return dict(zip(touched.lanes, first.tolist(), strict=True))


def known_source(
    file: LiveFile,
    source: Mapping[str, str],
    first: Mapping[TopicPartition, int],
    edges: Iterable[tuple[TopicPartition, int]],
) -> dict[str, Any]:
    """Return topic, partition and offset of a file's rows, as far as they answer for all of them.

    `source` names the columns, `first` are the offsets of the first changes, `edges` those from
    which on rows count as others: the chain has changed rows since, or the topic had grown.
    """
    bounds = {
        role: file.bounds[column]
        for role, column in source.items()
        if file.nulls.get(column) == 0 and column in file.bounds
    }
    found = {
        role: bounds[role][0]
        for role in (_TOPIC, _PARTITION)
        if role in bounds and bounds[role][0] == bounds[role][1]
    }
    if _OFFSET not in bounds:
        return found
    least, greatest = bounds[_OFFSET]
    is_before = all(greatest < offset for at, offset in first.items() if _may_be(at, found))
    is_on_one_side = not any(
        least < offset <= greatest for at, offset in edges if _may_be(at, found)
    )
    return {**found, _OFFSET: greatest} if is_before and is_on_one_side else found


def _may_be(at: TopicPartition, found: Mapping[str, Any]) -> bool:
    place = found.get(_TOPIC, at.topic), found.get(_PARTITION, at.partition)
    return place == (at.topic, at.partition)
