"""The JSON Schema is generated, committed, and kept in step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.spec import json_schema
from penstock.spec.writing import SCHEMA_FILE

ROOT = Path(__file__).parents[3]


def test_the_committed_schema_is_the_generated_one() -> None:
    """When this fails: write what `json_schema()` gives to the file."""
    generated = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    assert (ROOT / SCHEMA_FILE).read_text("utf-8") == generated


def settings() -> Iterator[tuple[str, dict[str, Any]]]:
    schema = json_schema()
    blocks = {"": schema, **schema["$defs"]}
    for name, block in blocks.items():
        for setting, told in block["properties"].items():
            yield f"{name}.{setting}", told


def test_every_setting_is_described() -> None:
    blocks = json_schema()["$defs"]
    silent = [
        name
        for name, told in settings()
        if not told.get("description")
        and not blocks.get(str(told.get("$ref")).rpartition("/")[2], {}).get("description")
    ]
    assert [] == silent


def test_defaults_with_a_unit_are_in_words() -> None:
    defaults = {name: told.get("default") for name, told in settings()}
    assert ("30s", "256MB", "1%", "8MB") == (
        defaults["CommitSettings.every"],
        defaults["CommitSettings.or_bytes"],
        defaults["QuarantineSettings.stop_above"],
        defaults["LimitSettings.record_bytes"],
    )


def test_unknown_settings_are_refused_everywhere_but_in_catalogs_of_iceberg() -> None:
    schema = json_schema()
    blocks = {"": schema, **schema["$defs"]}
    assert {"SqlCatalog", "RestCatalog", "HiveCatalog", "CloudCatalog"} == {
        name for name, block in blocks.items() if block["additionalProperties"]
    }
