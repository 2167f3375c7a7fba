"""Keyed tables whose commits delete rows of their own files, in many small files and row groups.

Two writers write one commit, as two slices of an epoch do. Of a key that both have, the row of the
first is deleted in its own file, at the place that its writer reports; rows of former commits are
found through the port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import nan
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tests.integration.readers.lakes import CONNECTORS, SECRETS, Lakes, chain

from penstock.core.commits import CommitKind, DataFile
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.tables import TableState
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import prepared

SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field("version", Kind.INT),
        Field("kind", Kind.STRING),
        Field("price", Kind.DOUBLE),
        Field("at", Kind.TIMESTAMPTZ),
        Field("on_day", Kind.DATE),
        Field("note", Kind.STRING),
    )
)
KINDS = ("a b", "Ö%20ü", None)
PRICES = (0.5, -0.0, nan, None, 1e300)
FILE_BYTES, GROUP_BYTES = 6_000, 2_000
Row = dict[str, Any]


def row(number: int, version: int) -> Row:
    days = (number + version) % 2
    return {
        "id": number,
        "version": version,
        "kind": KINDS[(number * 7 + version) % len(KINDS)],
        "price": PRICES[number % len(PRICES)],
        "at": datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=days, minutes=number),
        "on_day": date(2026, 11, 1 + days),
        "note": f"{number * 7919 % 10_007}/{number * 104_729 % 99_991}/{version}",
    }


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Return rows in which NaN equals itself, and the two zeros differ."""
    return [
        {name: repr(value) if isinstance(value, float) else value for name, value in each.items()}
        for each in rows
    ]


class OwnRows:
    """One table, and what it must hold."""

    def __init__(self, lakes: Lakes, name: str) -> None:
        self.lakes, self.name = lakes, name
        self.table = lakes.table(name)
        self.truth: dict[int, Row] = {}
        self.offset = 0
        self.own: list[tuple[DataFile, list[int]]] = []

    @property
    def rows(self) -> list[Row]:
        return [self.truth[number] for number in sorted(self.truth)]

    def where(self, holds: Callable[[Row], bool]) -> list[Row]:
        return comparable(each for each in self.rows if holds(each))

    def change(
        self, first: Sequence[int], second: Sequence[int], deletes: Sequence[int] = ()
    ) -> None:
        """Upsert the ids of two writers, the second's after the first's, and delete others."""
        state = self.table.state(chain(self.name))
        version = 1 + max((each["version"] for each in self.truth.values()), default=-1)
        former = self.former(state, {*first, *second, *deletes})
        files, losers = self.written(state, [row(n, version) for n in first], {*second})
        later, _ = self.written(state, [row(n, version + 1) for n in second], set())
        self.own += losers
        own = [RowDeletes(file.path, "", np.array(at, np.int64)) for file, at in losers]
        records = len(first) + len(second) + len(deletes)
        commit = prepared(
            chain(self.name),
            {0: (self.offset, self.offset + records)},
            files=(*files, *later),
            uuid=state.uuid,
            schema_id=state.schema_id,
            kind=CommitKind.ROW_DELTA,
        )
        self.table.commit(state, commit, retain=25, row_deletes=[*former, *own])
        self.offset += records
        for number in deletes:
            self.truth.pop(number, None)
        self.truth |= {n: row(n, version) for n in first}
        self.truth |= {n: row(n, version + 1) for n in second}

    def written(
        self, state: TableState, rows: Sequence[Row], superseded: set[int]
    ) -> tuple[list[DataFile], list[tuple[DataFile, list[int]]]]:
        """Write rows in batches; give the files, and where the rows of some ids are in them."""
        writer = CONNECTORS[self.name.partition(".")[0]].open_writer(
            state.target, prefix="shop-1-0-0c0ffee0", observer=Quiet(), secrets=SECRETS, places=True
        )
        for start in range(0, len(rows), 50):
            writer.write(batch_of(state.schema, rows[start : start + 50]))
        files = [*writer.close()]
        found: dict[int, list[int]] = {}
        for each, file, at in zip(rows, *(part.tolist() for part in writer.places()), strict=True):
            if each["id"] in superseded:
                found.setdefault(file, []).append(at)
        return files, [(files[number], sorted(found[number])) for number in sorted(found)]

    def former(self, state: TableState, numbers: set[int]) -> list[RowDeletes]:
        """Find the rows of some ids in the table as it is."""
        found: dict[str, tuple[LiveFile, list[int]]] = {}
        for file in self.table.live_files(state):
            for batch in self.table.read_live(state, file, ["id"]):
                for number, at in zip(
                    batch["id"].to_pylist(), batch[POSITION].to_pylist(), strict=True
                ):
                    if number in numbers:
                        found.setdefault(file.path, (file, []))[1].append(at)
        return [
            RowDeletes(path, file.delete_state, np.array(positions, np.int64))
            for path, (file, positions) in found.items()
        ]

    def require_scattered(self) -> None:
        """Check that what was deleted of own files is what this is about: else it proves nothing."""
        assert len(self.own) >= 6, "rows of several own files were deleted"
        assert any(len(at) == file.record_count for file, at in self.own), "one of them whole"
        mostly = [len(at) > 0.6 * file.record_count for file, at in self.own]
        assert any(mostly), "of some most rows"
        assert not all(mostly), "of others few"
        assert max(map(self._groups_hit, self.own)) >= 2, "in several row groups of one file"

    def _groups_hit(self, own: tuple[DataFile, list[int]]) -> int:
        file, positions = own
        footer = pq.read_metadata(file.path.removeprefix("file://"))
        sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        return len({*np.searchsorted(np.cumsum(sizes), positions, side="right").tolist()})


def lived(table: OwnRows) -> OwnRows:
    """Live through commits that delete rows of themselves and of each other."""
    table.change(range(400), range(0, 400, 9))
    table.change([*range(100, 300), *range(400, 500)], [*range(100, 190), *range(290, 310)])
    table.change(
        range(0, 600, 3), [n for n in range(600) if n % 3 == 0 and n % 4], range(1, 600, 8)
    )
    table.change(range(50), range(50), range(450, 460))
    table.require_scattered()
    return table


FILTERS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("kind = 'a b'", lambda each: each["kind"] == "a b"),
    ("kind IS NULL", lambda each: each["kind"] is None),
    ("kind = 'Ö%20ü' AND version > 2", lambda each: each["kind"] == KINDS[1] and each["version"] > 2),
    ("version = 2", lambda each: each["version"] == 2),
    ("id >= 95 AND id < 215", lambda each: 95 <= each["id"] < 215),
    ("price < 0.4", lambda each: each["price"] is not None and each["price"] < 0.4),
    ("on_day = DATE '2026-11-02' AND id < 90", lambda each: each["on_day"].day == 2 and each["id"] < 90),
)  # fmt: skip
"""Filters as SQL of all readers, on columns to partition by and on values."""
