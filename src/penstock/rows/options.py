"""What the spec says about turning records into rows, resolved for one table.

Invariant: with equal options, schema and records, the verdict on each record is equal
(protocol.md 2, "Verdicts are reproducible").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.core.names import folded
from penstock.core.schema import Field, Kind, List, Struct, Type

Policy = Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"]

HEADERS = List(Struct((Field("key", Kind.STRING), Field("value", Kind.BINARY))))

SOURCE_TYPES: Mapping[str, Type] = {
    "topic": Kind.STRING,
    "partition": Kind.INT,
    "offset": Kind.LONG,
    "timestamp": Kind.TIMESTAMPTZ,
    "key": Kind.BINARY,
    "headers": HEADERS,
}


CHANGE_TYPES: Mapping[str, Type] = {
    "operation": Kind.STRING,
    "timestamp": Kind.TIMESTAMPTZ,
    "source": Kind.STRING,
}

SOFT_TYPES: tuple[Type, Type] = (Kind.BOOLEAN, Kind.TIMESTAMPTZ)
"""Of the columns for a deleted row's flag and time."""

FORMER_KEY = "_penstock_former_key"
"""The change column, and what it is asked for by, of the key that an update changes: within a
record's conversion alone, never in a table (rows/keyed/operations.py)."""

_NOTHING = Struct(())

Format = Literal["json", "json-schema-envelope", "avro", "protobuf", "json-schema", "text", "bytes"]
Envelope = Literal["none", "debezium", "flattened", "dms", "maxwell", "canal"]


Operation = Literal["upsert", "delete", "truncate"]


@dataclass(frozen=True, slots=True)
class KeyedOptions:
    """How records change the rows of a keyed table (docs/design/0243).

    `keys` are the columns of the key. `operations` maps what the operation field or header holds to
    what it means; one that is not in it is rejected. The operation is that of the envelope where
    there is one; else that of the record's field `operation_field`, or of its header
    `operation_header`; where both are None, every record with a value is an upsert.
    `ignores_deletes` and `ignores_truncates` filter these instead. `soft` are the columns of a
    boolean and a timestamp: a delete brings a row that says in them that it was deleted, and when;
    None where it takes the row away. `sequence` are the columns by which one change is later than
    another, before the order of the log.
    """

    keys: tuple[str, ...]
    operations: Mapping[str, Operation] = field(default_factory=dict)
    operation_field: str | None = None
    operation_header: str | None = None
    ignores_deletes: bool = False
    soft: tuple[str, str] | None = None
    ignores_truncates: bool = False
    sequence: tuple[str, ...] = ()

    @property
    def keeps_all_rows(self) -> bool:
        """Return whether no delete takes a row away, as where a sequence must not be forgotten."""
        return bool(self.sequence) and self.ignores_deletes

    @property
    def says_operations(self) -> bool:
        """Return whether plain records say their operation."""
        return self.operation_field is not None or self.operation_header is not None

    def __post_init__(self) -> None:
        assert self.keys, "a key has columns"
        assert not self.sequence or self.soft or self.ignores_deletes, "no sequence is forgotten"
        assert not (self.soft and self.ignores_deletes), "a delete brings a row, or is ignored"
        assert None in (self.operation_field, self.operation_header), "it is in one place"


@dataclass(frozen=True, slots=True)
class RowOptions:
    """One table's rules for records.

    `source_columns` maps topic, partition, offset, timestamp, key, headers to the columns that
    hold them; one that the table has not is left out. `columns` is the outcome of unknown fields,
    `types` of values that do not fit: `drop_value` lands null instead and counts it, `rescue` keeps
    the value in `rescued_column`, and rejects the record where the table has not that; `evolve` and
    `freeze` reject the record, for the worker to act on (landing/task/sink.py). `depth_max` counts
    nested objects and arrays, the record's own object included. `assume_zone` is a name that
    `zoneinfo` knows; it is given to timestamps without an offset. `drop_offset` lets a
    `timestamp` column take the local time of a text that has an offset. `case_sensitive` is false
    where fields may be spelled in another case than their columns. `match` says whether they may
    have other names of the table's name mapping, and `names` which columns these are, by the path
    of the struct that they are in, "" at the top. `not_empty` are string
    columns whose empty value the table's format cannot hold (`TableState.not_empty`), `identifiers`
    columns that are never made optional, `reserved` names that records cannot ask a column for, in
    whatever case. `framing` and `schema_id` say where a record of a format with schemas tells which
    it was written by. `change_columns` maps operation, timestamp, source to the columns that hold
    what the envelope says of a change; one that the table has not is left out. `unavailable_value`
    is the text of Debezium's placeholder. `key_format` says how the keys are encoded that the
    source column of keys gets; `header_columns` maps columns to the headers whose text they hold.
    `keyed` says how records change rows; None where each record is a row of its own. Under
    `tombstones: delete`, of keyed tables alone, a record without a value deletes the row of the key
    that its own key holds. With `fills_defaults` a value that is absent or null becomes the
    column's default, where the table has one.
    """

    source_columns: Mapping[str, str]
    columns: Policy = "quarantine"
    types: Policy = "quarantine"
    record_bytes_max: int = 8 << 20
    depth_max: int = 64
    tombstones: Literal["skip", "quarantine", "delete"] = "skip"
    assume_zone: str | None = None
    drop_offset: bool = False
    case_sensitive: bool = True
    match: Literal["name", "name_mapping"] = "name"
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    not_empty: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    format: Format = "json"
    framing: Literal["registry", "single-object"] = "registry"
    schema_id: Literal["value", "headers"] = "value"
    compression: Literal["none", "gzip"] = "none"
    envelope: Envelope = "none"
    change_columns: Mapping[str, str] = field(default_factory=dict)
    rescued_column: str = "_rescued"
    unavailable_value: str = "__debezium_unavailable_value"
    key_format: Format = "bytes"
    header_columns: Mapping[str, str] = field(default_factory=dict)
    schema_id_header: str = "__value_schema_id"
    keyed: KeyedOptions | None = None
    fills_defaults: bool = False

    @property
    def is_exact(self) -> bool:
        """Return whether fields are spelled as their columns are."""
        return self.case_sensitive and not self.names

    def spelling(self, path: str, name: str) -> str:
        """Return what all names of a column in the struct at a path share."""
        return self.names.get(path, {}).get(name, name) if self.case_sensitive else folded(name)

    @property
    def rescues(self) -> bool:
        """Return whether something may be rescued."""
        return "rescue" in (self.columns, self.types)

    @property
    def mode(self) -> Literal["append", "upsert", "cdc"]:
        """Return what the records do to the table, by the word of the spec."""
        if self.keyed is None:
            return "append"
        said = self.envelope != "none" or self.keyed.says_operations
        return "cdc" if said else "upsert"

    @property
    def keys(self) -> tuple[str, ...]:
        """List the columns of the key by which records change rows; none where they append."""
        return () if self.keyed is None else self.keyed.keys

    @property
    def sequence(self) -> tuple[str, ...]:
        """List the columns by which changes of a key compare, before the order of the log."""
        return () if self.keyed is None else self.keyed.sequence

    @property
    def soft_columns(self) -> tuple[Field, ...]:
        """List the columns that say of a row that it was deleted, and when; none without them."""
        names = None if self.keyed is None else self.keyed.soft
        pairs = zip(names, SOFT_TYPES, strict=True) if names else ()
        return tuple(Field(name, type_) for name, type_ in pairs)

    @property
    def key_in_rows(self) -> tuple[str, ...]:
        """List the columns of the key that the record has itself, not its place or headers."""
        return tuple(name for name in self.keys if name not in self.beside_value)

    @property
    def beside_value(self) -> frozenset[str]:
        """Name the columns that are filled from elsewhere than a record's value."""
        soft = (field.name for field in self.soft_columns)
        return frozenset((*self.source_columns.values(), *self.header_columns, *soft))

    def asked_for(self, shown: Struct, there: Struct = _NOTHING) -> Struct:
        """Leave out fields whose names are reserved, but for columns that are there."""
        if not self.reserved:
            return shown
        taken = {folded(name) for name in self.reserved}
        kept = (f for f in shown.fields if there.field(f.name) or folded(f.name) not in taken)
        return Struct(tuple(kept))

    def __post_init__(self) -> None:
        unknown = self.source_columns.keys() - SOURCE_TYPES.keys()
        assert not unknown, f"no such source columns: {sorted(unknown)}"
        names = list(self.source_columns.values())
        assert len(set(names)) == len(names), f"a source column is named twice: {names}"
        unknown = self.change_columns.keys() - {*CHANGE_TYPES, FORMER_KEY}
        assert not unknown, f"no such change columns: {sorted(unknown)}"
