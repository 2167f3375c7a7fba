"""The columns of `ports/log.py`, as both readers return them.

Invariant: a key or value that a record does not have is null; an empty one is empty; a record
without headers has an empty list of them; a record without a timestamp has null.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BATCH_RECORDS = 25_000
BATCH_BYTES = 16 << 20
NO_TIMESTAMP = -1
TIMESTAMP = pa.timestamp("ms", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PLAIN = pa.schema(
    [("offset", pa.int64()), ("timestamp", TIMESTAMP), ("key", pa.binary()), ("value", pa.binary())]
)
WITH_HEADERS = PLAIN.append(pa.field("headers", HEADERS))


def times_of(stamps: npt.NDArray[np.int64]) -> pa.Array:
    """Return times as the port has them: null where a record has none."""
    missing = stamps == NO_TIMESTAMP
    return pa.array(stamps, pa.int64(), mask=missing if missing.any() else None).cast(TIMESTAMP)
