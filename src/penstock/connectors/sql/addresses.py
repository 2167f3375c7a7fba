"""Reads the addresses of stores; references in one with a login are resolved part by part.

Invariants:
- the value of a reference is used as it is, so a password needs no escaping in its file;
- no error shows the value of a reference.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from penstock.core.errors import InvalidError
from penstock.ports.runtime import Secrets

_SQLITE = "sqlite:///"
_DRIVER = "postgresql+psycopg"
_ADDRESS = re.compile(r"postgresql://(?:(?P<login>.*)@)?(?P<rest>[^@]+)", re.DOTALL)
_LOGIN = re.compile(r"(?P<user>(?:\$\{[^}]*\}|[^:])*)(?::(?P<password>.*))?", re.DOTALL)


def path_of(address: str) -> Path:
    """Return the path of `sqlite:///relative.db` or `sqlite:////absolute.db`.

    Raises InvalidError.
    """
    path = address.removeprefix(_SQLITE)
    if not address.startswith(_SQLITE) or not path.strip() or path == ":memory:" or "\0" in path:
        raise InvalidError(
            f"{address!r} names no SQLite file",
            code="P508",
            hint="write  pending: { store: sqlite:///./state/shop.db }",
        )
    return Path(path)


def postgresql_url(address: str, secrets: Secrets) -> URL:
    """Return `postgresql://user:password@host:port/database?option=value` as a URL.

    Raises InvalidError: P508 for another form, and what resolving a reference raises.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise _no_address()
    login = _LOGIN.fullmatch(found["login"] or "")
    assert login is not None, "the pattern takes any text"
    try:
        url = make_url(f"{_DRIVER}://{secrets.resolve(found['rest'])}")
    except (ArgumentError, ValueError) as error:
        raise _no_address() from error
    if not url.database:
        raise _no_address()
    # References resolve to plain text, anything else is escaped text.
    user, password = (
        secrets.resolve(text) if "${" in text else unquote(text)
        for text in (login["user"], login["password"] or "")
    )
    return url.set(username=user or None, password=password or None)


def _no_address() -> InvalidError:
    return InvalidError(
        "pending.store names no PostgreSQL database",
        code="P508",
        hint="write  pending: { store: 'postgresql://user:${file:/run/secrets/pw}@host/db' }",
    )
