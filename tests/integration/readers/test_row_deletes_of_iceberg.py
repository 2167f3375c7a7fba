"""Row deletes of ours and of Spark's in Iceberg tables, on top of each other."""

from __future__ import annotations

import pytest
from tests.integration.iceberg.keyed import CITY, LAYOUTS, SIZE, keyed, lived
from tests.integration.readers.lakes import Lakes, by_id

from penstock.connectors.iceberg.row_deletes.changes import FILES_OF_THEIR_OWN_MAX

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("layout", LAYOUTS)
def test_spark_reads_what_a_table_has_lived_through_and_we_what_spark_did(
    lakes: Lakes, layout: str
) -> None:
    table = lived(lakes, layout, seed=2)
    name = lakes.in_spark(table.name)

    assert table.rows == lakes.by_spark(table.name)
    for text, wanted in (
        ("version > 7", lambda each: each["version"] > 7),
        (f"`{CITY}` = '北京 50%'", lambda each: each[CITY] == "北京 50%"),
        (f"`{SIZE}` BETWEEN 9 AND 21", lambda each: 9 <= each[SIZE] <= 21),
        ("id % 3 = 1", lambda each: each["id"] % 3 == 1),
        (
            f"`{CITY}` IS NULL AND price < 50",
            lambda each: each[CITY] is None and each["price"] < 50,
        ),
    ):
        found = lakes.spark.sql(f"SELECT * FROM {name} WHERE {text}").toArrow().to_pylist()
        expected = [each for each in table.rows if wanted(each)]
        assert expected, text
        assert expected == by_id(found), text
    counted = lakes.spark.sql(f"SELECT count(*), max(id) FROM {name}").collect()[0]
    assert (len(table.truth), max(table.truth)) == tuple(counted)

    set_mode = f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    lakes.spark.sql(set_mode)
    lakes.spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    table.truth = {number: each for number, each in table.truth.items() if number % 10 != 3}
    assert table.rows == table.read_by_us()

    table.change([3, 13, 50], [51, 53])
    assert table.rows == lakes.by_spark(table.name) == table.read_by_us()

    lakes.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.name.removeprefix('lake.')}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert table.rows == table.read_by_us()
    table.change([4, 13], [50])
    assert table.rows == lakes.by_spark(table.name) == table.read_by_us()
    assert table.rows == lakes.by_own(table.name)


def test_spark_reads_grouped_delete_files(lakes: Lakes) -> None:
    table = keyed(lakes, "by_bucket", name="grouped")
    many = FILES_OF_THEIR_OWN_MAX + 36
    table.change(range(12 * many), files=many)
    table.change([1], [0])
    table.change(deletes=range(3, 12 * many, 2))
    table.change(range(6, 9), [4, 22, 1])
    name = lakes.in_spark(table.name)
    mode = "'write.delete.granularity' = 'partition', 'write.delete.mode' = 'merge-on-read'"

    assert table.rows == lakes.by_spark(table.name)
    lakes.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({mode})")
    lakes.spark.sql(f"DELETE FROM {name} WHERE id % 9 = 4")
    table.truth = {number: each for number, each in table.truth.items() if number % 9 != 4}
    table.change([4, 13], [14, 15])
    assert table.rows == lakes.by_spark(table.name) == table.read_by_us()
    assert table.rows == lakes.by_own(table.name)
