"""Where files lie: as PyIceberg's own classes place them, or one that the spec allows."""

import pytest
from tests.integration.maintaining import maintained

from penstock.connectors.iceberg import connector
from penstock.core.errors import InvalidError

PROVIDER = "write.py-location-provider.impl"
OWN = "tests.integration.iceberg.places.ByTenant"
LOCATIONS = "pyiceberg.table.locations."


def paths(lake):
    """Name the data files below the table's folder of data."""
    files = lake.foreign().inspect.files()["file_path"].to_pylist()
    return [each.partition("/data/")[2] for each in files]


def test_files_lie_where_an_allowed_class_puts_them_whoever_writes(lake):
    lake.catalog.close()
    lake.catalog = lake.open(**{"penstock.location_providers": f"a.B {OWN}"})
    table = lake.create(properties={PROVIDER: OWN, "places.tenant": "ulm"})
    lake.land(table, {0: (0, 2)})
    lake.foreign_append()
    lake.land(table, {0: (2, 4)})
    assert ["ulm"] * 3 == [each.partition("/")[0] for each in paths(lake)]

    assert 1 == maintained(lake.chain, table, connector).groups
    assert ["ulm"] == [each.partition("/")[0] for each in paths(lake)]
    assert 5 == len(lake.ids())


def test_one_that_leaves_the_storage_or_is_not_there_is_refused(lake):
    missing = "tests.integration.iceberg.places.Gone"
    lake.catalog.close()
    lake.catalog = lake.open(**{"penstock.location_providers": f"{OWN} {missing}"})
    table = lake.create(properties={PROVIDER: OWN, "places.tenant": "elsewhere"})
    state = table.state(lake.chain)
    with pytest.raises(InvalidError, match="in several storages") as raised:
        lake.append(state, {0: (0, 2)})
    assert "P289" == raised.value.code

    with pytest.raises(InvalidError, match="Gone cannot be made: AttributeError") as raised:
        lake.create(properties={PROVIDER: missing}, name="bronze.gone")
    assert "P289" == raised.value.code


@pytest.mark.parametrize(
    ("provider", "folders"), [("SimpleLocationProvider", 1), ("ObjectStoreLocationProvider", 5)]
)
def test_the_classes_of_pyiceberg_need_no_leave(lake, provider, folders):
    table = lake.create(properties={PROVIDER: f"{LOCATIONS}{provider}"})
    lake.land(table, {0: (0, 2)})

    assert [folders] == [len(each.split("/")) for each in paths(lake)]
    assert [0, 1] == lake.ids()


def test_a_class_that_nobody_allows_is_never_run(lake):
    table = lake.create()
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({PROVIDER: OWN})

    with pytest.raises(InvalidError, match="location_providers") as raised:
        table.state(lake.chain)
    assert "P436" == raised.value.code
