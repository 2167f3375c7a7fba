"""Directories that cannot be made are found by a check, and reported as by the act."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.connectors.delta.catalog import open_delta
from penstock.connectors.iceberg.catalog import open_iceberg
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Struct
from penstock.files.directories import why_not_made
from penstock.ports.connectors import READ_ONLY
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet

PLACES = ("/proc/nope", "/proc/nope/deeper", "{file}", "{file}/below")
DEFINITION = TableDefinition(Struct((Field("n", Kind.LONG),)))


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory that cannot be made."""
    file = tmp_path / "file"
    file.touch()
    return str(request.param).format(file=file)


def test_it_is_reported_why(place: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011  one of several, by the place
        Path(place).mkdir(parents=True)
    assert why_not_made(Path(place))


def test_one_that_is_there_or_can_be_made_is_none_of_them(tmp_path: Path) -> None:
    assert "" == why_not_made(tmp_path)
    assert "" == why_not_made(tmp_path / "a" / "b")
    assert [] == [*tmp_path.iterdir()]


def test_a_file_system_that_reports_no_size_is_none_of_them(tmp_path, monkeypatch) -> None:
    """As some of those that show a bucket as a directory."""
    unsized = SimpleNamespace(f_blocks=0, f_files=0)
    monkeypatch.setattr(os, "statvfs", lambda _: unsized)

    assert "" == why_not_made(tmp_path / "a" / "b")


def test_the_checking_user_need_not_be_the_writing_user(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert "" == why_not_made(tmp_path / "a")


def test_a_delta_root_is_refused_by_a_plan_as_by_a_run(place: str) -> None:
    settings: dict[str, Any] = {"name": "lake", "type": "delta", "root": place}
    catalog = open_delta(settings, ProcessSecrets(), Quiet())
    with pytest.raises(InvalidError) as planned:
        catalog.preview("shop.orders", DEFINITION)
    with pytest.raises(InvalidError) as ran:
        catalog.create("shop.orders", DEFINITION, ())

    assert "P431" == planned.value.code == ran.value.code
    assert planned.value.hint == ran.value.hint


def test_the_database_of_a_catalog_is_named_with_what_is_wrong_of_it(place: str) -> None:
    uri = f"sqlite:///{place}/c.db"
    settings: dict[str, Any] = {"name": "lake", "type": "sql", "uri": uri, "warehouse": "/tmp/w"}
    with pytest.raises(InvalidError) as ran:
        open_iceberg(settings, ProcessSecrets(), Quiet())
    looked_at = open_iceberg({**settings, READ_ONLY: True}, ProcessSecrets(), Quiet())
    with pytest.raises(InvalidError) as planned:
        looked_at.preview("shop.orders", DEFINITION)

    reported = (ran.value, planned.value)
    assert looked_at.load("shop.orders") is None  # a reader needs no space
    assert ["P431", "P431"] == [each.code for each in reported]
    assert all(f"{place}/c.db cannot be made: " in each.message for each in reported)
