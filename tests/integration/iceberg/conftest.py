"""A lake on this machine: our catalog, and another writer's view of it through PyIceberg."""

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from penstock.connectors.iceberg import connector
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.table_fixture import batch_of, foreign_row
from penstock.testing.prepared import ORDERS, claim, fence, orders, origin, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
NAME = "bronze.orders"


class Plain:
    def resolve(self, text: str) -> str:
        return text


class Ears:
    """Note the crash points passed; raise at a given one."""

    def __init__(self):
        self.points = []

    def __call__(self, event):
        del event

    def passed(self, point: CrashPoint):
        self.points.append(point)


class Lake:
    chain = CHAIN
    trimmed_at_once: ClassVar = {"history.expire.max-snapshot-age-ms": "0"}

    def __init__(self, place: Path):
        self.place = place
        self.ears = Ears()
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"file://{place}/warehouse",
        }
        self.catalog = self.open()

    def open(self, **more):
        return connector.open_catalog({"name": "lake", **self.settings, **more}, Plain(), self.ears)

    def create(self, schema=ORDERS, partition_by=(), properties=None, name=NAME, ledgers=None):
        definition = TableDefinition(schema, tuple(partition_by), properties or {})
        first = [origin(CHAIN, {0: 0, 1: 0})] if ledgers is None else ledgers
        return self.catalog.create(name, definition, first)

    def foreign(self, name=NAME):
        return SqlCatalog("lake", **self.settings).load_table(name)

    def foreign_append(self, name=NAME):
        table = self.foreign(name)
        table.append(pa.Table.from_pylist([foreign_row()], schema=table.schema().as_arrow()))

    def roll_back(self, snapshot, name=NAME):
        self.foreign(name).manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    def roll_forward(self, snapshot, name=NAME):
        self.foreign(name).manage_snapshots().set_current_snapshot(int(snapshot)).commit()

    def expire(self, snapshots, name=NAME):
        table = self.foreign(name)
        table.maintenance.expire_snapshots().by_ids([int(each) for each in snapshots]).commit()

    def remove_properties(self, *keys, name=NAME):
        with self.foreign(name).transaction() as transaction:
            transaction.remove_properties(*keys)

    def writer(self, state, prefix="shop-1-0"):
        return connector.open_writer(
            state.target, prefix=prefix, observer=self.ears, secrets=Plain()
        )

    def write(self, state, batch, prefix="shop-1-0"):
        writer = self.writer(state, prefix)
        writer.write(batch)
        return tuple(writer.close())

    def append(self, state, ranges, chain=CHAIN, **given):
        files = self.write(state, batch_of(state.schema, orders(ranges)))
        return prepared(
            chain, ranges, files=files, uuid=state.uuid, schema_id=state.schema_id, **given
        )

    def anchor(self, state, ranges, chain=CHAIN, **given):
        return prepared(chain, ranges, uuid=state.uuid, schema_id=state.schema_id, **given)

    def fence(self, state, chain=CHAIN, nonce="f1"):
        return fence(chain, uuid=state.uuid, held=claim(2), nonce=nonce)

    def land(self, table, ranges, retain=25, **given):
        state = table.state(CHAIN)
        return table.commit(state, self.append(state, ranges, **given), retain=retain)

    def ids(self, name=NAME):
        return sorted(self.foreign(name).scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path):
    opened = Lake(tmp_path)
    yield opened
    opened.catalog.close()
