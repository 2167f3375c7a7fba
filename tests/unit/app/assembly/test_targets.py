"""Targets are what the rules of a spec say."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.app.assembly.assembly import targets_of
from penstock.app.assembly.placing import placing_of
from penstock.connectors import iceberg
from penstock.core.errors import InvalidError
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


def test_a_connector_without_an_exchange_refuses_hash_by_its_name() -> None:
    text = (SPEC % "create: true").replace("schema:", "write: { distribution: hash }, schema:")
    (rule,) = loads(text, base=Path("/srv")).tables
    assert "hash" == placing_of(rule, iceberg.connector).distribution

    with pytest.raises(InvalidError) as raised:
        placing_of(rule, replace(iceberg.connector, open_exchange=None))
    assert "P867" == raised.value.code
