"""Catalog options of Java's Iceberg, as Kafka Connect and Flink take them, become those of a spec.

Invariants: an option whose name is one of secrets becomes a reference (passwords in addresses are
for `migrating` to take out); one that PyIceberg does not know is left with a reason, for PyIceberg
passes over it in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.app.migrated import NO_COUNTERPART, Options, in_place_of_secret
from penstock.spec.secrets import is_secret_name

IMPLEMENTATIONS = {
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
}
TYPES = {"rest": "rest", "hive": "hive", "glue": "glue", "jdbc": "sql", "sql": "sql"}
OWN_FILE = "sqlite:///./lake/catalog.db"
LEFT = {
    "io-impl": "a class of Java; addresses tell how files are reached",
    "property-version": "not needed",
    "default-database": "a table's name in the spec has its namespace",
    "cache-enabled": "not needed: tables are looked at afresh for each commit",
    "cache.expiration-interval-ms": "not needed: tables are looked at afresh for each commit",
    "clients": "not needed",
    "hive-conf-dir": "a file of Java: write uri, and keys of the storage",
    "hadoop-conf-dir": "a file of Java: write uri, and keys of the storage",
    "jdbc.schema-version": "not needed",
    "s3.path-style-access": "not needed: an endpoint of one's own is addressed so",
}
_KNOWN = {
    *("uri", "warehouse", "credential", "token", "oauth2-server-uri", "scope", "prefix"),
    "jdbc.user",
}
_KNOWN_BEGINNINGS = ("s3.", "gcs.", "adls.", "glue.", "client.", "rest.", "header.", "ssl.")


@dataclass(slots=True)
class CatalogOptions:
    """A catalog of the spec; `mapped` options, and those that were `left` with the reason."""

    settings: dict[str, str] = field(default_factory=dict)
    mapped: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)


def catalog_of(options: Options) -> CatalogOptions:
    """Translate a catalog's options, by their names without any prefix."""
    found = CatalogOptions({"type": "sql"})
    for key, value in options.items():
        if key in ("type", "catalog-type", "catalog-impl"):
            _type(found, key, value)
        elif key in LEFT:
            found.left.append((key, LEFT[key]))
        elif is_secret_name(key):
            found.settings[key.removeprefix("jdbc.")], why = in_place_of_secret(key)
            found.left.append((key, why))
            found.mapped.append(key)
        elif key in _KNOWN or key.startswith(_KNOWN_BEGINNINGS):
            found.settings[key] = _address(value)
            found.mapped.append(key)
        else:
            found.left.append((key, NO_COUNTERPART))
    _complete(found)
    return found


def _type(found: CatalogOptions, key: str, value: str) -> None:
    known = IMPLEMENTATIONS.get(value) if key == "catalog-impl" else TYPES.get(value)
    if known is not None:
        found.settings["type"] = known
        found.mapped.append(key)
    elif value != "iceberg":  # Flink's CREATE CATALOG says so of all of them
        why = f"PyIceberg has no catalog of this kind; {OWN_FILE} stands in its place"
        found.left.append((key, why))


def _complete(found: CatalogOptions) -> None:
    """Give an SQL catalog what it cannot be without, and its password a place in the address."""
    user = found.settings.pop("jdbc.user", "")
    if found.settings["type"] != "sql":
        return
    uri = found.settings.setdefault("uri", OWN_FILE)
    found.settings.setdefault("warehouse", "./lake")
    password = found.settings.pop("password", "")
    if password and "://" in uri and "@" not in uri:
        scheme, _, rest = uri.partition("://")
        found.settings["uri"] = f"{scheme}://{user or 'user'}:{password}@{rest}"


def _address(value: str) -> str:
    """Write an address as PyIceberg reads it."""
    return re.sub(r"^s3[an]://", "s3://", value.removeprefix("jdbc:"))


def account_of(catalog: CatalogOptions, name: str) -> Iterator[tuple[str, str]]:
    """Give the options that were mapped, each with its setting."""
    for key in catalog.mapped:
        setting = "type" if key in ("catalog-type", "catalog-impl") else key
        yield key, f"catalogs.{name}.{setting}"
