"""Turns what PyIceberg, its catalogs and storage raise into our errors, by certainty.

Invariants (protocol.md 5, "Certainty"):
- ConflictError only where the catalog proved by itself that nothing was applied: SQL catalogs
  answer in this process, all others may answer for an earlier, lost delivery of the same request;
- whatever may have happened after a request left is OutcomeUnknownError, a missing table included;
- messages carry no settings of a catalog, so no secret can be in them.

Codes: P401 conflict, P402 not there, P403 file missing, P430 no answer, P431 refused, P433 outcome
unknown, P436 a feature that is not known, P438 unreadable, P480 full, P481 storage.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pydantic
from pyiceberg import exceptions as library
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from requests.exceptions import RequestException
from sqlalchemy.exc import SQLAlchemyError

from penstock.core import table_errors
from penstock.core.errors import InvalidError, PenstockError, UnavailableError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR}
_NOT_MADE = "Cannot create directory"
"""Arrow's message when it cannot make a directory, with the errno of a missing file."""
_REFUSALS = (library.ForbiddenError, library.UnauthorizedError, library.OAuthError)
_KEPT_OUT = {"28000", "28P01", "3D000", "42501"}
"""States by which PostgreSQL rejects a login: postgresql.org/docs/current/errcodes-appendix.html"""
_LOGIN = ("authentication failed", "no pg_hba.conf entry", "access denied for user")
_NUMBERED = ("sequence number", "first-row-id")
"""In the message of a catalog that rejects numbers that another writer took on a branch: that is
a moved table. Newer catalogs answer with status 409."""
_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '([^']+)'")
_SEVERAL_COLUMNS = "Multi argument transforms"
_LOCAL_REQUIREMENTS = ("Requirement failed", "Table UUID does not match")


def _optional_clients() -> tuple[type[BaseException], ...]:
    found: list[type[BaseException]] = []
    with suppress(ImportError):
        from botocore.exceptions import BotoCoreError, ClientError

        found += [BotoCoreError, ClientError]
    with suppress(ImportError):
        from thrift.Thrift import TException

        found.append(TException)
    return tuple(found)


_CLIENTS = _optional_clients()
CATALOG_ERRORS: tuple[type[BaseException], ...] = (
    library.RESTError,
    library.CommitFailedException,
    library.DynamoDbError,
    library.NoSuchTableError,
    library.NoSuchNamespaceError,
    library.NoSuchIdentifierError,
    library.NoSuchPropertyException,
    library.ValidationError,
    library.ValidationException,
    library.WaitingForLockException,
    library.SignError,
    library.ResolveError,
    library.NotInstalledError,
    SQLAlchemyError,
    OSError,  # RequestException is one
    ValueError,  # pydantic.ValidationError is one
    NotImplementedError,
    *_CLIENTS,
)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Translate errors of acts that change nothing, or nothing that matters: loads and scans."""
    try:
        yield
    except CATALOG_ERRORS as error:
        raise on_reading(name, error) from error


@contextmanager
def sending(name: str, catalog: Catalog) -> Iterator[None]:
    """Translate errors of the one request that commits."""
    try:
        yield
    except CATALOG_ERRORS as error:
        raise on_sending(name, catalog, error) from error


def on_reading(name: str, error: BaseException) -> PenstockError:
    """Return what an error means for an act that can be repeated."""
    match error:
        case library.NoSuchTableError() | library.NoSuchNamespaceError():
            return table_errors.missing(name)
        case _ if isinstance(error, _REFUSALS):
            return _refused(name, error)
        case SQLAlchemyError():
            return _database(name, error)
        case FileNotFoundError() if _NOT_MADE not in str(error):
            return table_errors.file_missing(name, _message(error))
        case OSError() if not isinstance(error, (RequestException, *_CLIENTS)):
            return _storage(name, error)
        case ValueError() | library.ValidationError():
            if feature := _unknown_feature(str(error)):
                return table_errors.unsupported(name, feature, "PyIceberg cannot read it")
            return table_errors.unreadable(f"the metadata of {name}", _message(error))
    return UnavailableError(
        f"the catalog gave no answer about {name}: {_message(error)}",
        code="P430",
        hint="see whether the catalog's address in the spec answers, then run again",
    )


def _unknown_feature(message: str) -> str:
    """Name what of the third format PyIceberg does not know, by its message; "" for all else."""
    if found := _UNKNOWN_TYPE.search(message):
        return f"a column of the type {found[1][:40]}"
    return "a partition transform of several columns" if _SEVERAL_COLUMNS in message else ""


def on_sending(name: str, catalog: Catalog, error: BaseException) -> PenstockError:
    """Return the error that says whether a commit that failed may have been applied."""
    in_process = isinstance(catalog, SqlCatalog)
    is_asserted_here = isinstance(catalog, MetastoreCatalog) and str(error).startswith(
        _LOCAL_REQUIREMENTS
    )
    match error:
        case library.CommitFailedException() if in_process or is_asserted_here:
            return table_errors.moved(name, _message(error))
        case ValueError() if in_process and not isinstance(error, pydantic.ValidationError):
            # Updates that no longer fit, such as sequence numbers.
            return table_errors.moved(name, _message(error))
        case library.NoSuchTableError() if in_process:
            return table_errors.missing(name)
        case SQLAlchemyError() if isinstance(catalog, SqlCatalog) and _definite(catalog, error):
            return _database(name, error)
        case OSError() if in_process:
            return _storage(name, error)  # the metadata file comes before the compare-and-set
        case _ if isinstance(error, _REFUSALS):
            return _refused(name, error)
        case library.BadRequestError() if not any(each in str(error) for each in _NUMBERED):
            return _refused(name, error)
    return table_errors.in_doubt(name, _message(error))


def _refused(name: str, error: BaseException) -> InvalidError:
    hint = "give the catalog's user the right to read and write the table"
    fact = f"the catalog refused access to {name}: {_message(error)}"
    return InvalidError(fact, code="P431", hint=hint)


def _definite(catalog: SqlCatalog, error: SQLAlchemyError) -> bool:
    """Return whether SQLite proved that nothing was applied: it was locked, full or read-only."""
    if catalog.engine.dialect.name != "sqlite":
        return False  # a server may have committed before its connection broke
    text = str(getattr(error, "orig", error))
    return any(sign in text for sign in ("locked", "is full", "readonly", "unable to open"))


def _database(name: str, error: SQLAlchemyError) -> PenstockError:
    raised = getattr(error, "orig", None) or error
    text = _message(raised)
    said = str(raised).lower()
    if getattr(raised, "sqlstate", None) in _KEPT_OUT or any(words in said for words in _LOGIN):
        hint = "check user, password and database in the catalog's uri"
        fact = f"the database of {name} rejected the login: {text}"
        return InvalidError(fact, code="P431", hint=hint)
    if "is full" in text:
        return table_errors.no_room(name)
    if "readonly" in text or "unable to open" in text or "not a database" in text:
        hint = "see that the file of the catalog's uri and its directory may be written"
        fact = f"the database of {name} cannot be opened for writing: {text}"
        return InvalidError(fact, code="P431", hint=hint)
    return UnavailableError(
        f"the database of {name} did not answer: {text}",
        code="P430",
        hint="see that the database in the catalog's uri answers, and what locks it; run again",
    )


def _storage(name: str, error: OSError) -> PenstockError:
    if error.errno in _FULL:
        return table_errors.no_room(name)
    denied = isinstance(error, PermissionError | NotADirectoryError) or _NOT_MADE in str(error)
    if denied or error.errno in _REFUSED:
        hint = "see that the catalog's warehouse is a directory that may be written"
        fact = f"the storage of {name} does not permit writes: {_message(error)}"
        return InvalidError(fact, code="P431", hint=hint)
    return table_errors.storage_failed(f"the storage of {name}", "reached", _message(error))


def no_room_for(database: Path, why: str) -> InvalidError:
    """Build the error for a SQLite catalog in a directory that cannot be created."""
    hint = "name a file in a directory that may be written at the catalog's uri in the spec"
    fact = f"the directory of the catalog's database {database} cannot be made: {why}"
    return InvalidError(fact, code="P431", hint=hint)


def _message(error: BaseException) -> str:
    """Return the first line of a foreign message, cut: SQL and addresses follow on later lines."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
