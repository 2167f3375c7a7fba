"""The catalogs of a spec: where tables are, by the library that knows them.

Invariants: what is not honoured yet is refused by its name, before its settings are checked;
`settings` gives plain data in which references are unresolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from penstock.spec.language.notation import MalformedError, form
from penstock.spec.problems import listed, shown
from penstock.spec.settings.fields import (
    THREE_SLASHES,
    TWO_SLASHES,
    FreeText,
    Seconds,
    Setting,
    Several,
    Text,
    reading,
)

ANSWER_SECONDS = 30.0
"""Long for one request, and short enough to wait for at each retry."""

_TIMEOUT = "timeout_seconds"
AnswerTime = Annotated[Seconds, Field(alias="timeout", description="How long one answer may take.")]


_class_path = form(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+",
    "P110",
    "… is not the path of a class",
    "write  package.module.Class",
)


class _Entry(Setting):
    def settings(self, name: str) -> dict[str, Any]:
        """Return the entry as plain data for a connector, with references unresolved."""
        given = {**self.revealed(), "name": name}
        if _TIMEOUT in type(self).model_fields:
            del given["timeout"]
            given["penstock.timeout_ms"] = str(round(1000 * getattr(self, _TIMEOUT)))
        return given


class _Iceberg(_Entry, extra="allow"):
    __pydantic_extra__: dict[str, FreeText]

    location_providers: Several[Annotated[str, reading(_class_path)]] = Field(
        (),
        description=(
            "Classes that a table's property write.py-location-provider.impl may name, to say where"
            " its files lie. PyIceberg's own are allowed; others are run if listed here."
        ),
        examples=["[lake.places.ByTenant]"],
    )

    def settings(self, name: str) -> dict[str, Any]:
        """Return the entry as plain data for a connector, with references unresolved."""
        given = super().settings(name)
        if providers := given.pop("location_providers", ()):
            given["penstock.location_providers"] = " ".join(providers)
        return given


def _sql_uri(text: str) -> str:
    if TWO_SLASHES.match(text):
        raise MalformedError("P125", "this is not a SQLite address", THREE_SLASHES)
    return text


def _place(text: str) -> str:
    if text.startswith(("hdfs://", "viewfs://")):
        fact = "tables in HDFS are not written: it needs Java and Hadoop's libraries in each worker"
        raise MalformedError("P125", fact, "an object store, such as  s3://lake/warehouse")
    return text


Place = Annotated[Text, reading(_place)]


class SqlCatalog(_Iceberg):
    """An Iceberg catalog in an SQL database. Further keys are PyIceberg's, as text."""

    type: Literal["sql"] = Field(description="Kind of the catalog.")
    uri: Annotated[Text, reading(_sql_uri)] = Field(
        description="SQLAlchemy address; a relative SQLite path starts at the spec file.",
        examples=['"sqlite:///./lake/catalog.db"'],
    )
    warehouse: Place = Field(
        description="Where tables are put; a relative path starts at the spec file.",
        examples=["./lake"],
    )


class RestCatalog(_Iceberg):
    """An Iceberg catalog with the REST protocol. Further keys are PyIceberg's, as text."""

    type: Literal["rest"] = Field(description="Kind of the catalog.")
    uri: Text = Field(description="Address of the server.", examples=["http://catalog:8181"])
    warehouse: Place | None = Field(
        None, description="Name or place of the warehouse, if the server has several."
    )

    timeout_seconds: AnswerTime = ANSWER_SECONDS


class HiveCatalog(_Iceberg):
    """An Iceberg catalog in a Hive metastore. Further keys are PyIceberg's, as text."""

    type: Literal["hive"] = Field(description="Kind of the catalog.")
    uri: Text = Field(description="Address of the metastore.", examples=["thrift://hive:9083"])
    warehouse: Place | None = Field(
        None, description="Where tables are put; a relative path starts at the spec file."
    )

    timeout_seconds: AnswerTime = ANSWER_SECONDS


class GlueCatalog(_Iceberg):
    """An Iceberg catalog in AWS Glue, found by account. Further keys are PyIceberg's, as text."""

    type: Literal["glue"] = Field(description="Kind of the catalog.")
    warehouse: Place | None = Field(
        None, description="Where tables are put.", examples=["s3://lake/warehouse"]
    )

    timeout_seconds: Seconds = Field(
        ANSWER_SECONDS,
        alias="timeout",
        description="How long one answer may take; it is asked for three times.",
    )


class DeltaCatalog(_Entry):
    """A directory with Delta tables as sub-directories."""

    type: Literal["delta"] = Field(description="Kind of the catalog.")
    root: Place = Field(
        description="Where tables are put; a relative path starts at the spec file.",
        examples=["./delta", "s3://bucket/delta", "az://container/delta"],
    )
    storage_options: Mapping[str, FreeText] = Field(
        default_factory=dict,
        description="Options of deltalake for the storage, as text.",
        examples=['{ region: eu-west-1, secret_access_key: "${env:LAKE_SECRET}" }'],
    )


_CATALOG_KINDS = ("sql", "rest", "hive", "glue", "delta")
_UNWRITTEN = "PyIceberg commits nothing to it; write  type: rest  where it has such an endpoint"
_NEVER = {
    "in-memory": "its tables end with the process; write sql with a SQLite file",
    "bigquery": _UNWRITTEN,
    "dynamodb": _UNWRITTEN,
    "unity": "write  type: rest  with the address of its Iceberg REST endpoint",
}


def _known_kind(value: Any) -> Any:
    """Refuse a type that is not known, or not yet, before its settings are checked."""
    if isinstance(value, Setting):
        return value
    if not isinstance(value, dict):
        fact = "expected settings by name, with a type"
        raise MalformedError("P106", fact, "such as { type: delta, root: ./delta }")
    kind = value.get("type")
    if "type" not in value:
        hint = f"add  type: <kind>, one of {listed(_CATALOG_KINDS)}"
        raise MalformedError("P105", "this required setting is missing", hint, below=("type",))
    if isinstance(kind, str) and kind in _NEVER:
        fact = f"catalogs of type {kind} are not used: {_NEVER[kind]}"
        raise MalformedError("P107", fact, below=("type",))
    if kind not in _CATALOG_KINDS:
        fact = f"expected one of {listed(_CATALOG_KINDS)}, read {shown(kind)}"
        raise MalformedError("P107", fact, below=("type",))
    return value


def _tag(value: Any) -> str:
    return f"<{value['type'] if isinstance(value, dict) else value.type}>"


Catalog = Annotated[
    Annotated[SqlCatalog, Tag("<sql>")]
    | Annotated[RestCatalog, Tag("<rest>")]
    | Annotated[HiveCatalog, Tag("<hive>")]
    | Annotated[GlueCatalog, Tag("<glue>")]
    | Annotated[DeltaCatalog, Tag("<delta>")],
    Discriminator(_tag),
    BeforeValidator(_known_kind),
]
