"""Reads deletion vectors from where they are, and writes those of a commit.

Invariants:
- a vector that is read is the one that its descriptor describes: size, checksum and count agree, or
  it is a ValueError;
- the vectors of a commit are together in one file, or a few, complete before the log names it;
- none is written into the log, where Spark's VACUUM stops at it (docs/design/0262); those of others
  are read there;
- nothing is deleted.

Source: Delta transaction log protocol, "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.vectors.descriptor import (
    ABSOLUTE,
    INLINE,
    Vector,
    relative,
    unpacked,
)
from penstock.files import objects
from penstock.files.deletion_vectors import FRAME_BYTES, by_file, decoded, encoded, framed, unframed
from penstock.files.positions import Positions
from penstock.files.storage import Storage
from penstock.files.storage_settings import path_in

_VERSION = b"\x01"


def random_uuid() -> UUID:
    """Return a UUID that no file has."""
    return UUID(bytes=secrets.token_bytes(16), version=4)


def read_vector(root: StorageRoot, table: str, vector: Vector) -> Positions:
    """Read which rows a vector deletes.

    Raises ValueError when it is damaged, InvalidError (P436) when it lies in another storage,
    OSError (FileNotFoundError).
    """
    data = _inline(vector) if vector.storage == INLINE else _framed(root, table, vector)
    rows = decoded(data)
    if len(rows) != vector.cardinality:
        raise ValueError(f"a deletion vector of {vector.cardinality} rows has {len(rows)}")
    return rows


def write_vectors(
    root: StorageRoot,
    table: str,
    rows: Mapping[str, Positions],
    *,
    new_uuid: Callable[[], UUID] = random_uuid,
) -> dict[str, Vector]:
    """Write the vectors of files, by any key of theirs; on a local disk they are durable then.

    Raises OSError.
    """
    found: dict[str, Vector] = {}
    for group in by_file([(key, encoded(positions)) for key, positions in rows.items()]):
        file, body = new_uuid(), bytearray(_VERSION)
        for key, data in group:
            found[key] = relative(file, len(body), data, len(rows[key]))
            body += framed(data)
        _put(root, table, found[group[0][0]].name, bytes(body))
    return found


def _put(root: StorageRoot, table: str, name: str, body: bytes) -> None:
    place = root.location(table)
    with suppress(FileExistsError):  # the storage asked twice by itself: it is nobody else's name
        objects.put(place, root.settings, name, body, "create")
    storage = Storage(root.filesystem())
    storage.sync(f"{path_in(place)}/{name}")
    storage.sync_directories()


def _framed(root: StorageRoot, table: str, vector: Vector) -> bytes:
    name = vector.name
    if vector.storage == ABSOLUTE:
        place = place_of(root, table, name)
    else:
        place = f"{path_in(root.location(table))}/{name}"
    with root.filesystem().open_input_file(place) as file:
        file.seek(vector.starts)
        return unframed(bytes(file.read(vector.size_bytes + FRAME_BYTES)), name)


def _inline(vector: Vector) -> bytes:
    data = unpacked(vector.text)
    if not len(data) - 4 < vector.size_bytes <= len(data):
        raise ValueError(f"a deletion vector of {vector.size_bytes} bytes has {len(data)}")
    return data[: vector.size_bytes]
