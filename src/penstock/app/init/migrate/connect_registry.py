"""The schema registry of a sink's converter of values, and who asks it, become `records.registry`.

Invariants: no password and no token is copied; a user does not stay in the address.

Source: Confluent, "Schema Registry security overview": `basic.auth.*`, `bearer.auth.*`; the first
of several addresses is taken.
"""

from __future__ import annotations

from urllib.parse import unquote

from penstock.app.init.migrate.account import Migrated, Options

_URL = "value.converter.schema.registry.url"
_USERS = (
    "value.converter.basic.auth.user.info",
    "value.converter.schema.registry.basic.auth.user.info",
)
_TOKEN = "value.converter.bearer.auth.token"  # noqa: S105  the option's name
_SOURCES = (
    "value.converter.basic.auth.credentials.source",
    "value.converter.bearer.auth.credentials.source",
)


def registry(found: Migrated, options: Options) -> None:
    """Put the registry where one is named; what is asked of it is then accounted for, too."""
    if _URL not in options:
        return
    scheme, sign, rest = options[_URL].partition(",")[0].strip().partition("://")
    in_address, _, host = rest.rpartition("@")
    found.put(_URL, "records.registry.url", f"{scheme}{sign}{host}")
    option = next((each for each in _USERS if options.get(each)), "")
    if option:
        _user(found, option, options[option])
    elif in_address:
        _user(found, _URL, unquote(in_address))
    elif _TOKEN in options:
        found.put(_TOKEN, "records.registry.token", found.secret(_TOKEN, "registry_token"))
    put = found.spec["records"]["registry"]
    asked = next((name for name in ("username", "token") if name in put), "url")
    found.mapped += [(each, f"records.registry.{asked}") for each in _SOURCES if each in options]


def _user(found: Migrated, option: str, credentials: str) -> None:
    """Put a `user:password`. What is a reference of Connect's own cannot be told apart here."""
    user, sign, _ = credentials.partition(":")
    if user.startswith("${") or not sign:
        user = found.secret(option, "registry_username")
    found.put(option, "records.registry.username", user)
    found.spec["records"]["registry"]["password"] = found.secret(option, "registry_password")
