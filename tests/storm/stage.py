"""The stage of a storm: one topic, pipelines of it into Iceberg and Delta tables, and a mirror.

Invariants:
- tables with keys take the records of the topic as changes: of each slot the last one is its row;
- pipelines see the catalog and the broker through proxies; the checkers do not;
- rows are read by the tables' own libraries, never by ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import yaml
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from tests.processes.broker import PROPERTIES, Cluster
from tests.servers import rest
from tests.servers.kafka_proxy import KafkaProxy, before
from tests.servers.lying import Liar, lying
from tests.servers.postgresql import PostgresqlServer
from tests.servers.postgresql import running as running_postgresql
from tests.story.oracle import Row

from penstock.core.errors import UnavailableError
from penstock.dev.broker import down, up
from penstock.dev.ports import HOST, free_port

TOPIC, PARTITIONS = "storm", 3
STORE = "storm"
"""The database that crews have their pending store in."""
HINTS = {"id": "long", "text": "string", "shop": "string", "slot": "long"}


@dataclass(frozen=True, slots=True)
class Pipe:
    """One pipeline: its tables and its quarantine as the spec names them.

    A publication has neither: it publishes the topic `into` another one. One in `shards` is landed by
    a crew of equal processes, of which those that have no shard stand by for all.
    """

    name: str
    tables: tuple[str, ...]
    quarantine: str
    master: str = "inline"
    every: str = "300ms"
    maintains: str = "2s"
    into: str = ""
    shards: int = 0
    processes: int = 1

    @property
    def members(self) -> tuple[str, ...]:
        """Name its processes."""
        crew = tuple(f"{self.name} {number}" for number in range(self.processes))
        return crew if self.shards else (self.name,)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Name what its commits are of: its tables, or the topic that it publishes into."""
        return (self.into,) if self.into else self.tables

    @property
    def commit(self) -> tuple[str, str]:
        """Return the event of a commit, and what of it names the outcome."""
        return ("RowsPublished", "into") if self.into else ("TableCommitted", "table")

    @property
    def on_spark(self) -> bool:
        return self.master != "inline"


MIXED = Pipe(
    "mixed", ("lake.storm.mixed", "delta.storm.mixed", "lake.storm.keyed"), "lake.ops.mixed"
)
DELTA = Pipe(
    "delta", ("delta.storm.whole", "delta.storm.split", "delta.storm.keyed"), "delta.ops.delta"
)
SPARK = Pipe("spark", ("lake.storm.spark", "delta.storm.spark"), "lake.ops.spark", "local[1]", "2s")
MIRROR = Pipe("mirror", (), "", into="mirrored")
CREW = Pipe("crew", ("lake.storm.crew", "delta.storm.crew"), "lake.ops.crew", shards=3, processes=5)
"""Three shards, and two processes more than there are shards."""
SPLIT = "delta.storm.split"
KEYED, KEY = frozenset({"lake.storm.keyed", "delta.storm.keyed"}), "slot"
TRIMMED = {"history.expire.max-snapshot-age-ms": "0"}
"""Lets own snapshots go by number alone, so that commits trim here too."""


@dataclass(slots=True)
class Stage:
    """Where it storms. `direct` is the broker past the proxy, `catalog` the server past the liar."""

    directory: Path
    pipes: tuple[Pipe, ...]
    direct: str
    proxy: KafkaProxy
    catalog: str
    liar: Liar
    broker: Mapping[str, str]
    database: PostgresqlServer | None = None
    partitions: int = PARTITIONS

    def spec(self, pipe: Pipe) -> Path:
        return self.directory / "pipes" / pipe.name / "penstock.yaml"

    def store(self, pipe: Pipe) -> Path:
        return self.spec(pipe).parent / "state" / f"{pipe.name}.db"

    def cut_from_the_database(self) -> None:
        """End all sessions of crews in their pending store."""
        assert self.database is not None, "there is a crew"
        self.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{STORE}' AND pid <> pg_backend_pid()"
        )

    @property
    def tables(self) -> list[str]:
        return [table for pipe in self.pipes for table in pipe.tables]

    @property
    def everything(self) -> list[str]:
        """Name the tables and the quarantines."""
        return [*self.tables, *(pipe.quarantine for pipe in self.pipes if pipe.quarantine)]

    @property
    def mirrors(self) -> list[Pipe]:
        """Return the publications."""
        return [pipe for pipe in self.pipes if pipe.into]

    def build(self) -> None:
        """Create the topics and write the specs."""
        for topic in (TOPIC, *(pipe.into for pipe in self.mirrors)):
            Cluster(self.direct).create(topic, PARTITIONS)
        for pipe in self.pipes:
            self.spec(pipe).parent.mkdir(parents=True)
            spec = self._publication(pipe) if pipe.into else self._spec(pipe)
            self.spec(pipe).write_text(yaml.safe_dump(spec, sort_keys=False))

    def _publication(self, pipe: Pipe) -> dict[str, Any]:
        rule = {"name": pipe.name, "from": {"topic": TOPIC}, "into": pipe.into}
        return {
            "name": pipe.name,
            "kafka": {"brokers": f"{HOST}:{self.proxy.port}"},
            "publish": [{**rule, "transaction": {"interval": pipe.every, "timeout": "10s"}}],
            "spark": {"master": pipe.master},
        }

    def _spec(self, pipe: Pipe) -> dict[str, Any]:
        schema = {"create": True, "columns": "evolve", "hints": HINTS}
        rule = {"from": TOPIC, "continue": True, "tombstones": "skip", "schema": schema}
        in_shards: dict[str, Any] = {}
        if self.database is not None and pipe.shards:
            store = self.database.address(STORE)
            in_shards = {"shards": pipe.shards, "pending": {"store": store}}
        return {
            "name": pipe.name,
            **in_shards,
            "kafka": {"brokers": f"{HOST}:{self.proxy.port}", "topics": [TOPIC]},
            "catalogs": {
                "lake": {"type": "rest", "uri": self.liar.address},
                "delta": {"type": "delta", "root": str(self.directory / "delta")},
            },
            "tables": [{**rule, **_own(name), "into": name} for name in pipe.tables],
            "commit": {"every": pipe.every, "retain": 10},
            "quarantine": {"into": pipe.quarantine, "stop_above": "100%"},
            "maintain": {"every": pipe.maintains},
            "spark": {"master": pipe.master},
        }

    def restart_broker(self, wait: float) -> None:
        """Stop the broker, and start it on the same ports after so many seconds."""
        port = int(self.direct.rpartition(":")[2])
        down(self.directory / "broker")
        time.sleep(wait)
        for again in (True, True, False):
            try:
                up(self.directory / "broker", port, properties=self.broker)
            except UnavailableError:  # a busy machine
                if not again:
                    raise
            else:
                return

    def grow(self) -> None:
        """Add a partition to the topic, and to its mirrors before."""
        for topic in (*(pipe.into for pipe in self.mirrors), TOPIC):
            Cluster(self.direct).grow(topic, self.partitions + 1)
        self.partitions += 1

    # Tables, as other writers see them.

    def iceberg(self, table: str) -> Table | None:
        """Load an Iceberg table; None when it does not exist."""
        try:
            return load_catalog("lake", type="rest", uri=self.catalog).load_table(_name(table))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def delta(self, table: str) -> DeltaTable | None:
        """Load a Delta table; None when it does not exist."""
        path = str(self.place(table))
        return DeltaTable(path) if DeltaTable.is_deltatable(path) else None

    def place(self, table: str) -> Path:
        """Return the directory of a Delta table."""
        return self.directory / "delta" / _name(table).replace(".", "/")

    def rows(self, table: str) -> list[Row]:
        """Read a table whole."""
        if table.startswith("delta."):
            delta = self.delta(table)
            return [] if delta is None else _rows_of(delta, keyed=table in KEYED)
        lake = self.iceberg(table)
        return [] if lake is None else lake.scan().to_arrow().to_pylist()


def path_of(uri: str) -> Path:
    """Return the path of a file: PyIceberg writes `file:///x` or `/x`, Hadoop `file:/x`."""
    return Path(urlsplit(uri).path)


def _own(table: str) -> dict[str, Any]:
    """Return what the spec says of one table alone."""
    if table == SPLIT:
        return {"partition_by": ["shop"]}
    own: dict[str, Any] = {"properties": TRIMMED} if table.startswith("lake.") else {}
    if table in KEYED:
        own |= {"mode": "upsert", "keys": [KEY], "tombstones": "delete"}
        own["records"] = {"key_format": "json"}
    return own


def _rows_of(table: DeltaTable, *, keyed: bool) -> list[Row]:
    """Read a Delta table; `to_pyarrow_table` refuses tables whose rows are deleted by vectors."""
    if not keyed:
        return table.to_pyarrow_table().to_pylist()
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    return pa.table(found).to_pylist()


def _name(table: str) -> str:
    return table.partition(".")[2]


@contextmanager
def opened(directory: Path, pipes: tuple[Pipe, ...]) -> Iterator[Stage]:
    """Start a broker, a REST catalog and the proxies before them; build the stage.

    A database for their pending store where there are crews.
    """
    proxied = free_port()
    inner = free_port(proxied)
    direct = free_port(proxied, inner)
    listeners = f"PLAINTEXT://{HOST}:{{port}},PROXIED://{HOST}:{inner}"
    properties = {
        **PROPERTIES,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "listeners": f"{listeners},CONTROLLER://{HOST}:{{controller}}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{{port}},PROXIED://{HOST}:{proxied}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }
    try:
        up(directory / "broker", direct, properties=properties)
        with (
            before(KafkaProxy(proxied), (HOST, inner)) as proxy,
            rest.running(directory / "rest") as catalog,
            lying(catalog) as liar,
            ExitStack() as stack,
        ):
            stage = Stage(directory, pipes, f"{HOST}:{direct}", proxy, catalog, liar, properties)
            if any(pipe.shards for pipe in pipes):
                stage.database = stack.enter_context(running_postgresql())
                stage.database.execute(f"CREATE DATABASE {STORE}")
            stage.build()
            yield stage
    finally:
        down(directory / "broker")
