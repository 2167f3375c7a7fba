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

_NOTHING = Struct(())

Format = Literal["json", "json-schema-envelope", "avro", "protobuf", "json-schema", "text", "bytes"]
Envelope = Literal["none", "debezium", "flattened", "dms", "maxwell", "canal"]


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
    where fields may be spelled otherwise than their columns. `not_empty` are string
    columns whose empty value the table's format cannot hold (`TableState.not_empty`), `identifiers`
    columns that are never made optional, `reserved` names that records cannot ask a column for, in
    whatever case. `framing`
    and `schema_id` say where a record of a format with schemas tells which it was written by.
    `change_columns` maps operation, timestamp, source to the columns that hold what the envelope
    says of a change; one that the table has not is left out. `unavailable_value` is the text of
    Debezium's placeholder. `key_format` says how the keys are
    encoded that the source column of keys gets; `header_columns` maps columns to the names of the
    headers whose text they hold.
    """

    source_columns: Mapping[str, str]
    columns: Policy = "quarantine"
    types: Policy = "quarantine"
    record_bytes_max: int = 8 << 20
    depth_max: int = 64
    tombstones: Literal["skip", "quarantine"] = "skip"
    assume_zone: str | None = None
    drop_offset: bool = False
    case_sensitive: bool = True
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

    @property
    def rescues(self) -> bool:
        """Return whether something may be rescued."""
        return "rescue" in (self.columns, self.types)

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
        unknown = self.change_columns.keys() - CHANGE_TYPES.keys()
        assert not unknown, f"no such change columns: {sorted(unknown)}"
