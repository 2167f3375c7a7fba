"""A keyed table by hand: rows are found through the port, changed in row deltas, and remembered."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from penstock.commit.rewriting import FileRewriter, Rewriting
from penstock.core.commits import CommitKind
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import prepared

VECTORS = {"delta.enableDeletionVectors": "true"}


class Keyed:
    """`rows` are what must be live, by `id`; `tables` has `table`, `state()` and `write()`."""

    def __init__(self, lake, chain):
        self.lake, self.chain = lake, chain
        self.rows: dict[int, dict[str, Any]] = {}
        self.offset = 0

    def places(self, state, wanted) -> dict[str, tuple[LiveFile, list[int]]]:
        found: dict[str, tuple[LiveFile, list[int]]] = {}
        for file in self.lake.table.live_files(state):
            for batch in self.lake.table.read_live(state, file, ["id"]):
                is_wanted = np.isin(batch["id"].to_numpy(), wanted)
                positions = batch[POSITION].to_numpy()[is_wanted].tolist()
                if positions:
                    found.setdefault(file.path, (file, []))[1].extend(positions)
        return found

    def change(
        self,
        upserts: Sequence[Mapping[str, Any]] = (),
        deletes: Sequence[int] = (),
        *,
        again: WriterFactory | None = None,
    ) -> list[RowDeletes]:
        """Land changes, by vectors or, with a writer, by files that are written `again`."""
        state = self.lake.state()
        keys = [row["id"] for row in upserts] + [*deletes]
        found = [
            RowDeletes(path, file.delete_state, np.array(positions, np.int64))
            for path, (file, positions) in self.places(state, keys).items()
        ]
        files = self.lake.write(state, upserts) if upserts else ()
        ranges = {0: (self.offset, self.offset + max(len(keys), 1))}
        commit = prepared(
            self.chain,
            ranges,
            files=files,
            uuid=state.uuid,
            schema_id=state.schema_id,
            kind=CommitKind.ROW_DELTA,
            origins={0: 0} if state.landed is None else {},
        )
        if again is not None:
            live = {file.path: file for file in self.lake.table.live_files(state)}
            rewriter = FileRewriter(commit, Rewriting(again, 1 << 40), Quiet())
            found = [*rewriter.rewrite(state, self.lake.table, found, live)]
        self.lake.table.commit(state, commit, retain=25, row_deletes=found)
        self.offset = ranges[0][1]
        for key in deletes:
            self.rows.pop(key, None)
        self.rows |= {row["id"]: dict(row) for row in upserts}
        return found

    def live(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]


def queried(handle: DeltaTable, where: str = "true", columns: str = "*") -> list[dict[str, Any]]:
    """Read by deltalake's SQL, ordered by `id`."""
    text = f"SELECT {columns} FROM t WHERE {where} ORDER BY id"
    return pa.table(QueryBuilder().register("t", handle).execute(text).read_all()).to_pylist()


def counted(handle: DeltaTable) -> list[int]:
    """Count the rows and find the least and greatest `id`, which readers may do by statistics."""
    text = "SELECT count(*) AS n, min(id) AS low, max(id) AS high FROM t"
    [found] = pa.table(QueryBuilder().register("t", handle).execute(text).read_all()).to_pylist()
    return [found["n"], found["low"], found["high"]]
