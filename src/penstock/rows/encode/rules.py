"""How rows become messages, as data: what is their key, value and time, and which are left out.

Invariant: all of it is plain data, and so part of a job; with equal rules equal rows give equal
messages, but for the time where no column says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.rows.encode.json_texts import JsonForm

MessagePart = Literal["key", "value"]
"""What of a message a schema is of."""
KEY: MessagePart = "key"
VALUE: MessagePart = "value"
SchemaFormat = Literal["avro", "json-schema", "protobuf"]
"""How messages are written whose schema is in a registry."""
AVRO: SchemaFormat = "avro"
JSON_SCHEMA: SchemaFormat = "json-schema"
PROTOBUF: SchemaFormat = "protobuf"
_SCHEMAS = ("key_schema", "value_schema")
_ALWAYS = {"key", "key_is_object", "form", "bytes_of", "where", "delete_when", "timestamp"}


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """The schema of keys or values that name it by its id in a registry.

    `name` is that of its record where it is made of the table's columns. `text` is then "", until
    these are known; `is_made` stays. `id` is 0 until it is registered. Of Protobuf's language no
    worker has a compiler: `fields` is its message as a tree.
    """

    name: str = ""
    text: str = ""
    is_made: bool = True
    id: int = 0
    format: SchemaFormat = AVRO
    fields: str = ""

    def unfit(self, path: str, fact: str) -> PenstockError:
        """Return the error (P871) of a schema that does not fit a column of the table.

        One that was made is that of former columns: that passes, and P876 says so.
        """
        if self.is_made:
            return UnavailableError(
                f"the table's columns changed while its rows were read: {path}: {fact}",
                code="P876",
                hint="nothing: the next transaction takes a schema of the new columns",
            )
        return InvalidError(
            f"the schema {self.name} does not fit the table: {path}: {fact}",
            code="P871",
            hint="correct it; or leave  schema  out, for one that is made of the table's columns",
        )


@dataclass(frozen=True, slots=True)
class MessageRules:
    """What a message is made of; "" and () where the spec says nothing.

    `key` are columns: one that stands alone gives its text or bytes, several an object of JSON, as
    one does where `key_is_object`. The value is an object of all columns, or of `columns`, or the
    bytes of one, `bytes_of`. With a `key_schema` or a `value_schema` it names that by its id.
    `where` and `delete_when` are conditions in SQL, `timestamp` is a column. `computed` are columns
    that SQL makes of the others, behind `where`. Headers are those of the column `headers_of`, and
    behind them `headers`, of SQL, too; one that is null has no value, or is left out, as a null
    column is (`omits_headers`). Rows for which the column `deleted` is true delete their key,
    whatever `where` says; the column `deleted_at` has their times, where `timestamp` is one of
    those that they lack. A message that `keeps_partition` goes into that of its record.
    """

    key: tuple[str, ...] = ()
    key_is_object: bool = False
    form: JsonForm = field(default_factory=JsonForm)
    bytes_of: str = ""
    where: str = ""
    delete_when: str = ""
    timestamp: str = ""
    key_schema: MessageSchema | None = None
    value_schema: MessageSchema | None = None
    columns: tuple[str, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_of: str = ""
    omits_headers: bool = False
    deleted: str = ""
    deleted_at: str = ""
    keeps_partition: bool = False

    @property
    def is_json(self) -> bool:
        """Return whether a value is an object of JSON that says no schema."""
        return self.value_schema is None and not self.bytes_of

    @property
    def schemas(self) -> dict[MessagePart, MessageSchema]:
        """Return the schemas, by what they are of."""
        found: tuple[tuple[MessagePart, MessageSchema | None], ...]
        found = ((KEY, self.key_schema), (VALUE, self.value_schema))
        return {part: schema for part, schema in found if schema is not None}

    def with_schemas(self, schemas: Mapping[MessagePart, MessageSchema]) -> MessageRules:
        """Return the rules with other schemas."""
        return replace(self, key_schema=schemas.get(KEY), value_schema=schemas.get(VALUE))


def rules_to_data(rules: MessageRules) -> dict[str, Any]:
    """Return the plain form; of what came to be later it has what is said alone."""
    data = asdict(rules)
    for name in _SCHEMAS:
        if data[name] is not None and not data[name]["fields"]:
            del data[name]["fields"]
    return {name: each for name, each in data.items() if each or name in _ALWAYS}


def rules_from_data(data: Mapping[str, Any]) -> MessageRules:
    """Read the plain form."""
    schemas = {name: MessageSchema(**data[name]) for name in _SCHEMAS if name in data}
    columns = tuple(data.get("columns", ()))
    read = {"key": tuple(data["key"]), "form": JsonForm(**data["form"]), "columns": columns}
    return MessageRules(**{**data, **read, **schemas})
