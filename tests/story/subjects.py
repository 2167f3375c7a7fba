"""The subjects of a schema registry, in memory; the contracts compare it with one over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import UnavailableError
from penstock.ports.registry import RegisteredSchema, SchemaConflict


@dataclass(slots=True)
class MemorySubjects:
    """Implements `ports.registry.Subjects`; where it `is_strict`, a subject has one schema."""

    is_strict: bool = False
    is_down: bool = False
    schemas: list[RegisteredSchema] = field(default_factory=list)
    versions: dict[str, list[int]] = field(default_factory=dict)

    def lookup(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Return the id of a registered schema."""
        self._answer()
        known = self.versions.get(subject, [])
        return next((each for each in known if self.schemas[each - 1] == schema), None)

    def register(self, subject: str, schema: RegisteredSchema) -> int | SchemaConflict:
        """Register a schema."""
        found = self.lookup(subject, schema)
        if found is not None:
            return found
        if conflict := self.conflict(subject, schema):
            return conflict
        if schema not in self.schemas:
            self.schemas.append(compiled(schema))
        number = self.schemas.index(schema) + 1
        self.versions.setdefault(subject, []).append(number)
        return number

    def conflict(self, subject: str, schema: RegisteredSchema) -> SchemaConflict | None:
        """Return a conflict where there is another schema, and this is strict."""
        there = self.newest(subject)
        is_other = there is not None and there != schema
        return SchemaConflict("READER_FIELD_MISSING") if self.is_strict and is_other else None

    def by_id(self, number: int) -> RegisteredSchema | None:
        """Return a schema."""
        self._answer()
        return self.schemas[number - 1] if 1 <= number <= len(self.schemas) else None

    def newest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema."""
        self._answer()
        known = self.versions.get(subject, [])
        return self.schemas[known[-1] - 1] if known else None

    def _answer(self) -> None:
        if self.is_down:
            raise UnavailableError("the registry does not answer", code="P671", hint="wait")
