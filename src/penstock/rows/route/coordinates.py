"""Keys and headers of records as SQL sees them, and as `KAFKA_COLUMNS` types them: as text.

Invariant: of several headers with one name the last one counts, as Kafka's `lastHeader`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import mask_of

Mask = npt.NDArray[np.bool_]


def texts_of(values: pa.Array, instead: str | None = None) -> pa.Array:
    """Return bytes as texts; what is not UTF-8 is null, or what is given `instead`."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value, instead) for value in values.to_pylist()], pa.string())


def not_utf8(values: pa.Array) -> Mask:
    """Return which bytes are no text."""
    return mask_of(texts_of(values).is_null()) & mask_of(values.is_valid())


def header_maps(headers: pa.Array, instead: str | None = None) -> pa.Array:
    """Return headers as a map of texts; one that is not UTF-8 is null, or what is `instead`."""
    maps = [
        {str(header["key"]): _text(header["value"], instead) for header in record or ()}
        for record in headers.to_pylist()
    ]
    return pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.string()))


def header_values(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return the bytes of one header of each record, null where it has none or no value."""
    entries, owners = headers.flatten(), pc.list_parent_indices(headers).to_numpy()
    named = np.flatnonzero(mask_of(pc.equal(entries.field("key"), name)))
    last = np.full(len(headers), -1, np.int64)
    last[owners[named]] = named  # of those with one name the last one
    return entries.field("value").take(pa.array(last, mask=last < 0))


def headers_not_utf8(headers: pa.ListArray, names: Collection[str | None] | None) -> dict[int, str]:
    """Return the records with a header that is no text, and its name; of `names`, or of any."""
    entries = headers.flatten()
    wrong = not_utf8(entries.field("value"))
    found: dict[int, str] = {}
    for name in dict.fromkeys(entries.field("key").filter(pa.array(wrong)).to_pylist()):
        if names is None or name in names:
            rows = np.flatnonzero(not_utf8(header_values(headers, name)))
            found = dict.fromkeys(rows.tolist(), str(name)) | found
    return found


def _text(value: bytes | None, instead: str | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return instead
