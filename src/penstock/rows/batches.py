"""Small facts about fetched batches."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def newest_ms(batch: pa.RecordBatch) -> int | None:
    """Give the largest record timestamp in epoch milliseconds; None when no record has one."""
    newest = pc.max(batch.column("timestamp").cast(pa.int64())).as_py()
    return None if newest is None else int(newest)


def later(first: int | None, second: int | None) -> int | None:
    """Give the later of two times, either of which may be unknown."""
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)
