"""What a rule says of a keyed table: how a record shows what it does to the row of its key.

Invariant: a word that an operation's map does not have has no meaning; its record is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.language import notation
from penstock.spec.settings.fields import FreeText, Setting, Text, later, reading

Mode = Annotated[
    Literal["append", "upsert", "cdc"],
    later("scd2", hint="this release has append, upsert and cdc"),
]
Deletes = Literal["hard", "ignore", "soft"]
RowDeletes = Literal["auto", "rewrite"]
Tombstones = Literal["skip", "quarantine", "delete"]
Meaning = Literal["insert", "update", "delete", "read", "truncate"]

OPERATIONS_MAX = 100


class Soft(Setting):
    """The columns that say of a row that its key was deleted, and when."""

    flag: Annotated[str, reading(notation.column_path)] = Field(
        "_is_deleted", description="The boolean column that is true in the row of a deleted key."
    )
    at: Annotated[str, reading(notation.column_path)] = Field(
        "_deleted_at",
        description="The timestamptz column with the Kafka timestamp of the delete, else null.",
    )

    @property
    def columns(self) -> tuple[str, str]:
        """Return the names of both."""
        return self.flag, self.at


class Operation(Setting):
    """Where a plain record says what it does to its row, and what each word means."""

    field: Annotated[str, reading(notation.column_path)] | None = Field(
        None,
        description="The field of a record, not within another, that holds its operation.",
        examples=["op"],
    )
    header: Text | None = Field(
        None, description="The header that holds it, in place of a field.", examples=["op"]
    )
    map: Mapping[FreeText, Meaning] = Field(
        min_length=1,
        max_length=OPERATIONS_MAX,
        description=(
            "What the operations mean, as they are written: insert, update and read put a row in"
            " the place of the one with its key. A record of another operation is quarantined."
        ),
        examples=["{ I: insert, U: update, D: delete }"],
    )
