"""Find connectors by entry point and open them: the one door for ours and for others'."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from penstock.core.errors import InvalidError
from penstock.ports.connectors import (
    PORTS_VERSION,
    LogConnector,
    RegistryConnector,
    StoreConnector,
    TableConnector,
)
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

GROUP = "penstock.connectors"
Connector = LogConnector | TableConnector | StoreConnector | RegistryConnector
Kind = TypeVar("Kind", LogConnector, TableConnector)
Addressed = TypeVar("Addressed", StoreConnector, RegistryConnector)


@cache
def connector(name: str) -> Connector:
    """Load a connector by its entry point's name.

    Raises InvalidError when there is none, or when it was written for other ports.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return _loaded(entry)
    known = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP)))
    raise InvalidError(
        f"no connector is called {name!r}; installed are {known}",
        code="P180",
        hint="install the package that brings it",
    )


def connector_of(kind: type[Kind], name: str) -> Kind:
    """Load a connector of a kind by its entry point's name. Raises InvalidError."""
    found = connector(name)
    if not isinstance(found, kind):
        raise InvalidError(
            f"connector {name!r} is a {type(found).__name__}, not a {kind.__name__}",
            code="P183",
            hint="two packages may bring connectors of one name: uninstall one",
        )
    return found


@cache  # it is asked of every table of every topic, and reads all installed packages
def table_connector(catalog_type: str) -> tuple[str, TableConnector]:
    """Find the connector for a type of catalog, with its name. Raises InvalidError."""
    for entry in entry_points(group=GROUP):
        found = connector(entry.name)
        if isinstance(found, TableConnector) and catalog_type in found.catalog_types:
            return entry.name, found
    raise InvalidError(
        f"no installed connector knows catalogs of type {catalog_type!r}",
        code="P181",
        hint="this release brings types sql (Iceberg) and delta",
    )


def store_connector(address: str) -> StoreConnector:
    """Find the connector for a pending store's address. Raises InvalidError."""
    for found in _at(StoreConnector, address):
        return found
    raise InvalidError(
        f"no installed connector knows stores at {address.partition(':')[0]}:…",
        code="P182",
        hint="this release brings sqlite:///path and postgresql://user/database",
    )


def store_of(spec: Pipeline | Publications) -> tuple[StoreConnector, str]:
    """Return the connector of a spec's pending store, and its address. Raises InvalidError."""
    address = spec.pending.store.replace("{name}", spec.name)
    return store_connector(address), address


def registry_connector(address: str) -> RegistryConnector:
    """Find the connector for a schema registry's address. Raises InvalidError."""
    for found in _at(RegistryConnector, address):
        return found
    raise InvalidError(
        f"no installed connector knows schema registries at {address.partition(':')[0]}:…",
        code="P675",
        hint="this release brings http, https and mock:///path",
    )


def _at(kind: type[Addressed], address: str) -> Iterator[Addressed]:
    for entry in entry_points(group=GROUP):
        found = connector(entry.name)
        if isinstance(found, kind) and address.partition(":")[0] in found.schemes:
            yield found


def _loaded(entry: EntryPoint) -> Connector:
    found = entry.load()
    if not isinstance(found, Connector):
        raise InvalidError(
            f"entry point {entry.name} = {entry.value} is not a connector",
            code="P183",
            hint="it must be one of the dataclasses of penstock.ports.connectors",
        )
    if found.ports_version != PORTS_VERSION:
        raise InvalidError(
            f"connector {entry.name} speaks ports version {found.ports_version}, this penstock "
            f"{PORTS_VERSION}",
            code="P184",
            hint="upgrade the older of the two packages",
        )
    return found
