"""Turns what deltalake and the storage raise into our errors, by certainty.

Invariants (protocol.md 5, "Certainty"):
- whatever may have happened after a write began is OutcomeUnknownError, a panic included: an
  exception may come after success;
- messages carry the first line of the library's text and no storage options, so no secret.

Codes: P401 conflict, P402 not there, P403 file missing, P430 no answer, P431 refused, P433 outcome
unknown, P436 feature, P438 unreadable, P480 disk full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.lib import ArrowException

from penstock.core import table_errors
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.files.errors import first_line, is_panic

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
        raise table_errors.missing(name) from error
    except (DeltaError, ArrowException) as error:
        raise _on_reading(name, error) from error
    except OSError as error:
        raise _no_answer(name, first_line(error)) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise _no_answer(name, first_line(error)) from error


@contextmanager
def reading_file(name: str) -> Iterator[None]:
    """Translate errors of reading a file that a table names; P403 is a missing one."""
    with reading(name):
        try:
            yield
        except FileNotFoundError as error:
            raise table_errors.file_missing(name, first_line(error)) from error


def refused(name: str, why: str) -> InvalidError | UnavailableError:
    """Build the error for a place that cannot be written: no permission, no room, no answer."""
    if any(phrase in why.lower() for phrase in _SILENT):
        return _no_answer(name, why)
    if any(phrase in why.lower() for phrase in _FULL):
        return table_errors.no_room(name)
    return InvalidError(
        f"{name} cannot be written: {why}",
        code="P431",
        hint="see that the catalog's root is a directory that may be written",
    )


def unreadable_log(name: str, error: BaseException) -> InvalidError:
    """Build the error for a damaged table log."""
    return table_errors.unreadable(f"the log of {name}", first_line(error))


def _on_reading(name: str, error: Exception) -> PenstockError:
    if all(phrase in str(error).lower() for phrase in _GONE):
        return table_errors.file_missing(name, first_line(error))
    if any(phrase in str(error).lower() for phrase in _DAMAGED):
        return unreadable_log(name, error)
    return _no_answer(name, first_line(error))


def _no_answer(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the storage gave no answer about {name}: {why}",
        code="P430",
        hint="see that the catalog's root and endpoint are right and answer, then run again",
    )
