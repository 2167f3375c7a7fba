"""Spark reads what we land, under the catalog's one name, in every catalog we run for real."""

import pytest
from tests.servers.postgresql import PASSWORD, USER

from penstock.connectors.iceberg import connector
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import ORDERS, orders, origin, prepared

pytestmark = pytest.mark.spark
_SPARK = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory, postgresql, rest_catalog):
    """Return each catalog twice: as our settings and as Spark's."""
    place = tmp_path_factory.mktemp("lakes")
    database = postgresql.database()
    warehouse = f"file://{place}/warehouse"
    jdbc = {"type": "jdbc", "jdbc.schema-version": "V1", "warehouse": warehouse}
    return {
        "on_sqlite": (
            {"type": "sql", "uri": f"sqlite:///{place}/c.db", "warehouse": warehouse},
            {**jdbc, "uri": f"jdbc:sqlite:{place}/c.db"},
        ),
        "on_postgresql": (
            {"type": "sql", "uri": postgresql.address(database), "warehouse": warehouse},
            {
                **jdbc,
                "uri": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/{database}",
                "jdbc.user": USER,
                "jdbc.password": PASSWORD,
            },
        ),
        "behind_rest": (
            {"type": "rest", "uri": rest_catalog},
            {"type": "rest", "uri": rest_catalog},
        ),
    }


@pytest.fixture
def spark(lakes, catalogs):
    """Let the session know these catalogs, too."""
    for name, (_, theirs) in catalogs.items():
        settings = {"": _SPARK, ".cache-enabled": "false"}
        settings |= {f".{key}": value for key, value in theirs.items()}
        for key, value in settings.items():
            lakes.spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return lakes.spark


@pytest.mark.parametrize("name", ["on_sqlite", "on_postgresql", "behind_rest"])
def test_spark_reads_what_we_land_and_we_land_after_spark(catalogs, spark, name):
    settings = {"name": name, **catalogs[name][0]}
    catalog = connector.open_catalog(settings, ProcessSecrets({}), Quiet())
    catalog.check()
    ledger = origin(chain(name), {0: 0})
    table = catalog.create("bronze.orders", TableDefinition(ORDERS, ("bucket(2, id)",)), [ledger])
    land(table, name, {0: (0, 5)})
    full = f"{name}.bronze.orders"

    assert [0, 1, 2, 3, 4] == [
        row.id for row in spark.sql(f"SELECT id FROM {full} ORDER BY id").collect()
    ]
    spark.sql(f"DELETE FROM {full} WHERE id = 3")
    land(table, name, {0: (5, 7)})
    assert [0, 1, 2, 4, 5, 6] == sorted(row.id for row in spark.table(full).select("id").collect())
    catalog.close()


def chain(name):
    from penstock.core.commits import Chain

    return Chain("shop", f"{name}.bronze.orders")


def land(table, name, ranges):
    state = table.state(chain(name))
    writer = connector.open_writer(
        state.target, prefix="shop-1-0", observer=Quiet(), secrets=ProcessSecrets({})
    )
    writer.write(batch_of(state.schema, orders(ranges)))
    given = {"files": tuple(writer.close()), "uuid": state.uuid, "schema_id": state.schema_id}
    table.commit(state, prepared(chain(name), ranges, **given), retain=25)
