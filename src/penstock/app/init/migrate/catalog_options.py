"""Catalog options of Java's Iceberg, as Kafka Connect and Flink take them, become those of a spec.

Invariants: an option whose name is one of secrets becomes a reference (passwords in addresses are
for `migrating` to take out); one that PyIceberg does not know is left with a reason or asked about,
for PyIceberg passes over it in silence.

Source: the constants of pyiceberg.io and pyiceberg.catalog, 0.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.app.init.migrate.account import NO_COUNTERPART, Options, in_place_of_secret
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
    "jdbc.schema-version": "not needed",
    "s3.staging-dir": "not needed: parts are sent as they are written",
    "s3.delete-enabled": "not needed: files that somebody may read are never deleted",
    "s3.path-style-access": "not needed: an endpoint of one's own is addressed so",
}
_KINDS = ("type", "catalog-type", "catalog-impl")
JAVA_ALONE = {
    "hive-conf-dir": "a file of Java: uri, and keys of the storage",
    "hadoop-conf-dir": "a file of Java: uri, and keys of the storage",
    "include-credentials": "Java's own credentials of Azure: keys of the storage, as adls.…",
}
_KNOWN = {
    *("uri", "warehouse", "credential", "token", "oauth2-server-uri", "scope", "prefix"),
    *("jdbc.user", "auth.manager", "audience", "resource"),
    *("client.profile-name", "client.region", "client.role-arn", "client.role-session-name"),
    *("glue.endpoint", "glue.id", "glue.max-retries", "glue.profile-name", "glue.region"),
    *("glue.retry-mode", "glue.skip-archive", "s3.anonymous", "s3.connect-timeout", "s3.endpoint"),
    *("s3.force-virtual-addressing", "s3.profile-name", "s3.proxy-uri", "s3.region"),
    *("s3.request-timeout", "s3.resolve-region", "s3.retry-strategy-impl", "s3.role-arn"),
    *("s3.role-session-name", "s3.server-side-encryption", "s3.signer", "s3.signer.endpoint"),
    *("s3.signer.uri", "hive.hive2-compatible", "hive.kerberos-authentication"),
    "hive.kerberos-service-name",
}
_KNOWN_BEGINNINGS = ("gcs.", "adls.", "rest.", "header.", "ssl.")


@dataclass(slots=True)
class CatalogOptions:
    """A catalog of the spec; `mapped` options, those `left` with the reason, and those to be
    `asked` about, each with its value and what is to decide.
    """

    settings: dict[str, str] = field(default_factory=dict)
    mapped: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)


def catalog_of(options: Options) -> CatalogOptions:
    """Translate a catalog's options, by their names without any prefix."""
    found = CatalogOptions({"type": "sql"})
    for key, value in options.items():
        if key in _KINDS:
            _type(found, key, value)
        elif key in LEFT:
            found.left.append((key, LEFT[key]))
        elif key in JAVA_ALONE:
            found.asked.append((key, value, JAVA_ALONE[key]))
        elif is_secret_name(key):
            found.settings[key.removeprefix("jdbc.")], why = in_place_of_secret(key)
            found.left.append((key, why))
            found.mapped.append(key)
        elif key in _KNOWN or key.startswith(_KNOWN_BEGINNINGS):
            found.settings[key] = _address(value)
            found.mapped.append(key)
        else:
            found.asked.append((key, value, NO_COUNTERPART))
    if not {options.get(key, "iceberg") for key in _KINDS} - {"iceberg"}:
        _untold(found)
    _complete(found)
    return found


def _type(found: CatalogOptions, key: str, value: str) -> None:
    known = IMPLEMENTATIONS.get(value) if key == "catalog-impl" else TYPES.get(value)
    if known is not None:
        found.settings["type"] = known
        found.mapped.append(key)
    elif value == "iceberg":
        found.left.append((key, "Flink says so of every catalog of Iceberg"))
    else:
        why = f"PyIceberg has no catalog of this kind; {OWN_FILE} stands in its place"
        found.asked.append((key, value, why))


def _untold(found: CatalogOptions) -> None:
    """Take Java's default, a Hive metastore, where its address is told; else ask."""
    if found.settings.get("uri", "").startswith("thrift://"):
        found.settings["type"] = "hive"
    else:
        why = f"which catalog it is; {OWN_FILE} stands in its place"
        found.asked.append(("type", "(not set)", why))


def _complete(found: CatalogOptions) -> None:
    """Add the required settings of an SQL catalog, and move its password into the address."""
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
    """Yield the options that were mapped, each with its setting."""
    for key in catalog.mapped:
        setting = "type" if key in ("catalog-type", "catalog-impl") else key
        yield key, f"catalogs.{name}.{setting}"
