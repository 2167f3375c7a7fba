"""The law of readers: a filter pushed down finds the rows that it finds over a full scan.

Tables of both formats live random lives, and hold the values that metadata get wrong; each reader
then answers random filters, and plain Python answers them over the rows that were written.
`PENSTOCK_FILTERS=2000` plays so many tables of each format, others each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.properties.random_tables import Lived, Plan, delta_plans, iceberg_plans, live
from tests.properties.readers import all_wrong, wrong_after_delete

from penstock.app.values import values_of
from penstock.core.statistics import Mismatch

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


@pytest.mark.timeout(0 if LONG else 300)
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


@pytest.mark.timeout(0 if LONG else 300)
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


def metadata_wrong_of_ours(lived: Lived) -> list[Mismatch]:
    """Audit the values of all files but those of PyIceberg, which tells of no NaN."""
    found = values_of(lived.lakes.catalogs[lived.plan.begun.connector], "shop.t").mismatches
    return [each for each in found if Path(each.file).name.startswith("shop-")]
