"""How commands end: errors are told with their codes, and what nobody expected is a bug of ours."""

import json

import pytest

from penstock.cli.output import guarded
from penstock.core.errors import InvalidError, UnavailableError


def fail(error: BaseException):
    def act() -> int:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidError("no table", code="P185", hint="see"), 2),
        (UnavailableError("away", code="P430", hint="wait"), 75),
        (KeyboardInterrupt(), 130),
        (SystemExit(3), 3),
    ],
)
def test_an_error_ends_with_its_exit_code(error: BaseException, expected: int) -> None:
    assert expected == guarded(fail(error), [])


def test_what_nobody_expected_is_a_bug_of_ours_with_its_traceback(capsys) -> None:
    assert 70 == guarded(fail(ZeroDivisionError("by nothing")), ["--json"])

    said = capsys.readouterr()
    assert "P700" == json.loads(said.out)["error"]["code"]
    assert "Traceback" in said.err
