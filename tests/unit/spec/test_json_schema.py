"""The JSON Schema says what the loader does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.spec.json_schema import json_schema


def settings() -> Iterator[tuple[str, dict[str, Any]]]:
    schema = json_schema()
    blocks = {"": schema, **schema["$defs"]}
    for name, block in blocks.items():
        for setting, reported in block["properties"].items():
            yield f"{name}.{setting}", reported


def test_every_setting_is_described() -> None:
    blocks = json_schema()["$defs"]
    silent = [
        name
        for name, reported in settings()
        if not reported.get("description")
        and not blocks.get(str(reported.get("$ref")).rpartition("/")[2], {}).get("description")
    ]
    assert [] == silent


def test_defaults_with_a_unit_are_in_words() -> None:
    defaults = {name: reported.get("default") for name, reported in settings()}
    assert ("30s", "256MB", "1%", "8MB") == (
        defaults["CommitSettings.every"],
        defaults["CommitSettings.or_bytes"],
        defaults["QuarantineSettings.stop_above"],
        defaults["LimitSettings.record_bytes"],
    )


def test_unknown_settings_are_refused_everywhere_but_in_catalogs_of_iceberg() -> None:
    schema = json_schema()
    blocks = {"": schema, **schema["$defs"]}
    assert {"SqlCatalog", "RestCatalog", "HiveCatalog", "GlueCatalog"} == {
        name for name, block in blocks.items() if block["additionalProperties"]
    }


def test_a_spec_lands_or_publishes_and_each_says_what_it_requires() -> None:
    schema = json_schema()
    landing, publishing = (set(each["required"]) for each in schema["anyOf"])

    assert {"name", "kafka"} == set(schema["required"]) == landing & publishing
    assert {"tables", "catalogs", "quarantine"} == landing - publishing
    assert {"publish"} == publishing - landing
    assert {"publish", "publishing"} < set(schema["properties"])
    assert "$ref" not in schema["properties"]["kafka"]
