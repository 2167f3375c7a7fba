"""What each foreign error means, sorted by certainty (protocol.md 5)."""

import errno

import pytest
from pyiceberg import exceptions as library
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.noop import NoopCatalog
from requests.exceptions import ConnectionError as Reset
from requests.exceptions import ReadTimeout
from sqlalchemy.exc import OperationalError

from penstock.connectors.iceberg.errors import on_reading, on_sending
from penstock.core.errors import (
    ConflictError,
    InvalidError,
    OutcomeUnknownError,
    UnavailableError,
)

HERE = InMemoryCatalog("here")
REMOTE = NoopCatalog("remote")


def database(text):
    return OperationalError("UPDATE t", {}, ValueError(text))


@pytest.mark.parametrize(
    ("catalog", "error", "kind"),
    [
        (HERE, library.CommitFailedException("Requirement failed: x"), ConflictError),
        (HERE, library.CommitFailedException("updated by another process"), ConflictError),
        (HERE, ValueError("Cannot add snapshot with sequence number 3"), ConflictError),
        (HERE, database("database is locked"), UnavailableError),
        (HERE, database("database or disk is full"), UnavailableError),
        (HERE, database("attempt to write a readonly database"), InvalidError),
        (HERE, database("server closed the connection unexpectedly"), OutcomeUnknownError),
        (HERE, OSError(errno.ENOSPC, "No space left on device"), UnavailableError),
        (HERE, PermissionError(errno.EACCES, "no"), InvalidError),
        (HERE, FileNotFoundError(errno.ENOENT, "Cannot create directory '/x'"), InvalidError),
        (
            REMOTE,
            library.CommitFailedException("409: it may be our own success"),
            OutcomeUnknownError,
        ),
        (REMOTE, library.CommitStateUnknownException("500"), OutcomeUnknownError),
        (REMOTE, library.ServiceUnavailableError("503"), OutcomeUnknownError),
        (REMOTE, library.ServerError("507"), OutcomeUnknownError),
        (REMOTE, library.NoSuchTableError("404"), OutcomeUnknownError),
        (REMOTE, library.RESTError("408"), OutcomeUnknownError),
        (REMOTE, ReadTimeout("slow"), OutcomeUnknownError),
        (REMOTE, Reset("reset by peer"), OutcomeUnknownError),
        (REMOTE, ValueError("an answer that is no JSON"), OutcomeUnknownError),
        (REMOTE, library.ForbiddenError("403"), InvalidError),
        (REMOTE, library.BadRequestError("400"), InvalidError),
        (
            REMOTE,
            library.BadRequestError(
                "ValidationException: Cannot add snapshot with sequence number 3 older than last "
                "sequence number 3"
            ),
            OutcomeUnknownError,
        ),
        (
            REMOTE,
            library.BadRequestError(
                "ValidationException: Cannot add a snapshot, first-row-id is behind table "
                "next-row-id: 2 < 4"
            ),
            OutcomeUnknownError,
        ),
    ],
)
def test_an_error_on_commit_is_sorted_by_what_is_certain(catalog, error, kind):
    translated = on_sending("bronze.orders", catalog, error)

    assert kind is type(translated)
    assert "bronze.orders" in translated.message
    assert translated.hint


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (library.NoSuchTableError("x"), "P402"),
        (FileNotFoundError("x"), "P403"),
        (Reset("x"), "P430"),
        (library.ServerError("500"), "P430"),
        (database("database is locked"), "P430"),
        (library.UnauthorizedError("401"), "P431"),
        (database("unable to open database file"), "P431"),
        (ValueError("not metadata"), "P438"),
        (OSError(errno.EDQUOT, "quota"), "P480"),
        (OSError(errno.EIO, "bad disk"), "P481"),
    ],
)
def test_an_error_on_reading_has_one_code(error, code):
    assert code == on_reading("bronze.orders", error).code


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Unsupported field type: 'variant'", "a column of the type variant"),
        ("Multi argument transforms are not yet supported", "of several columns"),
    ],
)
def test_what_of_the_third_format_pyiceberg_cannot_read_is_named(said, named):
    error = on_reading("orders", ValueError(f"1 validation error\n{said} [type=value_error]"))

    assert "P436" == error.code
    assert named in str(error)


def test_a_long_foreign_message_is_cut_and_its_statement_left_out():
    translated = on_reading("t", database("x" * 5000))

    assert len(translated.message) < 500
    assert "UPDATE" not in translated.message


@pytest.mark.parametrize(
    ("said", "code", "exit_code"),
    [
        ('FATAL:  password authentication failed for user "shop"', "P431", 2),
        ("FATAL:  no pg_hba.conf entry for host", "P431", 2),
        ("connection failed: Connection refused", "P430", 75),
        ("connection timeout expired", "P430", 75),
    ],
)
def test_a_database_that_lets_us_not_in_is_not_one_that_does_not_answer(
    said: str, code: str, exit_code: int
) -> None:
    error = on_reading("catalog lake", database(said))

    assert (code, exit_code, True) == (error.code, error.exit_code, bool(error.hint))
    assert "database of catalog lake" in error.message
