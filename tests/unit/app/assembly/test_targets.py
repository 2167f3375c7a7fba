"""Targets are what the rules of a spec say."""

from pathlib import Path

import pytest

from penstock.app.assembly.assembly import targets_of
from penstock.spec.load import loads

SPEC = """
name: shop
kafka: { brokers: "localhost:9092", topics: [orders] }
catalogs: { lake: { type: sql, uri: "sqlite:///./c.db", warehouse: ./lake } }
tables: [{ from: orders, into: lake.bronze.orders, schema: { %s } }]
quarantine: { into: lake.ops.quarantine }
"""


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ("create: true", ("name", True)),
        ("match: name_mapping", ("name_mapping", True)),
        ("case_sensitive: false", ("name", False)),
    ],
)
def test_how_fields_find_their_columns_is_the_rules_word(
    schema: str, found: tuple[str, bool]
) -> None:
    pipeline = loads(SPEC % schema, base=Path("/srv"))
    [target] = targets_of(pipeline, ["orders"])["orders"]

    assert found == (target.options.match, target.options.case_sensitive)


def test_classes_that_place_files_get_to_the_catalog() -> None:
    text = SPEC.replace("./lake }", "./lake, location_providers: [a.B, c.d.E] }")
    settings = loads(text % "create: true", base=Path("/srv")).catalogs["lake"].settings("lake")

    assert "a.B c.d.E" == settings["penstock.location_providers"]
    assert "location_providers" not in settings
