"""Small facts about fetched batches."""

from __future__ import annotations

import pyarrow as pa


def newest_ms(batch: pa.RecordBatch) -> int | None:
    """Return the largest record timestamp in epoch milliseconds; None when no record has one."""
    stamps = batch.column("timestamp").drop_null()
    return int(stamps.view(pa.int64()).to_numpy().max()) if len(stamps) else None


def later(first: int | None, second: int | None) -> int | None:
    """Return the later of two times, either of which may be unknown."""
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)
