"""Schemas by the keys that records carry; used by workers, kept over tasks.

Rule: what the registry does not have is returned as None, and its records are quarantined; a
registry that does not answer raises, and its records wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

SchemaFormat = Literal["avro", "json-schema", "protobuf", "other"]


@dataclass(frozen=True, slots=True, order=True)
class SchemaKey:
    """Name a schema: `id` is a number, `guid` a UUID in lower case, `fingerprint` 16 hexadecimal
    digits of the CRC-64-AVRO of its parsing canonical form.
    """

    kind: Literal["id", "guid", "fingerprint"]
    value: str


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it was registered, and the texts it refers to, those used by others first.

    `references` are pairs of the name it is referred to by, and its text. A Protobuf schema comes
    compiled: as a serialized `FileDescriptorSet`, in which it is the last file, or with the `fault`
    that protoc found.
    """

    format: SchemaFormat
    text: str
    references: tuple[tuple[str, str], ...] = ()
    descriptors: bytes = field(default=b"", compare=False, repr=False)
    fault: str = field(default="", compare=False)


class Registry(Protocol):
    """One schema registry. Schemas never change under a key, so answers are kept."""

    def find(self, key: SchemaKey) -> RegisteredSchema | None:
        """Return a schema, or None when the registry answers that it has none of that key.

        Raises UnavailableError when it does not answer, InvalidError when it refuses us or is none.
        """
