"""The law of readers: a filter pushed down finds the rows that it finds over a full scan.

Tables of both formats live random lives, and hold the values that metadata get wrong; each reader
then answers random filters, and plain Python answers them over the rows that were written.
`PENSTOCK_FILTERS=2000` plays so many tables of each format, others each time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.integration.readers.lakes import Lakes
from tests.properties.random_tables import Lived, Plan, delta_plans, iceberg_plans, live
from tests.properties.readers import all_wrong, wrong_after_delete

from penstock.app.inspect.metadata_audit import values_of
from penstock.core.schema import Field, Kind, List, Struct
from penstock.core.statistics import Mismatch
from penstock.ports.tables import TableDefinition

LONG = os.environ.get("PENSTOCK_FILTERS")
FILTERS = 20
LIVES = settings(
    max_examples=int(LONG or 8),
    derandomize=not LONG,
    deadline=None,
    database=None,
    phases=(Phase.generate,),  # what is found says which filter; to make it small takes minutes
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(0 if LONG else 1800)
@given(iceberg_plans(FILTERS))
@LIVES
def test_filters_on_iceberg_tables_find_what_a_full_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, plan: Plan
) -> None:
    lived = live(plan, tmp_path_factory.mktemp("lake"))
    full = lived.lakes.known(lived.table).scan().to_arrow()

    assert sorted(lived.rows) == sorted(full["id"].to_pylist())
    assert "" == "\n".join(all_wrong(lived))
    assert [] == metadata_wrong_of_ours(lived)
    lived.lakes.close()


@pytest.mark.timeout(0 if LONG else 1800)
@given(delta_plans(FILTERS))
@LIVES
def test_filters_on_delta_tables_find_what_a_full_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, plan: Plan
) -> None:
    lived = live(plan, tmp_path_factory.mktemp("delta"))
    full = pa.table(lived.lakes.handle(lived.table).scan(columns=["id"]))

    assert sorted(lived.rows) == sorted(full["id"].to_pylist())
    assert "" == "\n".join(all_wrong(lived))
    assert [] == metadata_wrong_of_ours(lived)
    assert [] == list(wrong_after_delete(lived))
    lived.lakes.close()


_NOTHING: Mapping[str, Any] = {"x": None, "deep": None, "many": None}


@pytest.mark.parametrize("indexed", ["32", "2", "-1"])
@pytest.mark.parametrize(
    "structs", [[None, _NOTHING], [None, None], [None, {**_NOTHING, "x": 1}], [_NOTHING, _NOTHING]]
)
def test_structs_of_delta_tables_that_are_null_are_found_whatever_members_hold(
    tmp_path: Path, structs: list[Any], indexed: str
) -> None:
    """Members that are null in a whole file have no bounds; the columns next to them have."""
    inner = Struct((Field("y", Kind.STRING),))
    members = (Field("x", Kind.LONG), Field("deep", inner), Field("many", List(Kind.STRING)))
    columns = Struct((Field("id", Kind.LONG), Field("st", Struct(members))))
    lakes, table = Lakes(tmp_path), "delta.shop.t"
    properties = {"delta.dataSkippingNumIndexedCols": indexed}
    lakes.create(table, TableDefinition(columns, (), properties))
    lakes.landed(table, [{"id": at, "st": each} for at, each in enumerate(structs)])
    rows, struct = lakes.handle(table).to_pyarrow_dataset(), pc.field("st")
    null = [at for at, each in enumerate(structs) if each is None]

    assert null == rows.to_table(filter=struct.is_null())["id"].to_pylist()
    assert len(structs) - len(null) == rows.to_table(filter=~struct.is_null()).num_rows
    found = pa.table(lakes.handle(table).scan(columns=["id"], predicate="st IS NULL"))
    assert null == sorted(found["id"].to_pylist())
    lakes.close()


def metadata_wrong_of_ours(lived: Lived) -> list[Mismatch]:
    """Audit the values of all files but those of PyIceberg, which counts no NaN."""
    found = values_of(lived.lakes.catalogs[lived.plan.begun.connector], "shop.t").mismatches
    return [each for each in found if Path(each.file).name.startswith("shop-")]
