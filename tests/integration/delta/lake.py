"""A Delta catalog on a scratch directory, and the acts the stories share."""

import os
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from penstock.connectors.delta import connector
from penstock.core.commits import Chain
from penstock.core.offsets import TopicPartition
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import COLUMNS, Quiet, batch_of
from penstock.testing.prepared import ORDERS, fence, orders, origin, positions, prepared

CHAIN = Chain("shop", "delta.bronze.orders")
NAME = "bronze.orders"

__all__ = ["CHAIN", "COLUMNS", "NAME", "ORDERS", "Lake", "origin", "positions", "prepared"]


class Lake:
    """`warm` keeps one table, as a run does; else each act finds its own, as a new run would."""

    def __init__(self, directory: Path, name: str = NAME, *, warm: bool = False, **settings):
        self.root = directory / "lake"
        self.name = name
        self.warm = warm
        self.kept = None
        self.settings = {"name": "delta", "type": "delta", "root": str(self.root), **settings}
        self.catalog = self.open()

    def open(self):
        return connector.open_catalog(
            self.settings, ProcessSecrets({"LAKE_SECRET": "hush"}), Quiet()
        )

    @property
    def location(self) -> Path:
        return self.root.joinpath(*self.name.split("."))

    @property
    def handle(self) -> DeltaTable:
        return DeltaTable(self.location)

    @property
    def table(self):
        if self.warm and self.kept is None:
            self.kept = self.catalog.load(self.name)
        return self.kept or self.catalog.load(self.name)

    def create(self, *ledgers, schema=ORDERS, partition_by=(), properties=None):
        definition = TableDefinition(schema, tuple(partition_by), properties or {})
        return self.catalog.create(self.name, definition, ledgers or [origin(CHAIN, {0: 0})])

    def state(self, chain=CHAIN):
        return self.table.state(chain)

    def write(self, state, rows, prefix="shop-1-0-"):
        writer = connector.open_writer(
            state.target, prefix=prefix, observer=Quiet(), secrets=ProcessSecrets({})
        )
        batch = rows if isinstance(rows, pa.RecordBatch) else batch_of(state.schema, rows)
        writer.write(batch)
        return tuple(writer.close())

    def prepare(self, state, ranges, **given):
        files = given.pop("files", None)
        files = self.write(state, orders(ranges)) if files is None else files
        chain = given.pop("chain", CHAIN)
        return prepared(
            chain, ranges, files=files, uuid=state.uuid, schema_id=state.schema_id, **given
        )

    def land(self, ranges, **given):
        state = self.state(given.get("chain", CHAIN))
        commit = self.prepare(state, ranges, **given)
        return self.table.commit(state, commit, retain=25)

    def fence(self, **given):
        state = self.state()
        return self.table.commit(state, fence(CHAIN, uuid=state.uuid, **given), retain=25)

    def foreign_append(self, number=-1):
        row = dict.fromkeys(ORDERS.names) | {"id": number, "name": "foreign"}
        schema = pa.schema(self.handle.schema().to_arrow())
        write_deltalake(self.location, pa.Table.from_pylist([row], schema=schema), mode="append")

    def ids(self):
        return sorted(pa.table(self.handle.scan(columns=["id"]))["id"].to_pylist())

    def log(self):
        return sorted(path.name for path in (self.location / "_delta_log").iterdir())

    def clean_up_log(self):
        """Checkpoint and remove older entries, as retention does after its days have passed."""
        handle = self.handle
        handle.create_checkpoint()
        old = time.time() - 90 * 24 * 3600
        for path in (self.location / "_delta_log").iterdir():
            os.utime(path, (old, old))
        handle.cleanup_metadata()


def at(topic_id: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic_id, partition, f"name of {topic_id}")
