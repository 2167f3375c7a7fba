"""The block `transform`: columns that are computed for each record, besides its own fields.

Invariant: one record gives one row. What leaves records out is `where`, which counts them; so a
transform changes no book (docs/design/0101).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from penstock.core.schema import Schema, Type
from penstock.core.type_text import parse_type
from penstock.spec.language import notation
from penstock.spec.language.expressions import (
    expression,
    expression_text,
    looked_at,
    type_given,
)
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import shown
from penstock.spec.settings.fields import Setting, reading

COLUMNS_MAX = 100
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_OURS = ("_kafka_", "_change_")


def column_name(text: str) -> str:
    """Read the name of a computed column. Raises MalformedError."""
    if _COLUMN.fullmatch(text) is None:
        fact = f"{shown(text)} is not a name for a computed column"
        raise MalformedError("P148", fact, "use letters, digits and underscores, as in order_day")
    if text.lower().startswith(_OURS):
        fact = f"names that begin with {' or '.join(_OURS)} are Penstock's own"
        raise MalformedError("P148", fact, "give the column another name")
    return text


def function_path(text: str) -> str:
    """Read the import path of a function. Raises MalformedError."""
    if _FUNCTION.fullmatch(text) is None:
        fact = f"{shown(text)} is not the path of a function"
        raise MalformedError("P149", fact, "write  package.module:function")
    return text


ColumnName = Annotated[str, reading(column_name)]


class Function(Setting):
    """A Python function over Arrow batches that fills columns."""

    call: Annotated[str, reading(function_path)] = Field(
        description=(
            "Import path of a function that takes a pyarrow.RecordBatch of the table's rows and"
            " returns a batch of as many rows, with the columns that it fills."
        ),
        examples=["shop.rules:classify"],
    )
    columns: Mapping[ColumnName, Annotated[str, reading(notation.column_type)]] = Field(
        min_length=1,
        max_length=COLUMNS_MAX,
        description="The columns that it fills, with their types.",
        examples=["{ segment: string, score: double }"],
    )

    def types(self) -> dict[str, Type]:
        """Return the columns' types."""
        return {name: parse_type(text) for name, text in self.columns.items()}


class Transform(Setting):
    """What is computed for each record: one record gives one row."""

    columns: Mapping[ColumnName, Annotated[str, reading(expression_text)]] = Field(
        default_factory=dict,
        max_length=COLUMNS_MAX,
        description=(
            "Columns by name, each a DuckDB SQL expression over fields typed by schema.hints, and"
            " over `_kafka_timestamp`, `_kafka_key`, …"
        ),
        examples=["{ day: cast(created_at as date) }"],
    )
    function: Function | None = Field(
        None, description="A Python function that fills further columns, after `columns`."
    )

    def types(self, fields: Schema) -> dict[str, Type]:
        """Return the types of all computed columns; `fields` are those that hints declare.

        Raises MalformedError.
        """
        found = {name: type_of(text, fields) for name, text in self.columns.items()}
        return found | (self.function.types() if self.function else {})


def type_of(text: str, fields: Schema) -> Type:
    """Return the type that an expression computes. Raises MalformedError."""
    found = expression(text)
    return type_given(found, looked_at(found, fields))
