"""Keys and headers of records as SQL sees them, and as `KAFKA_COLUMNS` types them: as text."""

from __future__ import annotations

import pyarrow as pa


def texts_of(values: pa.Array) -> pa.Array:
    """Return bytes as texts; what is not UTF-8 is null."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def header_maps(headers: pa.Array) -> pa.Array:
    """Return headers as a map; of several with one name the last one, as Kafka's `lastHeader`."""
    maps = [
        {str(header["key"]): _text(header["value"]) for header in record or ()}
        for record in headers.to_pylist()
    ]
    return pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.string()))
