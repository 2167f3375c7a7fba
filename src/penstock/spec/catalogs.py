"""The catalogs of a spec: where tables are, by the library that knows them.

Invariants: what is not honoured yet is refused by its name, before its settings are looked at;
`settings` gives plain data in which references are unresolved.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from penstock.spec.fields import NOT_YET, REVEALED, FreeText, Setting, Text
from penstock.spec.findings import refusal
from penstock.spec.problems import shown


class SqlCatalog(Setting, extra="allow"):
    """An Iceberg catalog in an SQL database. Further keys are PyIceberg's, as text."""

    __pydantic_extra__: dict[str, FreeText]

    type: Literal["sql"] = Field(description="Kind of the catalog.")
    uri: Text = Field(
        description="SQLAlchemy address; a relative SQLite path starts at the spec file.",
        examples=['"sqlite:///./lake/catalog.db"'],
    )
    warehouse: Text = Field(
        description="Where tables are put; a relative path starts at the spec file.",
        examples=["./lake"],
    )

    def settings(self, name: str) -> dict[str, str]:
        """Give the entry as plain data for a connector, with references unresolved."""
        return {**self.model_dump(mode="json", context=REVEALED), "name": name}


class DeltaCatalog(Setting):
    """A directory whose sub-directories are Delta tables."""

    type: Literal["delta"] = Field(description="Kind of the catalog.")
    root: Text = Field(
        description="Where tables are put; a relative path starts at the spec file.",
        examples=["./delta"],
    )

    def settings(self, name: str) -> dict[str, str]:
        """Give the entry as plain data for a connector, with references unresolved."""
        return {**self.model_dump(mode="json", context=REVEALED), "name": name}


_LATER_CATALOGS = ("rest", "glue", "hive", "dynamodb", "bigquery", "in-memory", "unity")
_CATALOG_KINDS = ("sql", "delta")


def _known_kind(value: Any) -> Any:
    """Refuse a type that is not known, or not yet, before its settings are looked at."""
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if "type" not in value:
        hint = "add  type: sql  or  type: delta"
        raise refusal("P105", "this setting is required and missing", hint, below=("type",))
    if kind in _LATER_CATALOGS:
        fact = f"'{kind}' {NOT_YET}; this release knows sql and delta"
        raise refusal("P111", fact, below=("type",))
    if kind not in _CATALOG_KINDS:
        raise refusal("P107", f"expected sql or delta, read {shown(kind)}", below=("type",))
    return value


def _catalog_kind(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(value, dict | Setting) else None


Catalog = Annotated[
    Annotated[SqlCatalog, Tag("<sql>")] | Annotated[DeltaCatalog, Tag("<delta>")],
    Discriminator(
        _catalog_kind,
        custom_error_type="penstock",
        custom_error_message="{message}",
        custom_error_context={
            "code": "P106",
            "message": "expected settings by name, with a type",
            "hint": "such as { type: delta, root: ./delta }",
        },
    ),
    BeforeValidator(_known_kind),
]
