"""A keyed table and what it must hold: changes go the way of a pipeline, through the port alone.

`truth` is the table as a dictionary by `id`; whatever reads the table is compared with it.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Exactly
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from tests.integration.readers.lakes import Lakes, by_id, chain

from penstock.connectors.iceberg import connector
from penstock.core.commits import CommitKind, DataFile
from penstock.core.schema import Decimal, Field, Kind, Struct
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.tables import Table, TableDefinition, TableState
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import TOPIC, prepared

SIZE, CITY = "Größe in cm", "city name/Ort"
SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field(SIZE, Kind.DOUBLE),
        Field(CITY, Kind.STRING),
        Field("seen at", Kind.TIMESTAMPTZ),
        Field("price", Decimal(12, 2)),
        Field("version", Kind.INT),
        Field("_kafka_topic", Kind.STRING),
        Field("_kafka_partition", Kind.INT),
        Field("_kafka_offset", Kind.LONG),
    )
)
AT_ONCE = {"history.expire.max-snapshot-age-ms": "0"}
LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "by_city": (CITY,),
    "by_bucket": ("bucket(3, id)",),
    "by_day": ("day(seen at)", CITY),
}
CITIES = ("Ulm an der Donau", "São Paulo", "北京 50%", None)
Row = dict[str, Any]


def row(number: int, version: int, offset: int = 0) -> Row:
    return {
        "id": number,
        SIZE: number / 7 + version,
        CITY: CITIES[number % len(CITIES)],
        "seen at": datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=number, days=version),
        "price": Exactly(number * 100 + version) / 100,
        "version": version,
        "_kafka_topic": TOPIC,
        "_kafka_partition": 0,
        "_kafka_offset": offset,
    }


class KeyedTable:
    """One table of a lake, its truth, and how far its one partition has landed."""

    def __init__(self, lakes: Lakes, name: str, definition: TableDefinition) -> None:
        self.lakes, self.name = lakes, name
        self.table: Table = lakes.create(name, definition)
        self.truth: dict[int, Row] = {}
        self.offset = self.version = 0

    @property
    def state(self) -> TableState:
        return self.table.state(chain(self.name))

    @property
    def rows(self) -> list[Row]:
        return [self.truth[number] for number in sorted(self.truth)]

    def change(
        self, upserts: Iterable[int] = (), deletes: Iterable[int] = (), *, files: int = 1
    ) -> str:
        """Upsert and delete ids in one commit of so many files; give the snapshot."""
        self.version += 1
        new = {
            number: row(number, self.version, self.offset + place)
            for place, number in enumerate(upserts)
        }
        state = self.state
        found = self.deletes_of(state, [*new, *deletes])
        parts = np.array_split(np.array([*new], dtype=np.int64), files)
        written = [
            file
            for part in parts
            for file in self.written(state, [new[each] for each in part.tolist()])
        ]
        records = max(len(new) + len([*deletes]), 1)
        commit = prepared(
            chain(self.name),
            {0: (self.offset, self.offset + records)},
            files=written,
            uuid=state.uuid,
            schema_id=state.schema_id,
            kind=CommitKind.ROW_DELTA,
        )
        snapshot = self.table.commit(state, commit, retain=100, row_deletes=found)
        self.offset += records
        self.truth = {
            **{k: v for k, v in self.truth.items() if k not in {*deletes}},
            **new,
        }
        return snapshot

    def written(self, state: TableState, rows: list[Row]) -> list[DataFile]:
        if not rows:
            return []
        writer = connector.open_writer(
            state.target, prefix="shop-1-0", observer=Quiet(), secrets=ProcessSecrets({})
        )
        writer.write(batch_of(state.schema, rows))
        return [*writer.close()]

    def places(self, state: TableState) -> dict[int, tuple[LiveFile, int]]:
        """Find all live rows; fails where an id is there twice."""
        found: dict[int, tuple[LiveFile, int]] = {}
        for file in self.table.live_files(state):
            live = 0
            for batch in self.table.read_live(state, file, ["id"]):
                live += batch.num_rows
                for number, at in zip(
                    batch["id"].to_pylist(), batch[POSITION].to_pylist(), strict=True
                ):
                    assert number not in found, f"{number} is there twice"
                    found[number] = (file, at)
            assert live == file.rows - file.deleted, file
        return found

    def deletes_of(self, state: TableState, numbers: Iterable[int]) -> list[RowDeletes]:
        places, by_path = self.places(state), {}
        for file, at in (places[each] for each in {*numbers} if each in places):
            by_path.setdefault(file.path, (file, []))[1].append(at)
        return [
            RowDeletes(path, file.delete_state, np.array(sorted(positions), np.int64))
            for path, (file, positions) in by_path.items()
        ]

    def read_by_us(self) -> list[Row]:
        """Read all live rows through the port."""
        state = self.state
        names = [field.name for field in state.schema.fields]
        return by_id(
            [
                {name: each[name] for name in names}
                for file in self.table.live_files(state)
                for batch in self.table.read_live(state, file, names)
                for each in batch.to_pylist()
            ]
        )

    def read_by_duckdb(self, where: str = "true") -> list[Row]:
        """Read by DuckDB."""
        return read_by_duckdb(self.lakes, self.name, where)


def keyed(lakes: Lakes, layout: str, name: str = "", **properties: str) -> KeyedTable:
    """Create a table of one of the layouts."""
    definition = TableDefinition(SCHEMA, LAYOUTS[layout], {**AT_ONCE, **properties})
    return KeyedTable(lakes, f"lake.shop.{name or layout}", definition)


def lived(lakes: Lakes, layout: str, seed: int = 1, commits: int = 12) -> KeyedTable:
    """Live through commits of upserts and deletes, each of them random, and some of one kind."""
    table, chance = keyed(lakes, layout), random.Random(seed)
    table.change(range(120), files=3)
    for number in range(commits):
        ids = chance.sample(range(160), 18)
        there = [each for each in ids[9:] if each in table.truth]
        upserts, deletes = ids[:9], there
        if number % 4 == 1:
            upserts = []
        if number % 4 == 2:
            deletes = []
        table.change(upserts, deletes)
    return table


def read_by_duckdb(lakes: Lakes, name: str, where: str = "true") -> list[Row]:
    """Read by DuckDB the data files that PyIceberg plans, and their delete files.

    Values are those of files: PyIceberg writes a blank in a path as `+`, which DuckDB would believe.
    """
    parts: list[pa.Table] = []
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        for task in lakes.known(name).scan().plan_files():
            deletes = [each.file_path for each in task.delete_files]
            gone = f"SELECT pos FROM read_parquet({deletes}) WHERE file_path = $path"
            anti = f"AND file_row_number NOT IN ({gone})" if deletes else "AND $path = $path"
            text = (
                f"SELECT * EXCLUDE (file_row_number) FROM read_parquet($path, "
                f"file_row_number = true, hive_partitioning = false) WHERE {where} {anti}"
            )
            found = session.sql(text, params={"path": task.file.file_path})
            parts.append(found.to_arrow_table())
    return by_id(pa.concat_tables(parts).to_pylist() if parts else [])


def summary_of(lakes: Lakes, name: str) -> Mapping[str, Any]:
    """Return operation and counts of the newest snapshot."""
    snapshot = lakes.known(name).current_snapshot()
    properties = dict(snapshot.summary.additional_properties)
    return {"operation": snapshot.summary.operation.value} | {
        key: int(text) for key, text in properties.items() if text.isdecimal()
    }
