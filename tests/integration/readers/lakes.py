"""One Iceberg and one Delta catalog, which Spark may know as well: what it makes, we land in.

Invariant: `landed` goes the way of a pipeline: examined, written by the worker's writer, committed
on what was examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from tests.servers.jars import DELTA_READER, SPARK_READER, class_path

from penstock.connectors import delta, iceberg
from penstock.core.commits import Chain, CommitKind, Committable, DataFile
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import claim, origin, prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[Mapping[str, Any]]
SECRETS = ProcessSecrets({})
CONNECTORS = {"lake": iceberg.connector, "delta": delta.connector}
ODD = "Läger der Firma 50% voll"
"""The folder of the Iceberg catalog and its tables: not all paths are of letters."""


def spark_settings(place: Path) -> dict[str, str]:
    """Return the settings of a session that knows both catalogs and both formats."""
    delta_session = "io.delta.sql.DeltaSparkSessionExtension"
    iceberg_session = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return {
        "spark.driver.extraClassPath": class_path(SPARK_READER, DELTA_READER),
        "spark.sql.extensions": f"{delta_session},{iceberg_session}",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{place}/{ODD}/catalog.db",
        "spark.sql.catalog.lake.warehouse": f"file://{place}/{ODD}",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": f"{place}/spark",
    }


@dataclass(slots=True)
class Lakes:
    """Tables are named as in a spec: `lake.shop.orders`, `delta.shop.orders`.

    `sizes` are settings of the Delta catalog; Iceberg tables have properties for theirs.
    """

    place: Path
    spark: SparkSession | None = None
    catalogs: dict[str, TableFormat] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.place / ODD).mkdir(parents=True, exist_ok=True)
        self.catalogs = {
            name: CONNECTORS[name].open_catalog({"name": name, **settings}, SECRETS, Quiet())
            for name, settings in (("lake", self.iceberg), ("delta", self.delta))
        }

    @property
    def iceberg(self) -> dict[str, str]:
        uri = f"sqlite:///{self.place}/{ODD}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.place}/{ODD}"}

    @property
    def delta(self) -> dict[str, Any]:
        return {"type": "delta", "root": f"{self.place}/delta", **self.sizes}

    def close(self) -> None:
        for catalog in self.catalogs.values():
            catalog.close()

    # Spark's side.

    def sql(self, *texts: str, **tables: str) -> list[dict[str, Any]]:
        """Run statements in which `{t}` is a table; return the rows of the last."""
        named = {key: self.in_spark(table) for key, table in tables.items()}
        for text in texts:
            found = self.spark.sql(text.format(**named))
        return found.toArrow().to_pylist()

    def in_spark(self, table: str) -> str:
        """Name a table, or a branch of one, as Spark does."""
        catalog, _, name = table.partition(".")
        name, _, branch = name.partition("@")
        if catalog == "delta":
            return f"delta.`{self.place}/delta/{name.replace('.', '/')}`"
        return f"lake.{name}" + (f".`branch_{branch}`" if branch else "")

    # Ours.

    def create(self, table: str, definition: TableDefinition) -> Table:
        catalog, _, name = table.partition(".")
        return self.catalogs[catalog].create(name, definition, [origin(chain(table), {0: 0})])

    def table(self, table: str) -> Table:
        catalog, _, name = table.partition(".")
        found = self.catalogs[catalog].load(name)
        assert found is not None, table
        return found

    def state(self, table: str) -> TableState:
        return self.table(table).state(chain(table))

    def prepared(self, table: str, rows: Rows | pa.RecordBatch) -> tuple[TableState, Committable]:
        """Write rows as the next offsets of the one partition, and prepare their commit."""
        state = self.state(table)
        files = self._written(table, state, rows)
        start = self.reached.get(table, 0)
        self.reached[table] = start + len(rows)
        given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id}
        origins = {0: 0} if state.landed is None else {}
        ranges = {0: (start, start + len(rows))}
        return state, prepared(chain(table), ranges, origins=origins, **given)

    def _written(
        self, table: str, state: TableState, rows: Rows | pa.RecordBatch
    ) -> Sequence[DataFile]:
        writer = CONNECTORS[table.partition(".")[0]].open_writer(
            state.target, prefix="shop-1-0-0c0ffee0", observer=Quiet(), secrets=SECRETS
        )
        writer.write(rows if isinstance(rows, pa.RecordBatch) else batch_of(state.schema, rows))
        return writer.close()

    def landed(self, table: str, rows: Rows | pa.RecordBatch) -> Committable:
        """Land rows as the next offsets of the one partition."""
        state, commit = self.prepared(table, rows)
        self.table(table).commit(state, commit, retain=25)
        return commit

    def replaced(self, table: str, gone: Sequence[str], rows: Rows) -> None:
        """Let files of rows replace others, as landing again does."""
        state = self.state(table)
        given = {"files": self._written(table, state, rows), "uuid": state.uuid}
        commit = prepared(
            chain(table),
            {},
            kind=CommitKind.REPLACE,
            nonce=f"replace:{state.head}",
            schema_id=state.schema_id,
            held=claim(2),
            **given,
        )
        commit = replace(commit, removes=tuple(gone))
        self.table(table).commit(state, commit, retain=25)

    # Readers: each gives all live rows, by `id`.

    def by_spark(self, table: str) -> list[dict[str, Any]]:
        # toArrow() gives the same, and fails where a required member is in a null struct.
        batches = self.spark.table(self.in_spark(table))._collect_as_arrow()
        return by_id(pa.Table.from_batches(batches).to_pylist())

    def by_own(self, table: str, *, without: str = "") -> list[dict[str, Any]]:
        """Read by the format's own library: PyIceberg, deltalake; a column may be left out."""
        if not without:
            return by_id(self._own(table).to_pylist())
        handle = self.handle(table)
        names = [each.name for each in handle.schema().fields if each.name != without]
        rows = by_id(pa.table(handle.scan(columns=names)).to_pylist())
        return [{**row, without: {}} for row in rows]

    def by_duckdb(self, table: str) -> list[dict[str, Any]]:
        """Read by DuckDB: Iceberg's files; Delta through deltalake's stream, for partitions' sake."""
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'")
            if table.startswith("lake."):
                files = [each.file.file_path for each in self._scan(table).plan_files()]
                found = session.execute("SELECT * FROM read_parquet(?)", [files])
            else:
                own = self._own(table)  # noqa: F841 - DuckDB finds it by its name
                found = session.execute("SELECT * FROM own")
            return by_id(found.to_arrow_table().to_pylist())

    def files(self, table: str) -> list[Any]:
        """Return what Iceberg knows of the live files."""
        return [task.file for task in self._scan(table).plan_files()]

    def known(self, table: str) -> Any:
        """Load an Iceberg table by PyIceberg."""
        return SqlCatalog("lake", **self.iceberg).load_table(
            table.partition("@")[0].partition(".")[2]
        )

    def handle(self, table: str) -> DeltaTable:
        """Open a Delta table by deltalake."""
        return DeltaTable(self.place / "delta" / table.split(".", 1)[1].replace(".", "/"))

    def version(self, table: str) -> int:
        """Return the current version of a table, as Spark's SQL takes it."""
        if table.startswith("delta."):
            return int(self.handle(table).version())
        return int(self.known(table).metadata.current_snapshot_id)

    def _scan(self, table: str) -> Any:
        scan = self.known(table).scan()
        return scan.use_ref(table.partition("@")[2]) if "@" in table else scan

    def _own(self, table: str) -> pa.Table:
        if table.startswith("lake."):
            return self._scan(table).to_arrow()
        return pa.table(self.handle(table).scan())


def chain(table: str) -> Chain:
    return Chain("shop", table)


def by_id(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows, and give maps as dictionaries, whatever a reader gave them as."""
    return sorted(map(_plain, rows), key=lambda row: (row["id"] is None, row["id"]))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() if value and all(isinstance(each, tuple) for each in value):
            return {key: _plain(each) for key, each in value}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
