"""Sort a batch by gates: whose record is it, who left it out, and which cannot be told.

Equal looks happen once a batch, however many tables ask. A record whose declared fields do not fit
is rejected at the first rule that looks at it, and rules below count it as taken. One that is too
slow for an expression is rejected by each rule that asks for its answer: whose it is, none can
tell.

Invariants:
- for one gate, a record is the table's, or filtered under a place of the spec, or rejected;
- the verdict on a record does not depend on the records beside it: where SQL fails on one, or takes
  too long, the others are judged as if it were not there;
- a table of a route rejects a slow record itself, and passes by what the route rejects for ever: it
  relies on no verdict of the route's that another look may change (docs/design/0240).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.cast.record_cast import LENIENT
from penstock.rows.convert.batch import Reject, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression
from penstock.rows.route.sql_values import RECORD_SECONDS_MAX, evaluate, true_of
from penstock.rows.route.table_names import TableNames, table_names
from penstock.spec.language.sandbox import sandbox

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Mask = npt.NDArray[np.bool_]
TAKEN = "taken by"

_OFFSET = "_kafka_offset"
_WHY = {
    RejectCode.UNDECIDED: "{} cannot be computed for this record",
    RejectCode.SLOW: f"{{}} takes longer than {RECORD_SECONDS_MAX:.0f} s for this record alone",
    RejectCode.UNROUTABLE: "{} gives no usable part of a table's name",
    RejectCode.UNKNOWN_TABLE: "{} names a table that does not exist, and none is created",
}


@dataclass(frozen=True, slots=True)
class Routing:
    """What one gate makes of a batch: masks over its records, and rejects by position.

    `unknown` gives, before a route itself, which records ask for which table.
    """

    mine: Mask
    filtered: Mapping[str, Mask]
    rejected: Mapping[int, Reject]
    unknown: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """Declared fields beside coordinates, a row for each record, and what did not fit."""

    table: pa.Table
    rejects: Mapping[int, Reject]


@dataclass(frozen=True, slots=True)
class _Answer:
    values: pa.Array
    refused: Mapping[int, Reject]
    slow: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _ReadWith:
    """What records are read with: equal keys see equal fields."""

    options: RowOptions
    readers: ReaderCache

    @property
    def key(self) -> tuple[str, ReaderCache]:
        return repr(self.options), self.readers


@dataclass(eq=False)
class Router:
    """Looks at one batch of one partition (as in `ports.log.Fetched`) for many gates."""

    batch: pa.RecordBatch
    at: TopicPartition
    _seen: dict[Any, _Evaluated] = field(default_factory=dict)
    _answers: dict[Any, _Answer] = field(default_factory=dict)
    _names: dict[Any, TableNames] = field(default_factory=dict)
    _plain: ReaderCache = field(default_factory=ReaderCache)

    def route(
        self,
        gate: RecordFilter,
        options: RowOptions,
        *,
        known: frozenset[str] = frozenset(),
        readers: ReaderCache | None = None,
    ) -> Routing:
        """Return what a gate makes of the batch; `known` are the tables of its route.

        `readers` may be left out for formats without schemas. Raises what `Registry.find` raises.
        """
        sight = _ReadWith(_filter_options(options), readers or self._plain)
        rest = np.ones(len(self.batch), np.bool_)
        filtered: dict[str, Mask] = {}
        refused: dict[int, Reject] = {}
        for look in gate.rules_above:
            answer = self._decided(look, sight)
            refused |= _within({at: answer.refused[at] for at in answer.slow}, rest)
            rest[list(answer.slow)] = False
            taken = true_of(answer.values)
            taken[list(answer.refused)] = True
            filtered[f"{TAKEN} {look.spec_path.partition('.')[0]}"] = taken & rest
            rest &= ~taken
        if gate.where is not None:
            answer = self._decided(gate.where, sight)
            refused |= _within(answer.refused, rest)
            rest[list(answer.refused)] = False
            true = true_of(answer.values)
            filtered[gate.where.spec_path] = rest & ~true
            rest &= true
        if gate.route is None:
            return Routing(rest, filtered, refused)
        return self._routed(gate, gate.route, sight, _Remaining(rest, filtered, refused), known)

    def _routed(
        self,
        gate: RecordFilter,
        route: DynamicRoute,
        sight: _ReadWith,
        left: _Remaining,
        known: frozenset[str],
    ) -> Routing:
        names, errors = self._named(route, sight)
        rest = left.rest.copy()
        rest[list(errors)] = False  # the route rejects them, whatever name is made of them
        refused = {**left.refused, **_within(errors, left.rest)}
        if gate.share:
            slow = {index: each for index, each in refused.items() if each.code == RejectCode.SLOW}
            return Routing(rest & names.asking_for(gate.share), {}, slow)
        place = next(iter(route.parts.values())).spec_path
        for index in np.flatnonzero(rest & names.unusable).tolist():
            refused[index] = self._reject(index, RejectCode.UNROUTABLE, place)
        rest &= ~names.unusable
        unknown = {}
        for name in names.different:
            asking = rest & names.asking_for(name)
            if name in route.reserved:
                for index in np.flatnonzero(asking).tolist():
                    refused[index] = self._reject(index, RejectCode.UNROUTABLE, place)
                rest &= ~asking
            elif name not in known and asking.any():
                unknown[name] = asking
                rest &= ~asking
        return Routing(
            np.zeros(len(rest), np.bool_), {**left.filtered, "routed": rest}, refused, unknown
        )

    def values(
        self, look: SqlExpression, options: RowOptions, readers: ReaderCache
    ) -> tuple[pa.Array, Mapping[int, Reject]]:
        """Compute an expression for every record; where it cannot be, the record is rejected."""
        answer = self._answer(
            f"(\n{look.sql}\n)", look, _ReadWith(_filter_options(options), readers)
        )
        return answer.values, answer.refused

    def reject(self, asking: Mask, route: DynamicRoute) -> dict[int, Reject]:
        """Reject records whose table does not exist."""
        place = next(iter(route.parts.values())).spec_path
        return {
            index: self._reject(index, RejectCode.UNKNOWN_TABLE, place)
            for index in np.flatnonzero(asking).tolist()
        }

    def _named(
        self, route: DynamicRoute, sight: _ReadWith
    ) -> tuple[TableNames, Mapping[int, Reject]]:
        found = {
            name: self._answer(f"cast((\n{look.sql}\n) as varchar)", look, sight)
            for name, look in route.parts.items()
        }
        key = (route.template, tuple(look.sql for look in route.parts.values()))
        if key not in self._names:
            parts = {name: answer.values for name, answer in found.items()}
            self._names[key] = table_names(route.template, parts)
        errors = {at: r for answer in found.values() for at, r in answer.refused.items()}
        return self._names[key], errors

    def _decided(self, look: SqlExpression, sight: _ReadWith) -> _Answer:
        return self._answer(f"((\n{look.sql}\n) is true)", look, sight)

    def _answer(self, sql: str, look: SqlExpression, sight: _ReadWith) -> _Answer:
        key = (sql, look.fields, sight.key)
        if key not in self._answers:
            seen = self._evaluated(look.fields, sight)
            found = evaluate(self._connection, sql, seen.table)
            refused = dict(seen.rejects)
            for code, places in (
                (RejectCode.UNDECIDED, found.failed),
                (RejectCode.SLOW, found.slow),
            ):
                for index in places:
                    refused.setdefault(index, self._reject(index, code, look.spec_path))
            slow = [index for index in found.slow if refused[index].code == RejectCode.SLOW]
            self._answers[key] = _Answer(found.values, refused, tuple(slow))
        return self._answers[key]

    @cached_property
    def _connection(self) -> DuckDBPyConnection:
        return sandbox()

    def _evaluated(self, fields: Schema, sight: _ReadWith) -> _Evaluated:
        key = (fields, sight.key)
        if key not in self._seen:
            self._seen[key] = self._evaluate(fields, sight)
        return self._seen[key]

    def _evaluate(self, fields: Schema, sight: _ReadWith) -> _Evaluated:
        columns = _coordinates(self.batch, self.at)
        if not fields.fields:
            return _Evaluated(pa.table(columns), {})
        schema = Struct((*fields.fields, Field(_OFFSET, Kind.LONG)))
        converted = convert_batch(
            self.batch, at=self.at, schema=schema, options=sight.options, readers=sight.readers
        )
        offsets = self.batch.column("offset").to_numpy()
        places = np.searchsorted(offsets, converted.rows.column(_OFFSET).to_numpy())
        rows = np.full(len(self.batch), -1, np.int64)
        rows[places] = np.arange(len(places))
        taken = converted.rows.take(pa.array(rows, mask=rows < 0))
        own = {name: taken.column(name) for name in fields.names}
        errors = {int(np.searchsorted(offsets, r.offset)): r for r in converted.rejects}
        return _Evaluated(pa.table({**own, **columns}), errors)

    def _reject(self, index: int, code: RejectCode, place: str) -> Reject:
        offset = self.batch.column("offset")[index].as_py()
        return Reject(offset, str(CODE_INFO[code].stage), str(code), _WHY[code].format(place))


@dataclass(frozen=True, slots=True)
class _Remaining:
    rest: Mask
    filtered: dict[str, Mask]
    refused: dict[int, Reject]


def _filter_options(options: RowOptions) -> RowOptions:
    """Return the options by which declared fields are read: none of the table's own columns."""
    return replace(
        options,
        source_columns={"offset": _OFFSET},
        columns="drop_value",
        types="drop_value" if options.types in LENIENT else "quarantine",
        tombstones="skip",
        not_empty=(),
        key_format="bytes",
        header_columns={},
    )


def _coordinates(batch: pa.RecordBatch, at: TopicPartition) -> dict[str, pa.Array]:
    count = len(batch)
    found = {
        "_kafka_topic": pa.repeat(pa.scalar(at.topic, pa.string()), count),
        "_kafka_partition": pa.repeat(pa.scalar(at.partition, pa.int32()), count),
        _OFFSET: batch.column("offset"),
        "_kafka_timestamp": batch.column("timestamp"),
        "_kafka_key": _texts(batch.column("key")),
    }
    if "headers" in batch.schema.names:
        found["_kafka_headers"] = _headers(batch.column("headers"))
    else:
        found["_kafka_headers"] = pa.nulls(count, pa.map_(pa.string(), pa.string()))
    return found


def _texts(values: pa.Array) -> pa.Array:
    """Return bytes as text, and null where they are none."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _headers(headers: pa.Array) -> pa.Array:
    """Return headers as a map; of several with one name the last one, as Kafka's `lastHeader`."""
    maps = [
        {str(header["key"]): _text(header["value"]) for header in record or ()}
        for record in headers.to_pylist()
    ]
    return pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.string()))


def _within(refused: Mapping[int, Reject], mask: Mask) -> dict[int, Reject]:
    return {index: reject for index, reject in refused.items() if mask[index]}
