"""Connectors are found by their entry points; what is missing or foreign is reported by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from penstock.app.assembly import connectors
from penstock.app.assembly.connectors import GROUP
from penstock.core.errors import InvalidError
from penstock.ports.connectors import LogConnector

ASKED: list[tuple[str, Callable[[], object]]] = [
    ("P180", lambda: connectors.connector("nobody")),
    ("P181", lambda: connectors.table_connector("hudi")),
    ("P182", lambda: connectors.store_connector("redis://here")),
    ("P183", lambda: connectors.connector_of(LogConnector, "iceberg")),
    ("P675", lambda: connectors.registry_connector("ldap://here")),
]
FOREIGN = {
    "P183": "connector = 'a text'\n",
    "P184": (
        "from dataclasses import replace\n"
        "from penstock.connectors.kafka import connector as ours\n"
        "connector = replace(ours, ports_version=ours.ports_version + 1)\n"
    ),
}


@pytest.mark.parametrize(("code", "ask"), ASKED)
def test_a_connector_that_is_not_there_is_reported(code: str, ask: Callable[[], object]) -> None:
    with pytest.raises(InvalidError) as raised:
        ask()

    assert code == raised.value.code


def test_installed_packages_are_searched_once_for_all_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connectors.table_connector.cache_clear()
    looked = []
    monkeypatch.setattr(
        connectors, "entry_points", lambda **group: looked.append(group) or entry_points(**group)
    )
    assert "iceberg" == connectors.table_connector("sql")[0]
    once = len(looked)
    assert "iceberg" == connectors.table_connector("sql")[0]

    assert 1 <= once == len(looked)


@pytest.mark.parametrize("code", FOREIGN)
def test_a_package_that_brings_something_else_is_refused(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"strange_{code.lower()}"
    (tmp_path / f"{name}.py").write_text(FOREIGN[code])
    distribution = tmp_path / f"{name}-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:connector\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(InvalidError, match=name) as raised:
        connectors.connector(name)
    assert code == raised.value.code
