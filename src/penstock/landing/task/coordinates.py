"""Records by their coordinates: topic id, partition and offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.core.offsets import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Coordinate = tuple[str, int, int]


def offsets_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the offsets of records as a reader returns them."""
    found: npt.NDArray[np.int64] = batch.column("offset").to_numpy()
    return found


def is_among(
    coordinates: Iterable[Coordinate], at: TopicPartition, offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which offsets of a partition are named by coordinates."""
    here = (at.topic_id, at.partition)
    named = [offset for *partition, offset in coordinates if tuple(partition) == here]
    found: npt.NDArray[np.bool_] = np.isin(offsets, np.array(named, np.int64))
    return found
