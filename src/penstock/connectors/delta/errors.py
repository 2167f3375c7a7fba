"""Turns what deltalake and the storage raise into our errors, by certainty.

Invariants (protocol.md 5, "Certainty"):
- whatever may have happened after a write began is OutcomeUnknownError, a panic included: an
  exception may come after success;
- messages carry the first line of the library's text and no storage options, so no secret.

Codes: P401 conflict, P402 not there, P403 file gone, P430 no answer, P431 refused, P433 outcome
unknown, P436 feature, P438 unreadable, P480 disk full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.lib import ArrowException

from penstock.core.errors import (
    ConflictError,
    InvalidError,
    OutcomeUnknownError,
    PenstockError,
    UnavailableError,
)
from penstock.files.errors import is_panic, told

_DAMAGED = (
    "json error",
    "parquet error",
    "protocol",
    "invalid",
    "expected",
    "missing",
    "failed to parse",
)
_FULL = ("no space left", "disk quota exceeded")
_SILENT = ("network_connection", "error sending request")
_GONE = ("object at location", "not found")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Translate errors of acts that change nothing, or nothing that matters."""
    try:
        yield
    except TableNotFoundError as error:
        raise not_there(name) from error
    except (DeltaError, ArrowException) as error:
        raise _on_reading(name, error) from error
    except OSError as error:
        raise _no_answer(name, told(error)) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise _no_answer(name, told(error)) from error


def not_there(name: str) -> UnavailableError:
    """Build the error for a table that does not exist."""
    return UnavailableError(
        f"the table {name} is not there",
        code="P402",
        hint="restore it, or take it out of the spec",
    )


def moved(name: str, why: str) -> ConflictError:
    """Build the error for a commit that was certainly not applied."""
    return ConflictError(
        f"{name} moved since it was examined: {why}",
        code="P401",
        hint="it is examined again; nothing has to be done",
    )


def in_doubt(name: str, why: str) -> OutcomeUnknownError:
    """Build the error for a commit that may have been applied."""
    return OutcomeUnknownError(
        f"the commit to {name} got no clear answer: {why}",
        code="P433",
        hint="the table is read again to find out; nothing was deleted",
    )


def refused(name: str, why: str) -> InvalidError | UnavailableError:
    """Build the error for a place that cannot be written: no permission, no room, no answer."""
    if any(phrase in why.lower() for phrase in _SILENT):
        return _no_answer(name, why)
    if any(phrase in why.lower() for phrase in _FULL):
        return UnavailableError(
            f"no room is left to write {name}",
            code="P480",
            hint="free some space on that disk, then run again; nothing was committed",
        )
    return InvalidError(
        f"{name} cannot be written: {why}",
        code="P431",
        hint="see that the catalog's root is a directory that may be written",
    )


def unreadable(name: str, error: BaseException) -> InvalidError:
    """Build the error for a damaged table log."""
    return InvalidError(
        f"the log of {name} cannot be read: {told(error)}",
        code="P438",
        hint="see whether the table's other readers can read it, and restore it if not",
    )


def _on_reading(name: str, error: Exception) -> PenstockError:
    if all(phrase in str(error).lower() for phrase in _GONE):
        return _file_gone(name, error)
    if any(phrase in str(error).lower() for phrase in _DAMAGED):
        return unreadable(name, error)
    return _no_answer(name, told(error))


def _file_gone(name: str, error: BaseException) -> UnavailableError:
    return UnavailableError(
        f"a file of {name} is gone: {told(error)}",
        code="P403",
        hint="restore the file, or the table to a version without it",
    )


def _no_answer(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the storage gave no answer about {name}: {why}",
        code="P430",
        hint="see that the catalog's root and endpoint are right and answer, then run again",
    )
