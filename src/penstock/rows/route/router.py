"""Apply filters and routes to a batch: which table a record is for, or which rule left it out.

Equal expressions are evaluated once a batch, however many tables use them. A record with declared
fields that do not fit is rejected at the first rule that reads it, and counts as taken for later
rules.
One that is too slow for an expression is rejected by each rule that asks for its answer, for no
rule knows which table it is for.

Invariants:
- for one filter, a record is the table's, or filtered under a place of the spec, or rejected;
- the verdict on a record does not depend on the other records: where SQL fails on one, or takes
  too long, the others are decided on as if it were not there;
- a table of a route rejects a slow record itself, and skips what the route rejects for good: it
  relies on no verdict of the route's that another evaluation may change (docs/design/0240).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.coordinates import header_maps, texts_of
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression
from penstock.rows.route.sql_values import RECORD_SECONDS_MAX, evaluate, true_of
from penstock.rows.route.table_names import table_names
from penstock.spec.language.sandbox import sandbox

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Mask = npt.NDArray[np.bool_]
TAKEN = "taken by"

_OFFSET = "_kafka_offset"
_NOT_ASKED_FOR = -2
_WHY = {
    RejectCode.UNDECIDED: "{} cannot be computed for this record",
    RejectCode.SLOW: f"{{}} takes longer than {RECORD_SECONDS_MAX:.0f} s for this record alone",
    RejectCode.UNROUTABLE: "{} yields no usable part of a table's name",
    RejectCode.UNKNOWN_TABLE: "{} names a table that does not exist, and none is created",
}


@dataclass(frozen=True, slots=True)
class Routing:
    """The result of one filter on a batch: masks over its records, and rejects by position.

    `unknown` has, by table, the records that ask for it, before a route is followed.
    """

    mine: Mask
    filtered: Mapping[str, Mask]
    rejected: Mapping[int, Reject]
    unknown: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer:
    values: pa.Array
    refused: Mapping[int, Reject]
    slow: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _ReadWith:
    """The options that records are read with: equal keys read equal fields."""

    options: RowOptions
    readers: ReaderCache

    @property
    def key(self) -> tuple[str, ReaderCache]:
        return repr(self.options), self.readers


@dataclass(eq=False)
class Router:
    """Filters and routes one batch of one partition (as in `ports.log.Fetched`), for many rules."""

    batch: pa.RecordBatch
    at: TopicPartition
    _seen: dict[Any, tuple[pa.Table, Mapping[int, Reject]]] = field(default_factory=dict)
    _answers: dict[Any, _Answer] = field(default_factory=dict)
    _names: dict[Any, tuple[npt.NDArray[np.int64], dict[str, int]]] = field(default_factory=dict)
    _plain: ReaderCache = field(default_factory=ReaderCache)

    def route(
        self,
        record_filter: RecordFilter,
        options: RowOptions,
        *,
        known: frozenset[str] = frozenset(),
        readers: ReaderCache | None = None,
    ) -> Routing:
        """Apply a filter to the batch; `known` are the tables of its route.

        `readers` may be left out for formats without schemas. Raises what `Registry.find` raises.
        """
        read_with = _ReadWith(_filter_options(options), readers or self._plain)
        rest = np.ones(len(self.batch), np.bool_)
        filtered: dict[str, Mask] = {}
        refused: dict[int, Reject] = {}
        for expression in record_filter.rules_above:
            answer = self._decided(expression, read_with)
            refused |= {at: answer.refused[at] for at in answer.slow if rest[at]}
            rest[list(answer.slow)] = False
            taken = true_of(answer.values)
            taken[list(answer.refused)] = True
            filtered[f"{TAKEN} {expression.spec_path.partition('.')[0]}"] = taken & rest
            rest &= ~taken
        if record_filter.where is not None:
            answer = self._decided(record_filter.where, read_with)
            refused |= {at: reject for at, reject in answer.refused.items() if rest[at]}
            rest[list(answer.refused)] = False
            true = true_of(answer.values)
            filtered[record_filter.where.spec_path] = rest & ~true
            rest &= true
        left = Routing(rest, filtered, refused)
        if record_filter.route is None:
            return left
        return self._routed(record_filter.route, record_filter.share, read_with, left, known)

    def _routed(
        self,
        route: DynamicRoute,
        share: str,
        read_with: _ReadWith,
        left: Routing,
        known: frozenset[str],
    ) -> Routing:
        asked, numbers, errors = self._named(route, read_with)
        rest = left.mine.copy()
        rest[list(errors)] = False  # the route rejects them, whatever name is made of them
        refused = {**left.rejected, **{at: r for at, r in errors.items() if left.mine[at]}}
        if share:
            slow = {index: each for index, each in refused.items() if each.code == RejectCode.SLOW}
            return Routing(rest & (asked == numbers.get(share, _NOT_ASKED_FOR)), {}, slow)
        unusable, unknown = rest & (asked < 0), {}
        for name, number in numbers.items():
            asking = rest & (asked == number)
            if name in route.reserved:
                unusable |= asking
            elif name not in known and asking.any():
                unknown[name] = asking
                rest &= ~asking
        place = next(iter(route.parts.values())).spec_path
        refused |= self._rejects(np.flatnonzero(unusable), RejectCode.UNROUTABLE, place)
        filtered = {**left.filtered, "routed": rest & ~unusable}
        return Routing(np.zeros(len(rest), np.bool_), filtered, refused, unknown)

    def values(
        self, expression: SqlExpression, options: RowOptions, readers: ReaderCache
    ) -> tuple[pa.Array, Mapping[int, Reject]]:
        """Compute an expression for every record; where it cannot be, the record is rejected."""
        read_with = _ReadWith(_filter_options(options), readers)
        answer = self._answer(f"(\n{expression.sql}\n)", expression, read_with)
        return answer.values, answer.refused

    def reject(self, asking: Mask, route: DynamicRoute) -> dict[int, Reject]:
        """Reject records with a table that does not exist."""
        place = next(iter(route.parts.values())).spec_path
        return self._rejects(np.flatnonzero(asking), RejectCode.UNKNOWN_TABLE, place)

    def _named(
        self, route: DynamicRoute, read_with: _ReadWith
    ) -> tuple[npt.NDArray[np.int64], dict[str, int], Mapping[int, Reject]]:
        found = {
            name: self._answer(f"cast((\n{expression.sql}\n) as varchar)", expression, read_with)
            for name, expression in route.parts.items()
        }
        key = (route.template, *route.parts.values(), read_with.key)
        if key not in self._names:
            parts = {name: answer.values for name, answer in found.items()}
            self._names[key] = table_names(route.template, parts)
        errors = {at: r for answer in found.values() for at, r in answer.refused.items()}
        return *self._names[key], errors

    def _decided(self, expression: SqlExpression, read_with: _ReadWith) -> _Answer:
        return self._answer(f"((\n{expression.sql}\n) is true)", expression, read_with)

    def _answer(self, sql: str, expression: SqlExpression, read_with: _ReadWith) -> _Answer:
        key = (sql, expression.fields, read_with.key)
        if key not in self._answers:
            table, misfits = self._evaluated(expression.fields, read_with)
            found = evaluate(self._connection, sql, table)
            failed = self._rejects(found.failed, RejectCode.UNDECIDED, expression.spec_path)
            slow = self._rejects(found.slow, RejectCode.SLOW, expression.spec_path)
            slow = {at: reject for at, reject in slow.items() if at not in misfits}
            self._answers[key] = _Answer(found.values, {**failed, **slow, **misfits}, tuple(slow))
        return self._answers[key]

    @cached_property
    def _connection(self) -> DuckDBPyConnection:
        return sandbox()

    def _evaluated(
        self, fields: Schema, read_with: _ReadWith
    ) -> tuple[pa.Table, Mapping[int, Reject]]:
        key = (fields, read_with.key)
        if key not in self._seen:
            self._seen[key] = self._evaluate(fields, read_with)
        return self._seen[key]

    def _evaluate(
        self, fields: Schema, read_with: _ReadWith
    ) -> tuple[pa.Table, Mapping[int, Reject]]:
        """Read declared fields and coordinates, a row for each record, and the rejects."""
        columns = _coordinates(self.batch, self.at)
        if not fields.fields:
            return pa.table(columns), {}
        own, errors = self.read(fields, read_with.options, read_with.readers)
        return pa.table({**own, **columns}), errors

    def read(
        self, fields: Schema, options: RowOptions, readers: ReaderCache
    ) -> tuple[dict[str, pa.Array], dict[int, Reject]]:
        """Read fields of all records, null where a record is rejected; and rejects by position."""
        schema = Struct((*fields.fields, Field(_OFFSET, Kind.LONG)))
        converted = convert_batch(
            self.batch, at=self.at, schema=schema, options=options, readers=readers
        )
        offsets = self.batch.column("offset").to_numpy()
        places = np.searchsorted(offsets, converted.rows.column(_OFFSET).to_numpy())
        rows = np.full(len(self.batch), -1, np.int64)
        rows[places] = np.arange(len(places))
        taken = converted.rows.take(pa.array(rows, mask=rows < 0))
        own = {name: taken.column(name) for name in fields.names}
        return own, {int(np.searchsorted(offsets, r.offset)): r for r in converted.rejects}

    def _rejects(
        self, positions: Sequence[int] | npt.NDArray[np.int64], code: RejectCode, place: str
    ) -> dict[int, Reject]:
        message, offsets = _WHY[code].format(place), self.batch.column("offset").to_numpy()
        return {int(at): Reject.of(int(offsets[at]), code, message) for at in positions}


def _filter_options(options: RowOptions) -> RowOptions:
    """Return the options by which declared fields are read: none of the table's own columns."""
    return replace(
        options,
        source_columns={"offset": _OFFSET},
        columns="drop_value",
        types="drop_value" if options.types in LENIENT else "quarantine",
        tombstones="skip",
        not_empty=(),
        names={},
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
        "_kafka_key": texts_of(batch.column("key")),
    }
    if "headers" in batch.schema.names:
        found["_kafka_headers"] = header_maps(batch.column("headers"))
    else:
        found["_kafka_headers"] = pa.nulls(count, pa.map_(pa.string(), pa.string()))
    return found
