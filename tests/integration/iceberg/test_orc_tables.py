"""Tables of ORC under our own commands: keyed changes, maintenance, a change of format meanwhile."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import FileFormat
from pyiceberg.types import IntegerType, LongType
from tests.integration.maintaining import maintained, upkept
from tests.integration.readers import own_rows
from tests.integration.readers.lakes import CONNECTORS, Lakes, by_id, chain
from tests.integration.readers.own_rows import FILTERS, SCHEMA, OwnRows, comparable
from tests.integration.readers.test_own_rows import SMALL, require_sound

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.iceberg.read.file_rows import FileToRead, rows_in
from penstock.connectors.iceberg.schema.orc_types import orc_schema
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Fixed, Kind, List, Map, Struct
from penstock.core.sweeps import name_of
from penstock.ports.row_deletes import POSITION
from penstock.ports.tables import TableDefinition

NAME = "lake.shop.orc"
ORC = {**SMALL, "write.format.default": "orc", "write.orc.stripe-size-bytes": "2000"}


@pytest.fixture
def lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lakes]:
    held = [each for each in own_rows.PRICES if repr(each) != "-0.0"]
    monkeypatch.setattr(own_rows, "PRICES", held)  # -0.0 lands in Parquet
    opened = Lakes(tmp_path)
    yield opened
    opened.close()


def formats(lakes: Lakes) -> set[FileFormat]:
    return {each.file_format for each in lakes.files(NAME)}


def test_files_of_orc_that_nothing_names_are_swept(lakes: Lakes) -> None:
    lakes.create(NAME, TableDefinition(SCHEMA, (), ORC, keys=("id",)))
    table = OwnRows(lakes, NAME)
    table.change(range(60), ())
    table.change(range(60, 120), ())
    [lost], _ = table.written(table.table.state(chain(NAME)), [own_rows.row(900, 1)], set())
    assert lost.path.endswith(".orc")
    assert maintained(chain(NAME), table.table, CONNECTORS["lake"]).groups > 0
    deleted = upkept(chain(NAME), table.table)[1]
    table.change(range(50), ())
    deleted += upkept(chain(NAME), table.table)[1]

    assert name_of(lost.path) in deleted
    assert any("-maintenance-" not in each and each.endswith(".orc") for each in deleted)
    require_sound(table)


def test_a_keyed_table_of_orc_is_changed_maintained_and_turned_into_parquet(lakes: Lakes) -> None:
    lakes.create(NAME, TableDefinition(SCHEMA, ("kind",), ORC, keys=("id",)))
    table = OwnRows(lakes, NAME)
    table.change(range(300), range(100, 150))
    table.change(range(150, 420), range(160, 200), range(0, 90, 3))
    require_sound(table)
    assert {FileFormat.ORC} == formats(lakes)
    said = values_of(lakes.catalogs["lake"], "shop.orc")
    assert [] != [each for each in said.not_compared if "ORC" in each]

    first = maintained(chain(NAME), table.table, CONNECTORS["lake"])
    assert first.groups > 0
    require_sound(table)
    assert {FileFormat.ORC} == formats(lakes)
    for where, holds in FILTERS:
        scan = lakes.known(NAME).scan(row_filter=where.replace("DATE ", ""))
        assert table.where(holds) == comparable(by_id(scan.to_arrow().to_pylist())), where

    with SqlCatalog("lake", **lakes.iceberg).load_table("shop.orc").transaction() as change:
        change.set_properties({"write.format.default": "parquet"})
    table.change(range(150, 260), range(150, 200), range(300, 420, 7))
    assert {FileFormat.ORC, FileFormat.PARQUET} == formats(lakes)
    require_sound(table)
    maintained(chain(NAME), table.table, CONNECTORS["lake"])
    require_sound(table)
    assert comparable(table.rows) == comparable(lakes.by_own(NAME))


INNER = Struct((Field("n", Kind.INT), Field("at", Kind.TIMESTAMP)))
MIXED = Struct(
    (
        Field("id", Kind.LONG),
        Field("a.b", Kind.INT),
        Field("u", Kind.UUID),
        Field("x", Fixed(3)),
        Field("tod", Kind.TIME),
        Field("in", INNER),
        Field("lots", List(INNER, element_required=False)),
        Field("by", Map(Kind.STRING, INNER, value_required=False)),
    )
)
AT = dt.datetime(2026, 11, 28, 23, 59, 59, 999_999)  # noqa: DTZ001 - the type has no zone


def mixed(number: int) -> dict[str, Any]:
    inner = {"n": number, "at": AT}
    return {
        "id": number,
        "a.b": -number,
        "u": bytes([number]) * 16,
        "x": b"xyz",
        "tod": dt.time(23, 59, 59, 1),
        "in": inner if number % 2 else None,
        "lots": [inner, None, {"n": None, "at": None}] if number % 3 else None,
        "by": [("a", inner), ("b", None)],
    }


def read(lakes: Lakes, *columns: str) -> list[dict[str, Any]]:
    table = lakes.known(NAME)
    batches = [
        batch
        for file in lakes.files(NAME)
        for batch in rows_in(FileToRead(NAME, table.io, table.metadata, file), columns)
    ]
    return pa.Table.from_batches(batches).drop_columns([POSITION]).to_pylist()


@pytest.mark.parametrize("version", ["2", "3"])
def test_columns_are_found_by_their_ids(
    lakes: Lakes, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    lakes.create(NAME, TableDefinition(MIXED, (), {**ORC, "format-version": version}))
    lakes.landed(NAME, [mixed(number) for number in range(1, 8)])
    columns = MIXED.names
    landed = read(lakes, *columns)
    assert [str(each["u"]).replace("-", "") for each in landed] == [
        (bytes([number]) * 16).hex() for number in range(1, 8)
    ]
    due = [{**mixed(number), "u": landed[number - 1]["u"]} for number in range(1, 8)]
    assert due == landed
    with caplog.at_level(logging.WARNING):
        own = lakes.known(NAME).scan(selected_fields=("id", "a.b")).to_arrow().to_pylist()
    assert [{"id": each["id"], "a.b": each["a.b"]} for each in due] == own
    assert "" == caplog.text
    if version == "2":  # PyIceberg changes no schemas of the third
        require_found_after_changes(lakes, due)


def require_found_after_changes(lakes: Lakes, due: list[dict[str, Any]]) -> None:
    with lakes.known(NAME).update_schema() as change:
        change.rename_column(("in", "n"), "m").add_column(("in", "later"), IntegerType())
        change.update_column(("lots", "element", "n"), LongType())
        change.move_first("x").add_column("new", LongType())
    changed = read(lakes, "new", "in", "lots", "x")
    assert [
        {
            "new": None,
            "in": each["in"] and {"m": each["in"]["n"], "at": AT, "later": None},
            "lots": each["lots"],
            "x": b"xyz",
        }
        for each in due
    ] == changed


def test_a_far_time_in_a_file_of_another_writer_is_told(lakes: Lakes) -> None:
    schema = Struct((Field("n", Kind.LONG), Field("at", Kind.TIMESTAMP)))
    lakes.create(NAME, TableDefinition(schema, (), ORC))
    lakes.landed(NAME, [{"n": 1, "at": AT}])
    stored = orc_schema(lakes.known(NAME).schema())
    far = [{"n": 7, "at": AT.replace(year=9999)}]
    [file] = lakes.files(NAME)
    with orc.ORCWriter(file.file_path.removeprefix("file://").replace("%20", " ")) as writer:
        writer.write(pa.Table.from_pylist(far, schema=stored))

    assert [{"n": 7}] == read(lakes, "n")
    with pytest.raises(InvalidError, match="2262-04-11") as raised:
        read(lakes, "at")
    assert "P299" == raised.value.code
