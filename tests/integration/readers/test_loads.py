"""A partition that was loaded, read by others: its new rows, and none of what stood there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.delta.keyed import VECTORS
from tests.integration.readers.lakes import Lakes, by_id

from penstock.core.schema import Field, Kind, Struct
from penstock.landing.repair.load import files_of
from penstock.ports.tables import TableDefinition

pytestmark = pytest.mark.spark

PLAIN = Struct((Field("id", Kind.LONG), Field("part", Kind.STRING), Field("made", Kind.STRING)))
BESIDE = {
    "write.delete.mode": "merge-on-read",
    "write.delete.granularity": "file",
    "write.delete.distribution-mode": "none",
}


def row(number: int, made: str) -> dict[str, Any]:
    return {"id": number, "part": "ab"[number % 2], "made": made}


@pytest.mark.parametrize("table", ["lake.shop.loads", "delta.shop.loads"])
def test_readers_see_the_new_rows_of_a_partition_and_no_row_delete_of_the_former(
    lakes: Lakes, table: str
) -> None:
    properties = BESIDE if table.startswith("lake.") else VECTORS
    lakes.create(table, TableDefinition(PLAIN, partition_by=("part",), properties=properties))
    for first in (0, 20):
        lakes.landed(table, [row(first + n, "former") for n in range(20)])
    lakes.sql("DELETE FROM {t} WHERE id IN (2, 24, 26)", t=table)
    before = lakes.version(table)
    state = lakes.state(table)
    gone = files_of(table, lakes.table(table).layout(state).files, [{"part": "a"}])
    assert (20, 3) == (sum(f.rows for f in gone), sum(f.deleted for f in gone))

    lakes.replaced(table, [each.path for each in gone], [row(n, "new") for n in range(0, 40, 4)])

    new = [row(n, "new") for n in range(0, 40, 4)]
    expected = by_id([*new, *(row(n, "former") for n in range(1, 40, 2))])
    for read in (lakes.by_spark, lakes.by_own, lakes.by_duckdb):
        assert expected == read(table)
    filtered = "SELECT * FROM {t} WHERE part = 'a' AND id < 30"
    assert [each for each in new if each["id"] < 30] == by_id(lakes.sql(filtered, t=table))
    travelled = f"SELECT count(*) AS n FROM {{t}} VERSION AS OF {before} WHERE made = 'former'"
    assert [{"n": 37}] == lakes.sql(travelled, t=table)
    if table.startswith("lake."):
        assert 0 == lakes.known(table).inspect.delete_files().num_rows
        summary = lakes.known(table).current_snapshot().summary
        assert ("0", "30") == (summary["total-delete-files"], summary["total-records"])
    found = lakes.state(table)
    assert found.verdict.is_sound
    assert 0 == sum(each.deleted for each in lakes.table(table).layout(found).files)
    lakes.landed(table, [row(100, "later")])
    assert [*expected, row(100, "later")] == lakes.by_spark(table)
