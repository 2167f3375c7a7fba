"""What changes of single records would do to the rows of a keyed table, as it is now.

Theory of operation: the keys of all records that are looked at are searched for together, in the
files whose bounds may hold one of them, if these have few enough rows. Each change is taken alone:
what the records before it would do is not in the table yet.

Invariant: what was not looked up is said not to be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.landing.tables.progress import TableProgress
from penstock.observe.formatting import number_of
from penstock.ports.tables import Table, TableState
from penstock.rows.keyed.digest import alike, key_digests
from penstock.rows.keyed.file_bounds import KeyBounds
from penstock.rows.keyed.lookup import KeyLookup
from penstock.rows.keyed.touched import SOURCE, TouchedRows

ROWS_MAX = 5_000_000
FILES_MAX = 200
NOT_LOOKED_UP = "not looked up"
_EFFECTS = {
    (True, False): ("inserts", "replaces"),
    (True, True): ("inserts flagged", "flags"),
    (False, True): ("finds no row", "deletes"),
}
"""What a change does without and with a row of its key, by whether it brings one, and deletes."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """The record that a live row says it comes from, None where it does not say; its sequence."""

    topic: str | None
    partition: int | None
    offset: int | None
    sequence: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of a record: `upsert` or `delete` of the row of a key.

    `effect` is `inserts`, `replaces`, `deletes`, `finds no row`, `flags`, `inserts flagged`,
    `is the row already`, `is late` or `not looked up`, with the reason in `detail`; `rows` are the
    rows that it finds.
    """

    change: str
    key: Mapping[str, Any]
    effect: str
    rows: tuple[FoundRow, ...] = ()
    detail: str = ""


def effects(progress: TableProgress, touched: Sequence[TouchedRows]) -> list[list[RowChange]]:
    """Return the changes of each record; `touched` has one part for each."""
    if progress.position is None or progress.state is None:
        return [[*_with_rows(each, [[] for _ in each.upsert], progress)] for each in touched]
    try:
        found, detail = _found(progress.position.table, progress.state, touched)
    except PenstockError as error:
        found, detail = None, f"{error.code} {error.message}"
    if found is None:
        made = [[*_with_rows(each, [[] for _ in each.upsert], progress)] for each in touched]
        return [
            [replace(each, effect=NOT_LOOKED_UP, detail=detail) for each in one] for one in made
        ]
    rows = iter(found)
    return [[*_with_rows(each, [next(rows) for _ in each.upsert], progress)] for each in touched]


def _found(
    table: Table, state: TableState, touched: Sequence[TouchedRows]
) -> tuple[list[list[FoundRow]] | None, str]:
    """Return the live rows of each key in order, or None and why they were not looked for."""
    first, count = touched[0], sum(len(each.upsert) for each in touched)
    keys = [pa.concat_arrays([e.keys[n] for e in touched]) for n in range(len(first.names))]
    bounds = KeyBounds(first.names, keys)
    files = [file for file in table.live_files(state) if bounds.may_be_in(file.bounds)]
    live = sum(file.rows - file.deleted for file in files)
    if live > ROWS_MAX or len(files) > FILES_MAX:
        held = f"{number_of(live, 'row')} in {number_of(len(files), 'file')}"
        return None, f"{held} may have these keys"
    digests = key_digests(keys)
    number = pc.index_in(digests, value_set=digests.unique()).to_pylist()
    _, once = np.unique(number, return_index=True)
    columns = [*dict.fromkeys([*first.names, *first.source.values(), *first.sequence])]
    rows: dict[int, list[FoundRow]] = {}
    lookup = KeyLookup([key.take(pa.array(once)) for key in keys])
    sought = partial(lookup.may_be_in, types=first.types)
    for file in files:
        for batch in table.read_live(state, file, columns, sought):
            hits = lookup.in_rows(batch, first.types)
            held = batch.take(pa.array(hits.rows))
            for key, row in zip(hits.keys.tolist(), _rows_of(held, first), strict=True):
                rows.setdefault(key, []).append(row)
    return [rows.get(number[at], []) for at in range(count)], ""


def _rows_of(held: pa.RecordBatch, touched: TouchedRows) -> Iterator[FoundRow]:
    """Yield what rows say of their records; sequences as those of changes are."""
    source = [held.column(touched.source[role]).to_pylist() for role in SOURCE if touched.source]
    places = zip(*(source or [[None] * held.num_rows] * len(SOURCE)), strict=True)
    columns = touched.sequence.items()
    sequences = [alike(held.column(name), each.type).to_pylist() for name, each in columns]
    for at, (topic, partition, offset) in enumerate(places):
        yield FoundRow(topic, partition, offset, tuple(each[at] for each in sequences))


def _with_rows(
    touched: TouchedRows, rows: Sequence[Sequence[FoundRow]], progress: TableProgress
) -> Iterator[RowChange]:
    """Say what the changes of one record do to the rows that they find."""
    landed = progress.state.landed if progress.state is not None else None
    compares = landed is not None and landed.keyed is not None and landed.keyed.compares_offsets
    deletes = touched.deletes
    for number, key in enumerate(_plain(touched.keys)):
        upsert, found = bool(touched.upsert[number]), tuple(rows[number])
        at, offset = touched.lanes[touched.lane[number]], int(touched.offset[number])
        own = _comparable([column[number].as_py() for column in touched.sequence.values()])
        sequences = [_comparable(row.sequence) for row in found]
        later = [
            row.offset
            for row, each in zip(found, sequences, strict=True)
            if (row.topic, row.partition, each) == (at.topic, at.partition, own)
        ]
        if upsert and offset in later:
            effect = "is the row already"
        elif any(each > own for each in sequences) or (
            compares and any(each is not None and each > offset for each in later)
        ):
            effect = "is late"
        else:
            effect = _EFFECTS[upsert, bool(deletes[number])][bool(found)]
        named = dict(zip(touched.names, key, strict=True))
        yield RowChange("delete" if deletes[number] else "upsert", named, effect, found)


def _comparable(sequence: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    """Return what compares as sequences do: null is before all."""
    return tuple((value is not None, value) for value in sequence)


def _plain(keys: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
    """Return the values of key columns, row by row."""
    return list(zip(*(key.to_pylist() for key in keys), strict=True))
