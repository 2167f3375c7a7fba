"""Records of one partition become changes of the rows of a keyed table.

Invariants:
- examined = changes that count + rejects + filtered: a change of key counts once;
- changes stand in the order of their records, the delete of a former key before the row that
  replaces it;
- the verdict on a record does not depend on the records next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.envelope.former_keys import WITH_FORMER_ROWS
from penstock.rows.keyed.former_rows import FormerRows
from penstock.rows.keyed.key_rows import KeyRows
from penstock.rows.keyed.net import Changes
from penstock.rows.keyed.soft import SoftDeletes, without_soft_columns
from penstock.rows.keyed.sorting import SortedRecords, sort_records, with_required
from penstock.rows.options import FORMER_KEY, KeyedOptions, RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError
from penstock.rows.route.compute import Functions, add_computed, no_functions
from penstock.rows.route.filters import NOTHING, ComputedColumns
from penstock.rows.route.router import Router

_OFFSET = "_penstock_offset"
_NOT_TOLD = "the column is computed, and what the record says of the former row does not give it"


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """The outcome of every record of a batch.

    `changes` have the columns of the table's schema in order. `filtered` counts by reason, and
    `dropped` values that were left out, by column path, as in `ConvertedBatch`.
    """

    changes: Changes
    rejects: tuple[Reject, ...]
    filtered: Mapping[str, int]
    dropped: Mapping[str, int]


def convert_changes(
    batch: pa.RecordBatch,
    *,
    at: TopicPartition,
    lane: int,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache | None = None,
    computed: ComputedColumns = NOTHING,
    functions: Functions = no_functions,
    fitted: Callable[[ConvertedBatch], ConvertedBatch] = lambda converted: converted,
) -> ChangeBatch:
    """Turn the records of one partition into changes of a table.

    `batch` is as in `ports.log.Fetched`; `fitted` rejects upserts of rows that the table does not
    take. Raises DecisionNeededError (P488 a truncate that is not ignored), InvalidError (P490 a key
    that the table has not), and what `convert_batch`, `add_computed` and `fitted` raise.
    """
    keyed = options.keyed
    assert keyed is not None, "the table has keys"
    readers = readers or ReaderCache()
    keys = Struct(tuple(replace(key_column(schema, name), required=True) for name in keyed.keys))
    whole = without_soft_columns(schema, options)
    own = Struct(tuple(f for f in whole.fields if f.name not in computed.names))
    found = sort_records(batch, at=at, schema=own, options=options, readers=readers)
    if computed.names:
        computing = _Computing(Router(batch, at), whole, keys, options, computed, readers)
        found = computing.completed(found, functions)
    found = replace(found, former=found.former.whole())  # one with null was the key of no row
    soft = SoftDeletes(batch, at, whole, options, readers) if keyed.soft else None
    if soft is not None:
        found = soft.landed(found)
    upserts = fitted(found.upserts)
    former = found.former.filter(np.isin(found.former.offsets, upserts.offsets))
    changes = _changes(upserts, found.deletes, former, whole, lane)
    if soft is not None:
        changes = soft.flagged(changes, found.gone, schema)
    rejects = tuple(_as_keyed(each, keyed) for each in upserts.rejects)
    counted = int(changes.counts.sum()) + len(rejects) + sum(upserts.filtered.values())
    assert counted == len(batch), "none is lost"
    return ChangeBatch(changes, rejects, upserts.filtered, upserts.dropped)


def key_column(schema: Schema, name: str) -> Field:
    """Return a column of the key. Raises InvalidError (P490) where the table has not got it."""
    if (field := schema.field(name)) is None:
        raise InvalidError(
            f"the table has no column {name}, which is of its key",
            code="P490",
            hint="add the column to the table, or name others under  keys",
        )
    return field


@dataclass(frozen=True, slots=True)
class _Computing:
    router: Router
    schema: Schema
    keys: Schema
    options: RowOptions
    computed: ComputedColumns
    readers: ReaderCache

    def completed(self, found: SortedRecords, functions: Functions) -> SortedRecords:
        """Compute the columns of upserts, and those of keys to delete.

        A key is rejected that cannot be computed: of no image, or of a delete by a function.
        """
        required = self.keys.names
        whole = with_required(self.schema, (*required, *self.options.sequence))
        upserts = self._added(found.upserts, whole, self.computed, self.router, functions)
        names = [name for name in required if name in self.computed.names]
        if not names:
            return replace(found, upserts=upserts)
        deletes, rejects = self._deletes(found.deletes, names)
        former = _key_rows(upserts, required).filter(np.zeros(len(upserts.offsets), np.bool_))
        filled = any(name in self.computed.filled for name in names)  # of upserts alone
        told = self.options.envelope in WITH_FORMER_ROWS and not self.keyed.keeps_all_rows
        if told and not filled:
            former, unknown = self._former(found.former, upserts, names[0])
            upserts = _without(upserts, np.array([each.offset for each in unknown], np.int64))
            rejects += unknown
        rejects = sorted((*upserts.rejects, *rejects), key=lambda each: each.offset)
        return replace(
            found, upserts=replace(upserts, rejects=tuple(rejects)), deletes=deletes, former=former
        )

    @property
    def keyed(self) -> KeyedOptions:
        assert self.options.keyed is not None, "the table has keys"
        return self.options.keyed

    def _deletes(self, deletes: KeyRows, names: Sequence[str]) -> tuple[KeyRows, list[Reject]]:
        """Compute the keys of deletes, and reject those whose records have no image."""
        values = self.router.batch.column("value")
        offsets = self.router.batch.column("offset").to_numpy()
        without = offsets[np.asarray(values.is_null())]
        filled = any(name in self.computed.filled for name in names)
        unknown = np.isin(deletes.offsets, without) | filled
        rejects = _unknown(deletes.offsets[unknown], names[0])
        made = self._keys(deletes.filter(~unknown), self.keys, self.router)
        return _key_rows(made, self.keys.names), [*rejects, *made.rejects]

    def _former(
        self, plain: KeyRows, upserts: ConvertedBatch, name: str
    ) -> tuple[KeyRows, list[Reject]]:
        """Compute the keys that updates change; `plain` are those of which other columns change."""
        own = _key_rows(upserts, self.keys.names)
        stays = KeyRows({each: own.columns[each] for each in plain.columns}, own.offsets)
        stays = stays.filter(~np.isin(own.offsets, plain.offsets))
        given = KeyRows.concat([plain.filter(np.isin(plain.offsets, own.offsets)), stays])
        optional = Struct(tuple(replace(field, required=False) for field in self.keys.fields))
        former_rows = FormerRows(self.router.batch, self.router.at)
        made = self._keys(given, optional, former_rows)
        refused = [each.offset for each in made.rejects]
        was = _key_rows(made, self.keys.names)
        places = pa.array(np.searchsorted(own.offsets, was.offsets))
        differs = np.zeros(len(places), np.bool_)
        for each, column in was.columns.items():
            differs |= mask_of(pc.not_equal(column, own.columns[each].take(places)).fill_null(True))
        return was.filter(differs), _unknown(np.unique(refused), name)

    def _keys(self, given: KeyRows, keys: Schema, router: Router) -> ConvertedBatch:
        """Compute what a key has besides the columns that are given."""
        # The offset is a column that is always there: rows of none have no number.
        columns = {**given.columns, _OFFSET: pa.array(given.offsets)}
        fields = [field for field in keys.fields if field.name in columns]
        fields.append(Field(_OFFSET, Kind.LONG))
        rows = pa.RecordBatch.from_arrays(
            [columns[field.name] for field in fields], schema=arrow_schema(Struct(tuple(fields)))
        )
        computed = ComputedColumns(
            {n: e for n, e in self.computed.expressions.items() if n in keys.names}
        )
        schema = Struct((*keys.fields, Field(_OFFSET, Kind.LONG)))
        made = ConvertedBatch(rows, given.offsets, (), {}, {})
        return self._added(made, schema, computed, router, no_functions)

    def _added(
        self,
        converted: ConvertedBatch,
        schema: Schema,
        computed: ComputedColumns,
        router: Router,
        functions: Functions,
    ) -> ConvertedBatch:
        return add_computed(
            converted,
            router,
            schema=schema,
            options=self.options,
            computed=computed,
            readers=self.readers,
            functions=functions,
        )


def _key_rows(rows: ConvertedBatch, names: Sequence[str]) -> KeyRows:
    return KeyRows({name: rows.rows.column(name) for name in names}, rows.offsets)


def _unknown(offsets: npt.NDArray[np.int64], name: str) -> list[Reject]:
    error = RejectError(RejectCode.KEY_MISSING, _NOT_TOLD, name)
    return [Reject.of(offset, error.code, error.message) for offset in offsets.tolist()]


def _without(converted: ConvertedBatch, offsets: npt.NDArray[np.int64]) -> ConvertedBatch:
    kept = ~np.isin(converted.offsets, offsets)
    if kept.all():
        return converted
    rows = converted.rows.filter(pa.array(kept))
    return replace(converted, rows=rows, offsets=converted.offsets[kept])


def _changes(
    upserts: ConvertedBatch, deletes: KeyRows, former: KeyRows, schema: Schema, lane: int
) -> Changes:
    counts = (len(former.offsets), len(upserts.offsets), len(deletes.offsets))
    offsets = np.concatenate([former.offsets, upserts.offsets, deletes.offsets])
    replaces = np.isin(upserts.offsets, former.offsets)
    subs = np.concatenate(
        [np.zeros(counts[0], np.int8), replaces.astype(np.int8), np.zeros(counts[2], np.int8)]
    )
    kinds = np.repeat(np.arange(3), counts)
    columns = list(upserts.rows.columns)
    if counts[0] or counts[2]:
        order = np.lexsort([subs, offsets])
        offsets, subs, kinds = offsets[order], subs[order], kinds[order]
        places = order - counts[0]
        index = pa.array(places, mask=(places < 0) | (places >= counts[1]))
        at = pa.array(order)
        columns = [
            _joined(former, column, deletes, name).take(at)
            if name in deletes.columns
            else column.take(index)
            for name, column in zip(upserts.rows.schema.names, columns, strict=True)
        ]
    return Changes(
        rows=pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema)),
        upsert=kinds == 1,
        counts=kinds != 0,
        lane=np.full(len(offsets), lane, np.int32),
        offset=offsets,
        sub=subs,
    )


def _joined(former: KeyRows, column: pa.Array, deletes: KeyRows, name: str) -> pa.Array:
    return pa.concat_arrays([former.columns[name], column, deletes.columns[name]])


def _as_keyed(reject: Reject, keyed: KeyedOptions) -> Reject:
    """Say of a null in a key or sequence that it is one, which no schema change mends; name a
    former key.
    """
    if reject.message.startswith(f"{FORMER_KEY}."):
        return reject._replace(message=reject.message.removeprefix("_penstock_"))
    if reject.code != RejectCode.MISSING:
        return reject
    for names, code in (
        (keyed.keys, RejectCode.KEY_MISSING),
        (keyed.sequence, RejectCode.SEQUENCE_MISSING),
    ):
        for name in names:
            if reject.message.startswith(RejectError(RejectCode.MISSING, "", name).message):
                error = RejectError(code, CODE_INFO[code].fact, name)
                return Reject.of(reject.offset, error.code, error.message)
    return reject
