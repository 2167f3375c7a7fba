"""Tables and rows made by Penstock's own rooms, without a pipeline around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks import records
from penstock.app.assembly import assembly
from penstock.app.assembly.connectors import connector_of
from penstock.commit.creation import create
from penstock.core.claims import Claim
from penstock.core.commits import Chain
from penstock.core.schema import Schema
from penstock.landing.settings import TableTarget
from penstock.observe.fanout import Observers
from penstock.ports.connectors import TableConnector
from penstock.ports.tables import Table, TableDefinition
from penstock.ports.writers import FileWriter
from penstock.rows.convert.batch import convert_batch
from penstock.rows.schema.inference import infer, table_schema
from penstock.spec.load import load
from penstock.spec.model import Pipeline
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import origin, part

TOPIC = "events"
SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class Made:
    """A table that exists, with all that writing to it and committing takes."""

    pipeline: Pipeline
    target: TableTarget
    chain: Chain
    table: Table
    schema: Schema
    uuid: str
    schema_id: int

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Convert the records start to stop, as a worker does."""
        done = convert_batch(
            batch(start, stop), at=part(0), schema=self.schema, options=self.target.options
        )
        assert not done.rejects, f"our own records fit: {done.rejects[:1]}"
        return done.rows

    def writer(self, prefix: str) -> FileWriter:
        """Open the connector's own writer."""
        open_writer = connector_of(TableConnector, self.target.location.connector).open_writer
        target = self.table.state(self.chain).target
        return open_writer(target, prefix=prefix, observer=Observers(), secrets=ProcessSecrets())


def made(spec: Path, claim: Claim, partitions: int, *, topic: str = TOPIC) -> Made:
    """Create the table of a spec for a topic, its ledger at 0 in each partition."""
    pipeline = load(spec)
    ((target,),) = assembly.targets_of(pipeline, [topic]).values()
    place = target.location
    shown = infer(batch(0, SAMPLE))
    schema = table_schema(shown, target.hints, target.options)
    chain = Chain(pipeline.name, place.table)
    catalog = assembly.open_catalog(pipeline, place.catalog, Observers())
    table = create(
        catalog,
        (place.table, place.name),
        TableDefinition(schema, target.partition_by, target.properties),
        (origin(chain, dict.fromkeys(range(partitions), 0), claim),),
        Observers(),
    )
    state = table.state(chain)
    return Made(pipeline, target, chain, table, state.schema, state.uuid, state.schema_id)


def batch(start: int, stop: int) -> pa.RecordBatch:
    """Return records as a reader hands them over."""
    values = list(records.values(start, stop))
    stamps = pa.array(range(start, stop), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    return pa.record_batch(
        {
            "offset": pa.array(range(start, stop), pa.int64()),
            "timestamp": stamps,
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
