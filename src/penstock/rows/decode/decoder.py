"""Values are opened: unpacked, freed of their frames and envelopes, and sorted by what reads them.

Invariants: each value given is in one group, a reject, or filtered with a reason; what happens to
one does not depend on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Kind, Type
from penstock.ports.registry import RegisteredSchema, Registry, SchemaKey
from penstock.rows.arrow_arrays import lengths_of
from penstock.rows.decode.avro.block_reader import avro_reader
from penstock.rows.decode.avro.schema import parse_schema
from penstock.rows.decode.compression import gunzip_values
from penstock.rows.decode.connect.block_reader import connect_reader
from penstock.rows.decode.envelope.former_keys import FormerKey
from penstock.rows.decode.envelope.json_envelopes import members_of, unwrap
from penstock.rows.decode.envelope.typed_envelopes import event_reader
from penstock.rows.decode.format_reader import BYTES_READER, TEXT_READER, FormatReader, NoRowError
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.decode.json_schema import PlainJson, reader_for
from penstock.rows.decode.protobuf.block_reader import protobuf_reader
from penstock.rows.decode.schema_id import group_by_schema
from penstock.rows.options import FORMER_KEY, RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

Positions = npt.NDArray[np.int64]

READERS_MAX = 1000
KEPT_BYTES_MAX = 16 << 20
EMPTY = "the value is empty"


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """Values that one reader reads, and their positions in the batch; None reads JSON.

    `type` is the type that a schema declares for plain JSON, `unknown` without one.
    """

    positions: Positions
    values: pa.BinaryArray
    reader: FormatReader | None = None
    type: Type = Kind.UNKNOWN


@dataclass(slots=True)
class DecodedValues:
    """The outcome of each value, by its position in the batch: whole once `groups` are taken.

    The groups are made when they are asked for, so that not all is unpacked at the same time.
    """

    groups: Iterator[ReaderGroup] = field(default_factory=lambda: iter(()))
    rejects: dict[int, RejectError] = field(default_factory=dict)
    filtered: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class ReaderCache:
    """The readers of schemas, cached: schemas never change under a key.

    At most READERS_MAX are kept, of schemas of KEPT_BYTES_MAX in all: beyond that all are let go.
    """

    registry: Registry | None = None
    _cached: dict[tuple[Any, ...], FormatReader | PlainJson | RejectError] = field(
        default_factory=dict
    )
    _cached_bytes: int = 0

    def reader(
        self, key: SchemaKey, options: RowOptions, message: tuple[int, ...] = ()
    ) -> FormatReader | PlainJson:
        """Return the reader of a schema, and of one message in it.

        Raises RejectError, and what `Registry.find` raises.
        """
        place = (options.format, key, message)
        if place not in self._cached:
            assert self.registry is not None, "a format with schemas has a registry"
            schema = self.registry.find(key)
            if schema is None:
                reason = f"the registry has no schema of {key.kind} {key.value}"
                raise RejectError(RejectCode.UNKNOWN_SCHEMA, reason)
            size = len(schema.text) + len(schema.descriptors)
            self._cache(place, size, partial(_reader_of, schema, options, message))
        return self._found(place)

    def of_text(self, schema: bytes, options: RowOptions) -> FormatReader | PlainJson:
        """Return the reader of a schema that its records contain; `null` is none: plain JSON.

        Raises RejectError.
        """
        if schema == b"null":
            return PlainJson(Kind.UNKNOWN)
        place = (options.format, sha256(schema).digest(), options.depth_max)
        if place not in self._cached:
            self._cache(place, len(schema), partial(_connect_reader, schema, options.depth_max))
        return self._found(place)

    def _cache(
        self, place: tuple[Any, ...], size: int, make: Callable[[], FormatReader | PlainJson]
    ) -> None:
        if len(self._cached) >= READERS_MAX or self._cached_bytes + size > KEPT_BYTES_MAX:
            self._cached.clear()
            self._cached_bytes = 0
        self._cached_bytes += size
        try:
            self._cached[place] = make()
        except RejectError as error:
            self._cached[place] = error.without_traceback()

    def _found(self, place: tuple[Any, ...]) -> FormatReader | PlainJson:
        found = self._cached[place]
        if isinstance(found, RejectError):
            raise found.without_traceback()
        return found


def plain_readers() -> Callable[[Any], ReaderCache]:
    """Return a function that returns the same readers, of no registry, to every caller."""
    readers = ReaderCache()
    return lambda _: readers


def decode_values(
    batch: pa.RecordBatch,
    positions: Positions,
    options: RowOptions,
    readers: ReaderCache,
    changes: Mapping[str, str],
) -> DecodedValues:
    """Open the values at some positions of a batch, none of them null.

    `changes` are the change columns that rows get, by what they hold. Taking the groups raises what
    `Registry.find` raises.
    """
    opened = DecodedValues()
    opened.groups = _Opening(options, readers, changes, opened).groups(batch, positions)
    return opened


@dataclass(frozen=True, slots=True)
class _Opening:
    options: RowOptions
    readers: ReaderCache
    changes: Mapping[str, str]
    opened: DecodedValues

    def groups(self, batch: pa.RecordBatch, positions: Positions) -> Iterator[ReaderGroup]:
        given = ReaderGroup(positions, _taken(batch.column("value"), positions))
        for plain in self._unpacked(given):
            for group in self._by_reader(batch, plain):
                yield self._unwrapped(self._not_empty(group))

    def _unpacked(self, given: ReaderGroup) -> Iterator[ReaderGroup]:
        if self.options.compression == "none":
            yield given
            return
        start = 0
        for plain, errors in gunzip_values(given.values, self.options.record_bytes_max):
            stop = start + len(plain)
            yield self._without(ReaderGroup(given.positions[start:stop], plain), errors)
            start = stop

    def _by_reader(self, batch: pa.RecordBatch, plain: ReaderGroup) -> Iterator[ReaderGroup]:
        match self.options.format:
            case "json":
                yield plain
            case "text":
                yield replace(plain, reader=TEXT_READER)
            case "bytes":
                yield replace(plain, reader=BYTES_READER)
            case "json-schema-envelope":
                yield from self._by_own_schema(plain)
            case _:
                yield from self._by_registered_schema(batch, plain)

    def _by_registered_schema(
        self, batch: pa.RecordBatch, plain: ReaderGroup
    ) -> Iterator[ReaderGroup]:
        headers = None
        if self.options.schema_id == "headers" and "headers" in batch.schema.names:
            headers = _taken(batch.column("headers"), plain.positions)
        groups, errors = group_by_schema(plain.values, headers, self.options)
        for position, error in errors.items():
            self.opened.rejects[int(plain.positions[position])] = error
        for each in groups:
            find = partial(self.readers.reader, each.key, self.options, each.message)
            yield from self._read_by(find, plain.positions[each.positions], each.values)

    def _by_own_schema(self, plain: ReaderGroup) -> Iterator[ReaderGroup]:
        """Cut values into schemas and payloads: those with one text of a schema are one group."""
        parts: dict[bytes, tuple[list[int], list[bytes]]] = {}
        for position, value in zip(plain.positions.tolist(), plain.values.to_pylist(), strict=True):
            try:
                members = members_of(value, depth_max=self.options.depth_max)
            except RejectError as error:
                self.opened.rejects[position] = error
                continue
            if members.keys() != {"schema", "payload"}:
                reason = "the value is not an object of 'schema' and 'payload'"
                self.opened.rejects[position] = RejectError(RejectCode.NO_ENVELOPE, reason)
            elif members["payload"] != b"null":
                positions, payloads = parts.setdefault(members["schema"], ([], []))
                positions.append(position)
                payloads.append(members["payload"])
            elif self.options.tombstones == "quarantine":
                tombstone = RejectError(RejectCode.TOMBSTONE, "the record has no payload")
                self.opened.rejects[position] = tombstone
            else:
                self.opened.filtered["tombstone"] += 1
        for schema, (positions, payloads) in parts.items():
            find = partial(self.readers.of_text, schema, self.options)
            values = pa.array(payloads, pa.binary())
            yield from self._read_by(find, np.array(positions, np.int64), values)

    def _read_by(
        self,
        find: Callable[[], FormatReader | PlainJson],
        positions: Positions,
        values: pa.BinaryArray,
    ) -> Iterator[ReaderGroup]:
        try:
            reader = find()
        except RejectError as error:
            self.opened.rejects |= dict.fromkeys(positions.tolist(), error)
            return
        if isinstance(reader, PlainJson):
            yield ReaderGroup(positions, values, None, reader.type)
        else:
            yield ReaderGroup(positions, values, reader)

    def _not_empty(self, group: ReaderGroup) -> ReaderGroup:
        """Reject JSON without a byte: it may only be seen now, after decompression or a frame."""
        if group.reader is not None and self.options.format != "json-schema":
            return group
        empty = np.flatnonzero(lengths_of(group.values) == 0).tolist()
        return self._without(group, dict.fromkeys(empty, RejectError(RejectCode.EMPTY, EMPTY)))

    def _unwrapped(self, group: ReaderGroup) -> ReaderGroup:
        options = self.options
        if options.envelope == "none":
            return group
        if group.reader is not None:
            return self._with_events(group, group.reader)
        rows: list[bytes] = []
        kept: list[int] = []
        former_key = None
        if FORMER_KEY in self.changes:
            former_key = FormerKey.of(
                options.envelope,
                options.key_in_rows,
                case_sensitive=options.case_sensitive,
                depth_max=options.depth_max,
            ).find
        for position, value in zip(group.positions.tolist(), group.values.to_pylist(), strict=True):
            try:
                row = unwrap(
                    value,
                    options.envelope,
                    self.changes,
                    depth_max=options.depth_max,
                    former_key=former_key,
                )
            except RejectError as error:
                self.opened.rejects[position] = error
            except NoRowError as error:
                self.opened.filtered[error.reason] += 1
            else:
                rows.append(row)
                kept.append(position)
        return ReaderGroup(np.array(kept, np.int64), pa.array(rows, pa.binary()))

    def _with_events(self, group: ReaderGroup, reader: FormatReader) -> ReaderGroup:
        try:
            options = self.options
            events = event_reader(reader, options.envelope, self.changes, options.key_in_rows)
            return replace(group, reader=events)
        except RejectError as error:
            self.opened.rejects |= dict.fromkeys(group.positions.tolist(), error)
        except NoRowError as error:
            self.opened.filtered[error.reason] += len(group.positions)
        return ReaderGroup(group.positions[:0], group.values.slice(0, 0))

    def _without(self, group: ReaderGroup, errors: dict[int, RejectError]) -> ReaderGroup:
        """Leave rejects out of a group, known by their positions in it."""
        if not errors:
            return group
        for position, error in errors.items():
            self.opened.rejects[int(group.positions[position])] = error
        kept = np.ones(len(group.positions), np.bool_)
        kept[list(errors)] = False
        return replace(
            group, positions=group.positions[kept], values=group.values.filter(pa.array(kept))
        )


def _taken(values: pa.Array, positions: Positions) -> pa.Array:
    return values if len(positions) == len(values) else values.take(pa.array(positions))


def _connect_reader(schema: bytes, depth_max: int) -> FormatReader:
    return connect_reader(parse_object(schema, depth_max=depth_max), depth_max)


def _reader_of(
    schema: RegisteredSchema, options: RowOptions, message: tuple[int, ...]
) -> FormatReader | PlainJson:
    if schema.format != options.format:
        reason = f"the schema is of the format {schema.format}"
        raise RejectError(RejectCode.SCHEMA_UNUSABLE, reason)
    if schema.format == "avro":
        return avro_reader(parse_schema(schema.text, [text for _, text in schema.references]))
    if schema.format == "protobuf":
        if schema.fault:
            raise RejectError(RejectCode.SCHEMA_UNUSABLE, schema.fault)
        return protobuf_reader(schema.descriptors, message)
    return reader_for(schema.text, schema.references, options.depth_max)
