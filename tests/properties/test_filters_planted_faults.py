"""The check of the law of readers is shown wrong metadata, and so is `penstock audit --values`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.types import IntegerType, StringType
from tests.integration.readers.lakes import Lakes
from tests.properties.filters import Filter, Op
from tests.properties.nasty_values import columns_without, schema_of
from tests.properties.random_tables import Begun, Lived, Plan
from tests.properties.readers import all_wrong

from penstock.app.inspect.metadata_audit import values_of
from penstock.core.schema import Kind
from penstock.core.statistics import Fault
from penstock.ports.tables import TableDefinition

COLUMNS = {name: type_ for name, type_ in columns_without().items() if name in ("i", "l", "s", "d")}
VALUES = ((1, "a", 1.0), (5, "m", 2.5), (9, "z", 3.0), (None, None, None))
ROWS = [
    {"id": at, "i": i, "l": 30, "s": s, "d": d, "in": None, "many": [], "more": []}
    for at, (i, s, d) in enumerate(VALUES)
]
ASKED = [
    *(Filter("i", Kind.INT, Op.GT, (at,)) for at in (0, 5, 8)),
    *(Filter("s", Kind.STRING, op, ("m",)) for op in (Op.LT, Op.GT, Op.NE)),
    *(Filter("d", Kind.DOUBLE, op, (2.5,)) for op in (Op.LT, Op.GT)),
    *(Filter(name, type_, Op.IS_NULL) for name, type_ in COLUMNS.items()),
    *(Filter(name, type_, Op.NOT_NULL) for name, type_ in COLUMNS.items()),
    Filter("l", Kind.LONG, Op.EQ, (30,)),
]

Detail = dict[str, Any]


def lived(place: Path, table: str, change: Callable[[Detail], None]) -> Lived:
    """Land a file whose description was changed before it was committed."""
    connector = table.partition(".")[0]
    lakes = Lakes(place)
    columns = {**COLUMNS, "in.t": Kind.STRING, "in.g": Kind.DOUBLE, "in.k": Kind.LONG}
    by = ("identity(l)",) if connector == "lake" else ("l",)
    lakes.create(table, TableDefinition(schema_of(columns), by))
    state, commit = lakes.prepared(table, ROWS)
    files = []
    for file in commit.files:
        detail = json.loads(file.detail)
        change(detail)
        files.append(replace(file, detail=json.dumps(detail)))
    lakes.table(table).commit(state, replace(commit, files=tuple(files)), retain=25)
    begun = Begun(connector, columns, (), by, {})
    return Lived(Plan(begun, [ROWS], (), ASKED), lakes, {row["id"]: row for row in ROWS})


def of_iceberg(name: str, **changed: Any) -> Callable[[Detail], None]:
    """Change what is recorded of a column: ids count `id` first, as `schema_of` orders them."""
    number = list(schema_of(COLUMNS).names).index(name) + 1
    places = {"nulls": 3, "low": 4, "high": 5}

    def change(detail: Detail) -> None:
        (column,) = (each for each in detail["columns"] if each[0] == number)
        for key, value in changed.items():
            column[places[key]] = value

    return change


def of_delta(key: str, **changed: Any) -> Callable[[Detail], None]:
    def change(detail: Detail) -> None:
        statistics = json.loads(detail["stats"])
        statistics[key] |= changed
        detail["stats"] = json.dumps(statistics)

    return change


def single(value: bytes) -> str:
    return base64.b64encode(value).decode()


def another_partition(value: Any) -> Callable[[Detail], None]:
    def change(detail: Detail) -> None:
        detail["partition"] = value

    return change


ICEBERG: Mapping[str, tuple[Callable[[Detail], None], Fault]] = {
    "a lower bound above a value": (
        of_iceberg("s", low=single(to_bytes(StringType(), "n"))),
        Fault.LOWER,
    ),
    "an upper bound below a value": (
        of_iceberg("i", high=single(to_bytes(IntegerType(), 5))),
        Fault.UPPER,
    ),
    "fewer nulls than there are": (of_iceberg("i", nulls=0), Fault.NULLS),
    "more nulls than there are": (of_iceberg("s", nulls=4), Fault.NULLS),
    "another partition": (another_partition([single((29).to_bytes(8, "little"))]), Fault.PARTITION),
}
DELTA: Mapping[str, tuple[Callable[[Detail], None], Fault]] = {
    "a lower bound above a value": (of_delta("minValues", s="n"), Fault.LOWER),
    "an upper bound below a value": (of_delta("maxValues", i=5), Fault.UPPER),
    "fewer nulls than there are": (of_delta("nullCount", i=0), Fault.NULLS),
    "more nulls than there are": (of_delta("nullCount", s=4), Fault.NULLS),
}


def planted() -> Iterator[Any]:
    for table, faults in (("lake.shop.t", ICEBERG), ("delta.shop.t", DELTA)):
        for name, (change, fault) in faults.items():
            yield pytest.param(table, change, fault, id=f"{table.partition('.')[0]}: {name}")


@pytest.mark.parametrize(("table", "change", "fault"), list(planted()))
def test_wrong_metadata_is_found_by_readers_and_by_the_audit(
    tmp_path: Path, table: str, change: Callable[[Detail], None], fault: Fault
) -> None:
    found = lived(tmp_path, table, change)
    audited = values_of(found.lakes.catalogs[table.partition(".")[0]], "shop.t")

    assert [] != list(all_wrong(found))
    assert {fault} == {each.fault for each in audited.mismatches}


@pytest.mark.parametrize("table", ["lake.shop.t", "delta.shop.t"])
def test_metadata_that_was_not_touched_is_right(tmp_path: Path, table: str) -> None:
    found = lived(tmp_path, table, lambda _: None)
    audited = values_of(found.lakes.catalogs[table.partition(".")[0]], "shop.t")

    assert [] == list(all_wrong(found))
    assert () == audited.mismatches
    assert len(ROWS) == audited.rows
