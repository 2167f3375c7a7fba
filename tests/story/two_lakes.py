"""A spec of two catalogs below one directory, for tests of commands that need no broker."""

from __future__ import annotations

from pathlib import Path

SPEC = """
name: shop
kafka: {{ brokers: "127.0.0.1:1", topics: [orders] }}
catalogs:
  lake: {{ type: sql, uri: "sqlite:///{place}/lake.db", warehouse: "{place}/lake" }}
  delta: {{ type: delta, root: "{place}/delta" }}
tables:
{tables}
quarantine: {{ into: lake.ops.quarantine }}
pending: {{ store: "sqlite:///{place}/shop.db" }}
"""


def spec_of(place: Path, tables: str) -> Path:
    """Write the spec of a pipeline `shop` with the tables that a YAML list names."""
    spec = place / "shop.yaml"
    spec.write_text(SPEC.format(place=place, tables=tables))
    return spec
