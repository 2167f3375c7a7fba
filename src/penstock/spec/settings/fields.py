"""What the models of the spec are made of: the base class and the kinds of their fields.

Invariants:
- models are strict, frozen and closed: no value is converted but by the readers named here;
- representations and dumps hide secrets, unless the dump is asked for with `REVEALED`;
- numbers with a unit are read from words and written as words; inside they are plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    model_serializer,
)

from penstock.spec.language import notation, quantities
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import SpecError, shown
from penstock.spec.secrets import redacted_tree
from penstock.spec.settings.validation import problems_of

T = TypeVar("T")
N = TypeVar("N", int, float)

REVEALED: Mapping[str, str] = {"secrets": "revealed"}
COUNT_MAX = 2**53
ENTRIES_MAX = 1000
NOT_YET = "is not in this release yet"


class Setting(BaseModel):
    """One block of settings. Raises SpecError when it is built of wrong ones."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            kind = type(self)
            raise SpecError(problems_of(error, kind), name=f"this {kind.__name__}") from error

    # Validation of nested blocks then goes on without this method, so that all errors are found.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, redacted_tree(value, name or "")) for name, value in super().__repr_args__()]

    def revealed(self) -> dict[str, Any]:
        """Return the block as plain data for a connector, with references unresolved."""
        return self.model_dump(mode="json", context=REVEALED)

    @model_serializer(mode="wrap")
    def _hide(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        data = handler(self)
        return data if info.context is REVEALED else redacted_tree(data)


def reading(reader: Callable[[str], str]) -> BeforeValidator:
    """Return the validator of a text that follows a language of `notation`."""
    return BeforeValidator(lambda value: reader(value) if isinstance(value, str) else value)


def later(*values: Any, hint: str) -> BeforeValidator:
    """Refuse designed values that this release does not honour, by name."""

    def refuse(value: Any) -> Any:
        if any(type(value) is type(each) and value == each for each in values):
            read = str(value).lower() if isinstance(value, bool) else shown(value)
            raise MalformedError("P111", f"{read} {NOT_YET}; {hint}")
        return value

    return BeforeValidator(refuse)


def never(hint: str) -> BeforeValidator:
    """Refuse a designed setting that this release does not honour, whatever its value."""

    def refuse(value: Any) -> Any:
        if value is not None:
            raise MalformedError("P111", f"this setting {NOT_YET}; {hint}")
        return value

    return BeforeValidator(refuse)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_text(value: Any) -> Any:
    """Take scalars as the text they are written in, where a library defines the settings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _seconds(value: Any) -> float:
    text = f"{value // timedelta(milliseconds=1)}ms" if isinstance(value, timedelta) else value
    return _worded(quantities.duration_ms, text) / 1000


def _worded(reader: Callable[[str], N], value: Any) -> N:
    try:
        return reader(value if isinstance(value, str) else "")
    except ValueError as error:
        read = shown(value) if isinstance(value, str | int | float) else type(value).__name__
        raise MalformedError("P109", f"expected {error}, read {read}") from error


_DURATION = {
    "type": "string",
    "pattern": r"^\s*([0-9]+(\.[0-9]+)?\s*(ms|[dhms])\s*)+$|\$\{env:",
    "examples": ["30s", "5m", "250ms"],
}
_SIZE = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT][iI]?)?[bB]\s*$|\$\{env:",
    "examples": ["8MB", "64MiB"],
}
_RATE = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]?[iI]?[bB])?\s*/\s*s\s*$|\$\{env:",
    "examples": ["20000/s", "50MB/s"],
}
_SHARE = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$|\$\{env:",
    "examples": ["1%"],
}

Several = Annotated[tuple[T, ...], Field(max_length=ENTRIES_MAX), BeforeValidator(_as_tuple)]
AtLeastOne = Annotated[
    tuple[T, ...], Field(min_length=1, max_length=ENTRIES_MAX), BeforeValidator(_as_tuple)
]
TWO_SLASHES = re.compile(r"sqlite(\+[a-z0-9]+)?://[^/]")
THREE_SLASHES = "sqlite needs three slashes, as in  sqlite:///./lake/catalog.db"
Text = Annotated[str, Field(min_length=1)]
FreeText = Annotated[
    str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(
        lambda seconds: quantities.duration_text(round(seconds * 1000)),
        return_type=str,
        when_used="json",
    ),
    WithJsonSchema(_DURATION),
]
Bytes = Annotated[
    int,
    BeforeValidator(lambda value: _worded(quantities.size_bytes, value)),
    PlainSerializer(quantities.size_text, return_type=str, when_used="json"),
    WithJsonSchema(_SIZE),
]
Fraction = Annotated[
    float,
    BeforeValidator(lambda value: _worded(quantities.share, value)),
    PlainSerializer(quantities.share_text, return_type=str, when_used="json"),
    WithJsonSchema(_SHARE),
]
Rate = Annotated[
    quantities.Rate,
    BeforeValidator(lambda value: _worded(quantities.rate, value)),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema(_RATE),
]
PipelineName = Annotated[str, reading(notation.pipeline_name)]
CatalogName = Annotated[str, reading(notation.part_name)]
TrustedCertificates = Annotated[
    Text | None,
    Field(description="Path of the certificates to trust (PEM); by default the system's."),
]
OwnCertificate = Annotated[
    Text | None, Field(description="Path of the client's own certificate (PEM), for mutual TLS.")
]
OwnKey = Annotated[Text | None, Field(description="Path of the client's private key (PEM).")]
OwnKeyPassword = Annotated[
    Text | None, Field(description="Password of the private key, as a reference.")
]
