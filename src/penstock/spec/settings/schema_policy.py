"""What happens when records and the schema of their table differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.core.schema import Type
from penstock.core.type_text import TYPE_WORDS, parse_type
from penstock.spec.language import notation
from penstock.spec.settings.fields import NOT_YET, Setting, never, reading


class SchemaPolicy(Setting):
    """What happens when records and the table's schema differ."""

    create: bool = Field(
        default=False,
        description="Create the table from the first epoch's records when it does not exist.",
    )
    columns: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a field without a column: add the column, park the table, drop the"
            " value, keep it in the column _rescued, or quarantine the record."
        ),
    )
    types: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a value that its column does not accept: widen the column if nothing"
            " is lost (else quarantine), park the table, land null, keep the value in the column"
            " _rescued and land null, or quarantine the record."
        ),
    )
    hints: Mapping[str, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        description=(
            "Types by (dotted) name: of columns when the table is created, and of the fields that"
            " where and route use. items[].price is a member within a list, prices{} the values"
            f" of a map. Types are {', '.join(TYPE_WORDS)}; such as map<string, long> and"
            " struct<sku: string, n: int>."
        ),
        examples=["{ created_at: timestamptz }"],
    )
    case_sensitive: bool = Field(
        default=True,
        description=(
            "Match fields and columns by their exact names. If false, case is ignored, and a"
            " record with two fields for one column is quarantined."
        ),
    )
    match: Literal["name", "name_mapping"] = Field(
        "name", description="Match by names, or by the table's schema.name-mapping.default as well."
    )
    assume_zone: Annotated[str, reading(notation.time_zone)] | None = Field(
        None, description="Time zone of timestamps without one, for timestamptz columns."
    )
    drop_offset: bool = Field(
        default=False,
        description="Land a timestamp with offset in a timestamp column, and drop the offset.",
    )
    defaults: Literal["absent_or_null"] | None = Field(
        None, description="When a column gets its default; must be set if the table has defaults."
    )
    coerce: Annotated[None, never("values are taken as they are, or quarantined")] = Field(
        None, description=f"This setting {NOT_YET}: take other scalars as text."
    )

    def hint_types(self) -> dict[str, Type]:
        """Return the hints as types."""
        return {column: parse_type(text) for column, text in self.hints.items()}
