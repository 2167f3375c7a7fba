"""Locates the deletion vector of a data file by its log entry: in the log itself, or in a file.

Invariants:
- a descriptor goes back into the log as it was read, whatever its writer put in: with another one
  a `remove` would cancel nothing;
- bytes of the log are text of 85 characters (Z85), four bytes in five of them, with zeros at the
  end; the descriptor says how many bytes count.

Source: Delta transaction log protocol, "Deletion Vector Descriptor Schema", "Derived Fields";
ZeroMQ RFC 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

INLINE, RELATIVE, ABSOLUTE = "i", "u", "p"
"""In the log, in a file of the table's directory, in a file at an absolute place."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_BASE = len(_ALPHABET)
_BYTES, _CHARACTERS = 4, 5
_UUID_CHARACTERS = 20
_BEHIND_VERSION = 1


@dataclass(frozen=True, slots=True)
class Vector:
    """A deletion vector as an `add` or a `remove` describes it.

    `size_bytes` is without what frames it in a file, `offset` where its frame begins there,
    `cardinality` how many rows it deletes.
    """

    storage: str
    text: str
    size_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Identify it among all vectors of a file; "" means no vector, and is no id."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage}{self.text}{at}"

    @property
    def starts(self) -> int:
        """Return where its frame begins in its file."""
        return _BEHIND_VERSION if self.offset is None else self.offset

    @property
    def name(self) -> str:
        """Return its file's path: in the table's directory, or a URI where storage is ABSOLUTE.

        Raises ValueError when the text names none.
        """
        if self.storage == ABSOLUTE:
            return self.text
        folder, packed = self.text[:-_UUID_CHARACTERS], self.text[-_UUID_CHARACTERS:]
        file = f"deletion_vector_{UUID(bytes=unpacked(packed))}.bin"
        return f"{folder}/{file}" if folder else file

    def to_json(self) -> dict[str, Any]:
        """Return it as the log has it."""
        found: dict[str, Any] = {"storageType": self.storage, "pathOrInlineDv": self.text}
        if self.offset is not None:
            found["offset"] = self.offset
        return {**found, "sizeInBytes": self.size_bytes, "cardinality": self.cardinality}


def vector_of(action: Mapping[str, Any]) -> Vector | None:
    """Read the vector of an `add` or `remove`; None where it has none. Raises ValueError."""
    stored = action.get("deletionVector")
    if not stored or stored.get("storageType") is None:
        return None
    try:
        offset = stored.get("offset")
        vector = Vector(
            str(stored["storageType"]),
            str(stored["pathOrInlineDv"]),
            int(stored["sizeInBytes"]),
            int(stored["cardinality"]),
            None if offset is None else int(offset),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the deletion vector of {action.get('path')} lacks {error}") from error
    if vector.storage not in {INLINE, RELATIVE, ABSOLUTE}:
        raise ValueError(f"a deletion vector is stored as {vector.storage[:20]!r}")
    return vector


def id_of(action: Mapping[str, Any]) -> str:
    """Return the id of the vector of an `add` or `remove`, "" where it has none."""
    vector = vector_of(action)
    return "" if vector is None else vector.unique_id


def relative(file: UUID, offset: int, data: bytes, cardinality: int) -> Vector:
    """Describe a vector in a file of the table's directory."""
    return Vector(RELATIVE, packed(file.bytes), len(data), cardinality, offset)


def packed(data: bytes) -> str:
    """Write bytes as text, with zeros up to the next four of them."""
    whole = data + bytes(-len(data) % _BYTES)
    found: list[str] = []
    for at in range(0, len(whole), _BYTES):
        number = int.from_bytes(whole[at : at + _BYTES], "big")
        block = []
        for _ in range(_CHARACTERS):
            number, digit = divmod(number, _BASE)
            block.append(_ALPHABET[digit])
        found += reversed(block)
    return "".join(found)


def unpacked(text: str) -> bytes:
    """Read bytes back, zeros at the end as well. Raises ValueError for another text."""
    if len(text) % _CHARACTERS or not _VALUES.keys() >= set(text):
        raise ValueError(f"{text[:40]!r} is not in Z85")
    found = bytearray()
    for at in range(0, len(text), _CHARACTERS):
        number = 0
        for character in text[at : at + _CHARACTERS]:
            number = number * _BASE + _VALUES[character]
        if number >= 1 << (8 * _BYTES):
            raise ValueError(f"{text[at : at + _CHARACTERS]!r} encodes more than four bytes")
        found += number.to_bytes(_BYTES, "big")
    return bytes(found)
