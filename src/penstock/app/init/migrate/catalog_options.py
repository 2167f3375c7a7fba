"""Catalog options of Java's Iceberg, as Kafka Connect and Flink take them, become those of a spec.

Invariants: an option with the name of a secret becomes a reference (passwords in addresses are
for `migrating` to take out); one that PyIceberg does not know is left with a reason or asked about,
for PyIceberg passes over it in silence.

Source: the constants of pyiceberg.io and pyiceberg.catalog, 0.12.
"""

from __future__ import annotations

import re

from penstock.app.init.migrate.account import Migrated, Options, Rules, asked
from penstock.spec.secrets import is_secret_name

IMPLEMENTATIONS = {
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
}
TYPES = {"rest": "rest", "hive": "hive", "glue": "glue", "jdbc": "sql", "sql": "sql"}
OWN_FILE = "sqlite:///./lake/catalog.db"
_KINDS = ("type", "catalog-type", "catalog-impl")


def catalog_of(options: Options) -> Migrated:
    """Translate a catalog's options, by their names without any prefix; the spec is its block."""
    found = Migrated("a catalog", {"type": "sql"})
    for key, value in options.items():
        found.follow(_RULES, key, value)
    if not {options.get(key, "iceberg") for key in _KINDS} - {"iceberg"}:
        if found.spec.get("uri", "").startswith("thrift://"):
            found.spec["type"] = "hive"  # Java's default
        else:
            found.ask("type", "(not set)", f"which catalog it is; {OWN_FILE} takes its place")
    _complete(found.spec)
    return found


def _type(found: Migrated, key: str, value: str) -> None:
    known = IMPLEMENTATIONS.get(value) if key == "catalog-impl" else TYPES.get(value)
    if known is not None:
        found.spec["type"] = known
        found.mapped.append((key, "type"))
    elif value == "iceberg":
        found.leave(key, "Flink says so of every catalog of Iceberg")
    else:
        why = f"PyIceberg has no catalog of this kind; {OWN_FILE} takes its place"
        found.ask(key, value, why)


def _known(found: Migrated, key: str, value: str) -> None:
    """Keep an option that PyIceberg knows; addresses are written as it reads them."""
    if is_secret_name(key):
        found.spec[key.removeprefix("jdbc.")] = found.secret(key, key)
    else:
        found.spec[key] = re.sub(r"^s3[an]://", "s3://", value.removeprefix("jdbc:"))
    found.mapped.append((key, key))


def _unknown(found: Migrated, key: str, value: str) -> None:
    if is_secret_name(key):
        _known(found, key, value)
    else:
        found.ask(key, value)


_RULES: Rules = {
    " ".join(_KINDS): _type,
    "io-impl": "a class of Java; addresses say how files are reached",
    "property-version clients jdbc.schema-version": "not needed",
    "default-database": "a table's name in the spec has its namespace",
    "cache-enabled cache.expiration-interval-ms": (
        "not needed: tables are read afresh for each commit"
    ),
    "s3.staging-dir": "not needed: parts are sent as they are written",
    "s3.delete-enabled": "not needed: files that a reader may need are never deleted",
    "s3.path-style-access": "not needed: an endpoint of one's own is addressed so",
    "hive-conf-dir hadoop-conf-dir": asked("a file of Java: uri, and keys of the storage"),
    "include-credentials": asked("Java's own credentials of Azure: keys of the storage, as adls.…"),
    "uri warehouse credential token oauth2-server-uri scope prefix jdbc.user auth.manager audience"
    " resource client.profile-name client.region client.role-arn client.role-session-name"
    " glue.endpoint glue.id glue.max-retries glue.profile-name glue.region glue.retry-mode"
    " glue.skip-archive s3.anonymous s3.connect-timeout s3.endpoint s3.force-virtual-addressing"
    " s3.profile-name s3.proxy-uri s3.region s3.request-timeout s3.resolve-region"
    " s3.retry-strategy-impl s3.role-arn s3.role-session-name s3.server-side-encryption s3.signer"
    " s3.signer.endpoint s3.signer.uri hive.hive2-compatible hive.kerberos-authentication"
    " hive.kerberos-service-name gcs.* adls.* rest.* header.* ssl.*": _known,
    "*": _unknown,
}


def _complete(settings: dict[str, str]) -> None:
    """Add the required settings of an SQL catalog, and move its password into the address."""
    user = settings.pop("jdbc.user", "")
    if settings["type"] != "sql":
        return
    uri = settings.setdefault("uri", OWN_FILE)
    settings.setdefault("warehouse", "./lake")
    password = settings.pop("password", "")
    if password and "://" in uri and "@" not in uri:
        scheme, _, rest = uri.partition("://")
        settings["uri"] = f"{scheme}://{user or 'user'}:{password}@{rest}"
