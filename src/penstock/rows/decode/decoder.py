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
from penstock.rows.decode.avro.reader import AvroReader
from penstock.rows.decode.avro.schema import parse_schema
from penstock.rows.decode.compression import gunzip_values
from penstock.rows.decode.connect.reader import ConnectReader, split_schemas
from penstock.rows.decode.envelope.json_envelopes import NoRow, unwrap
from penstock.rows.decode.envelope.typed_envelopes import event_reader
from penstock.rows.decode.format_reader import BytesReader, FormatReader, TextReader
from penstock.rows.decode.json_schema import PlainJson, reader_for
from penstock.rows.decode.protobuf.reader import ProtobufReader
from penstock.rows.decode.schema_id import group_by_schema
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

Positions = npt.NDArray[np.int64]

READERS_MAX = 1000
KEPT_BYTES_MAX = 16 << 20
EMPTY = "the value is empty"


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """Values that one reader reads, and their positions in the batch; None reads JSON.

    `told` is the type that a schema tells for plain JSON, `unknown` without one.
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
        """Return the reader of a schema that stands in its records; `null` is none: plain JSON.

        Raises RejectError.
        """
        if schema == b"null":
            return PlainJson(Kind.UNKNOWN)
        place = (options.format, sha256(schema).digest(), options.depth_max)
        if place not in self._cached:
            self._cache(place, len(schema), partial(ConnectReader.of, schema, options.depth_max))
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
    """Return a function that gives the same readers, of no registry, to all who ask."""
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
    values = _taken(batch.column("value"), positions)
    opened.groups = (
        _unwrapped(_not_empty(group, opened), options, changes, opened)
        for plain in _unpacked(values, positions, options, opened)
        for group in _sorted_by_reader(batch, plain, options, readers, opened)
    )
    return opened


def _unwrapped(
    group: ReaderGroup, options: RowOptions, changes: Mapping[str, str], opened: DecodedValues
) -> ReaderGroup:
    if options.envelope == "none":
        return group
    if group.reader is not None:
        return _with_events(group, group.reader, options, changes, opened)
    rows: list[bytes] = []
    kept = np.ones(len(group.positions), np.bool_)
    for index, value in enumerate(group.values.to_pylist()):
        try:
            row = unwrap(value, options.envelope, changes, depth_max=options.depth_max)
        except RejectError as error:
            opened.rejects[int(group.positions[index])] = error
        else:
            if not isinstance(row, NoRow):
                rows.append(row)
                continue
            opened.filtered[row.reason] += 1
        kept[index] = False
    return ReaderGroup(group.positions[kept], pa.array(rows, pa.binary()))


def _with_events(
    group: ReaderGroup,
    reader: FormatReader,
    options: RowOptions,
    changes: Mapping[str, str],
    opened: DecodedValues,
) -> ReaderGroup:
    try:
        events = event_reader(reader, options.envelope, changes)
    except RejectError as error:
        opened.rejects |= dict.fromkeys(group.positions.tolist(), error)
    else:
        if not isinstance(events, NoRow):
            return ReaderGroup(group.positions, group.values, events)
        opened.filtered[events.reason] += len(group.positions)
    return ReaderGroup(group.positions[:0], group.values.slice(0, 0))


def _unpacked(
    values: pa.BinaryArray, positions: Positions, options: RowOptions, opened: DecodedValues
) -> Iterator[ReaderGroup]:
    if options.compression == "none":
        yield ReaderGroup(positions, values)
        return
    start = 0
    for plain, errors in gunzip_values(values, options.record_bytes_max):
        stop = start + len(plain)
        yield _without(ReaderGroup(positions[start:stop], plain), errors, opened)
        start = stop


def _not_empty(group: ReaderGroup, opened: DecodedValues) -> ReaderGroup:
    """Reject JSON without a byte: it may only now be seen, behind compression or a frame."""
    if group.reader is not None:
        return group
    empty = np.flatnonzero(lengths_of(group.values) == 0).tolist()
    return _without(group, dict.fromkeys(empty, RejectError(RejectCode.EMPTY, EMPTY)), opened)


def _sorted_by_reader(
    batch: pa.RecordBatch,
    plain: ReaderGroup,
    options: RowOptions,
    readers: ReaderCache,
    opened: DecodedValues,
) -> Iterator[ReaderGroup]:
    match options.format:
        case "json":
            yield plain
        case "text":
            yield ReaderGroup(plain.positions, plain.values, TextReader())
        case "bytes":
            yield ReaderGroup(plain.positions, plain.values, BytesReader())
        case "json-schema-envelope":
            yield from _sorted_by_schema(plain, options, readers, opened)
        case _:
            headers = None
            if options.schema_id == "headers" and "headers" in batch.schema.names:
                headers = _taken(batch.column("headers"), plain.positions)
            groups, errors = group_by_schema(plain.values, headers, options)
            for position, error in errors.items():
                opened.rejects[int(plain.positions[position])] = error
            for each in groups:
                at = plain.positions[each.positions]
                try:
                    reader = readers.reader(each.key, options, each.message)
                except RejectError as error:
                    opened.rejects |= dict.fromkeys(at.tolist(), error)
                else:
                    yield _read_by(reader, at, each.values)


def _sorted_by_schema(
    plain: ReaderGroup, options: RowOptions, readers: ReaderCache, opened: DecodedValues
) -> Iterator[ReaderGroup]:
    cut = split_schemas(plain.values, depth_max=options.depth_max)
    for position, error in cut.rejects.items():
        opened.rejects[int(plain.positions[position])] = error
    if options.tombstones == "quarantine":
        gone = RejectError(RejectCode.TOMBSTONE, "the record has no payload")
        opened.rejects |= dict.fromkeys(plain.positions[cut.empty].tolist(), gone)
    elif cut.empty:
        opened.filtered["tombstone"] += len(cut.empty)
    for schema, (positions, payloads) in cut.parts.items():
        at = plain.positions[positions]
        try:
            reader = readers.of_text(schema, options)
        except RejectError as error:
            opened.rejects |= dict.fromkeys(at.tolist(), error)
        else:
            yield _read_by(reader, at, pa.array(payloads, pa.binary()))


def _read_by(
    reader: FormatReader | PlainJson, at: Positions, values: pa.BinaryArray
) -> ReaderGroup:
    if isinstance(reader, PlainJson):
        return ReaderGroup(at, values, None, reader.type)
    return ReaderGroup(at, values, reader)


def _without(
    group: ReaderGroup, errors: dict[int, RejectError], opened: DecodedValues
) -> ReaderGroup:
    """Leave rejects out of a group, known by their positions in it."""
    if not errors:
        return group
    for position, error in errors.items():
        opened.rejects[int(group.positions[position])] = error
    kept = np.ones(len(group.positions), np.bool_)
    kept[list(errors)] = False
    return replace(
        group, positions=group.positions[kept], values=group.values.filter(pa.array(kept))
    )


def _taken(values: pa.Array, positions: Positions) -> pa.Array:
    return values if len(positions) == len(values) else values.take(pa.array(positions))


def _reader_of(
    schema: RegisteredSchema, options: RowOptions, message: tuple[int, ...]
) -> FormatReader | PlainJson:
    if schema.format != options.format:
        reason = f"the schema is of the format {schema.format}"
        raise RejectError(RejectCode.SCHEMA_UNUSABLE, reason)
    if schema.format == "avro":
        return AvroReader(parse_schema(schema.text, [text for _, text in schema.references]))
    if schema.format == "protobuf":
        if schema.fault:
            raise RejectError(RejectCode.SCHEMA_UNUSABLE, schema.fault)
        return ProtobufReader.of(schema.descriptors, message)
    return reader_for(schema.text, schema.references, options.depth_max)
