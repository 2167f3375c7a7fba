"""Write the files again from which a row delta takes rows: for readers that know no row deletes.

Theory of operation: the rows to go were found on the examined state (row_deltas.py). Each file that
loses some of its rows is read, as it is live in that state, and the rows that stay are written by
the table's own writer. The commit then puts the new files in its place, in the compare-and-set that
row deletes would be in (docs/design/0264).

Invariants:
- a row that was deleted before the commit, by whomever, is in no file that is written here;
- rows keep their order, all their values and their ids; they are not counted as landed;
- what was written in an earlier turn is used again only where the file has lost no other row since;
- nothing is written where more than `bytes_max` would have to be, and nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.commit.errors import too_many_bytes
from penstock.core.commits import Committable, DataFile
from penstock.core.crash_points import CrashPoint
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableState
from penstock.ports.writers import Placing, WriterFactory

_Key = tuple[int, tuple[str, ...], str, str, bytes]
"""A schema, the columns of row ids, a file, which of its rows are deleted, which more are to go."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The writers of a table's files, and how many bytes of them one commit may write again."""

    open_writer: WriterFactory
    bytes_max: int


@dataclass(slots=True)
class FileRewriter:
    """Rewrites files for one commit, turn after turn; `size_bytes` is what the last turn took."""

    commit: Committable
    rewriting: Rewriting
    observer: Observer
    size_bytes: int = 0
    _known: dict[_Key, tuple[DataFile, ...]] = field(default_factory=dict)

    def rewrite(
        self,
        state: TableState,
        table: Table,
        row_deletes: Sequence[RowDeletes],
        live: Mapping[str, LiveFile],
    ) -> tuple[RowDeletes, ...]:
        """Return row deletes with the files that take the place of those they are of.

        `live` are files of the state by path; others are the commit's own. Raises
        DecisionNeededError (P265), what reading the table raises, and what its writer raises.
        """
        files = _files_of(self.commit, row_deletes, live)
        self.size_bytes = require_within(self.commit, row_deletes, live, self.rewriting.bytes_max)
        known, self._known = self._known, {}
        for each, file in zip(row_deletes, files, strict=True):
            shape = state.schema_id, state.row_ids
            key = (*shape, each.path, each.delete_state, each.positions.tobytes())
            self._known[key] = known[key] if key in known else self._left(state, table, each, file)
        self.observer.passed(CrashPoint.FILES_REWRITTEN)
        return tuple(
            replace(each, rewritten=files)
            for each, files in zip(row_deletes, self._known.values(), strict=True)
        )

    def _left(
        self, state: TableState, table: Table, deletes: RowDeletes, file: LiveFile | DataFile
    ) -> tuple[DataFile, ...]:
        """Write the rows of a file that stay."""
        if len(deletes.positions) == _rows_in(file):
            return ()
        commit = self.commit
        prefix = f"{commit.chain.name}-{commit.commit_id}-{commit.attempt}"
        writer = self.rewriting.open_writer(
            state.target,
            prefix=prefix,
            observer=self.observer,
            placing=Placing(row_ids=state.row_ids),
        )
        try:
            for rows in _staying(state, table, deletes, file):
                writer.write(rows)
            return tuple(writer.close())
        except BaseException:
            writer.abandon()
            raise


def require_within(
    commit: Committable,
    row_deletes: Sequence[RowDeletes],
    live: Mapping[str, LiveFile],
    bytes_max: int,
) -> int:
    """Return the size of the files that lose some of their rows, and are written again.

    Raises DecisionNeededError (P265) where it is more than `bytes_max`.
    """
    files = _files_of(commit, row_deletes, live)
    size_bytes = sum(
        file.size_bytes
        for each, file in zip(row_deletes, files, strict=True)
        if len(each.positions) < _rows_in(file)
    )
    if size_bytes > bytes_max:
        raise too_many_bytes(commit.chain.table, size_bytes, bytes_max)
    return size_bytes


def _files_of(
    commit: Committable, row_deletes: Sequence[RowDeletes], live: Mapping[str, LiveFile]
) -> list[LiveFile | DataFile]:
    own = {file.path: file for file in commit.files}
    return [live.get(each.path) or own[each.path] for each in row_deletes]


def _rows_in(file: LiveFile | DataFile) -> int:
    """Count the rows of a file that are live."""
    return file.rows - file.deleted if isinstance(file, LiveFile) else file.record_count


def _staying(
    state: TableState, table: Table, deletes: RowDeletes, file: LiveFile | DataFile
) -> Iterator[pa.RecordBatch]:
    names = [*state.schema.names, *state.row_ids]
    batches = (
        table.read_live(state, file, names)
        if isinstance(file, LiveFile)
        else table.read_written(state, file, names)
    )
    for batch in batches:
        places = batch.column(POSITION).to_numpy()
        stays = ~np.isin(places, deletes.positions, assume_unique=True)
        if stays.any():
            yield batch.filter(pa.array(stays)).select(names)
