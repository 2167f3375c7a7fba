"""Schemas by the keys that records carry, used by workers and kept over tasks; and schemas under
the subjects that they are registered for, used by drivers.

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


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """Why a subject does not take a schema, in the registry's words."""

    reason: str


class Subjects(Protocol):
    """The subjects of one schema registry: the schemas of a topic's keys or values, in versions.

    Each method raises UnavailableError when the registry does not answer, InvalidError when it
    refuses us or is none.
    """

    def lookup(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Return the id of a schema that is registered for a subject, None of one that is not."""

    def register(self, subject: str, schema: RegisteredSchema) -> int | SchemaConflict:
        """Register a schema for a subject, where its rules permit; again is the same id."""

    def conflict(self, subject: str, schema: RegisteredSchema) -> SchemaConflict | None:
        """Return why the newest schema of a subject excludes another one; None if nothing does."""

    def by_id(self, number: int) -> RegisteredSchema | None:
        """Return the schema of an id, None of an id that is none."""

    def newest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, None of a subject that has none."""
