"""Secrets that are written out in a spec, where a reference should stand.

Invariant: no message quotes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.spec.problems import KeyPath, Problem
from penstock.spec.secrets import is_literal, is_secret_name, without_password
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.sections import PendingSettings, SparkSettings
from penstock.spec.settings.security import Cluster

Block = tuple[KeyPath, Mapping[str, Any]]
"""Settings as they are written, and where they stand."""


def literal_secrets(blocks: Iterable[Block]) -> Iterator[Problem]:
    """Warn of each secret that is in the text of a setting itself (P124)."""
    for at, settings in blocks:
        for name, value in settings.items():
            if not isinstance(value, str):
                continue
            if (is_secret_name(name) and is_literal(value)) or without_password(value) != value:
                fact = "a secret is in the spec itself"
                anywhere = "${env:…}" if at[0] == "spark" else "${file:/run/secrets/…} or ${env:…}"
                hint = f"write {anywhere} in its place"
                yield Problem((*at, name), "P124", fact, hint, "warning")


def of_connections(
    kafka: Cluster | None,
    catalogs: Mapping[str, Catalog | None],
    spark: SparkSettings | None,
    pending: PendingSettings | None,
) -> Iterator[Block]:
    """Yield the blocks of what landing and publishing connect to; a wrong one is None."""
    if kafka is not None:
        yield ("kafka", "security"), kafka.security.revealed()
    for name, catalog in catalogs.items():
        if catalog is not None:
            entry = catalog.revealed()
            yield ("catalogs", name), entry
            yield ("catalogs", name, "storage_options"), entry.get("storage_options", {})
    if spark is not None:
        yield ("spark", "conf"), spark.conf
    if pending is not None:
        yield ("pending",), {"store": pending.store}
