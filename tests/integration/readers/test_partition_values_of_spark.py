"""The partition values that we write are those that Spark computes for the same rows.

Our table of each type is partitioned by every transform that takes it; Iceberg's Java library writes
its rows into a twin. Spark has no time of day.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.readers.lakes import Lakes
from tests.properties.filters import FLOATS
from tests.properties.layouts import TRANSFORMS, fits, is_transformed
from tests.properties.nasty_values import FLAT, values_of

from penstock.core.schema import Field, Kind, Struct, Type
from penstock.ports.tables import TableDefinition

pytestmark = pytest.mark.spark

TYPES = {name: type_ for name, type_ in FLAT.items() if type_ is not Kind.TIME}
TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
"""Shown by Spark: Python knows no time before year 1 in another zone."""
PATHS = {
    "write.object-storage.enabled": "true",  # paths without values: some are too long for a name
    "write.object-storage.partitioned-paths": "false",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


def transforms_of(type_: Type) -> list[str]:
    found = [name for name in TRANSFORMS if is_transformed(name, type_)]
    return ["identity"] if type_ in FLOATS else found


def partitions(lakes: Lakes, table: str, type_: Type) -> dict[int, str]:
    """Return the partition of each row as metadata has it; both zeros are 0.0, as docs/0231 says."""
    held = "CAST(_partition AS STRING)" if type_ in TIMES else "_partition"
    rows = lakes.spark.sql(f"SELECT id, {held} AS p FROM {lakes.in_spark(table)}").collect()
    return {row["id"]: row["p"] if type_ in TIMES else _shown(row["p"].asDict()) for row in rows}


def _shown(held: dict[str, Any]) -> str:
    return repr(
        {name: value + 0.0 if isinstance(value, float) else value for name, value in held.items()}
    )


@pytest.mark.parametrize("name", TYPES)
def test_our_partition_values_are_those_of_spark(lakes: Lakes, name: str) -> None:
    type_ = TYPES[name]
    names = transforms_of(type_)
    ours, twin = f"lake.shop.parts_{name}", f"lake.shop.twin_{name}"
    schema = Struct((Field("id", Kind.LONG), Field("c", type_)))
    by = tuple(TRANSFORMS[each].format("c") for each in names)
    for table in (ours, twin):
        lakes.create(table, TableDefinition(schema, by, PATHS))
    taken = [None, *(v for v in values_of(type_) if all(fits(each, type_, v) for each in names))]
    lakes.landed(ours, [{"id": at, "c": value} for at, value in enumerate(taken)])
    lakes.spark.sql(f"INSERT INTO {lakes.in_spark(twin)} SELECT * FROM {lakes.in_spark(ours)}")
    computed = partitions(lakes, twin, type_)

    assert len(taken) == len(computed)
    assert computed == partitions(lakes, ours, type_)
    assert 1 < len({*computed.values()})
