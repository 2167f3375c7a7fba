"""Commands that print tokens, and what else commands do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from penstock.connectors.kafka.tokens import command
from penstock.connectors.kafka.tokens.command import TokenCommand
from penstock.core.errors import InvalidError, UnavailableError

NOW = 1_800_000_000.0
SECRET = "s3cret-token"


def printing(text: str) -> TokenCommand:
    return TokenCommand(("printf", "%s", text))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (f"{SECRET}\n", 300),
        (json.dumps({"access_token": SECRET, "expires_in": 60}), 60),
        (json.dumps({"accessToken": SECRET, "expires_on": NOW + 90}), 90),
        (json.dumps({"token": SECRET}), 300),
    ],
)
def test_a_token_is_taken_as_text_or_from_json(text: str, seconds: float) -> None:
    token = printing(text).fetch(NOW)

    assert (SECRET, NOW + seconds) == (token.value, token.expires_at)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", f'{{"token": "{SECRET}", "expires_in": []}}', f"{SECRET} {SECRET}"]
)
def test_what_a_command_prints_is_not_told(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        printing(text).fetch(NOW)

    assert "P179" == caught.value.code
    assert SECRET not in f"{caught.value.message}{caught.value.hint}{caught.value.__cause__}"


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidError, match="/nowhere/token cannot be run: No such file") as caught:
        TokenCommand(("/nowhere/token",)).fetch(NOW)

    assert "P179" == caught.value.code


def test_a_command_that_fails_may_succeed_later() -> None:
    with pytest.raises(UnavailableError, match="sh ended with exit code 3") as caught:
        TokenCommand(("sh", "-c", f"echo {SECRET}; exit 3")).fetch(NOW)

    assert "P178" == caught.value.code


def test_a_command_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it started holds the pipe open; it is ended, or this would wait for it."""
    monkeypatch.setattr(command, "COMMAND_SECONDS_MAX", 0.2)
    with pytest.raises(UnavailableError, match="did not end within"):
        TokenCommand(("sh", "-c", "sleep 600 & wait")).fetch(NOW)


def test_a_command_that_prints_without_end_is_ended() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('t' * 100_000)"
    with pytest.raises(InvalidError, match="too long"):
        TokenCommand((sys.executable, "-c", endless)).fetch(NOW)


def test_no_shell_reads_the_words() -> None:
    assert "$HOME;id" == printing_words("$HOME;id")


def printing_words(text: str) -> str:
    return command._printed(("printf", "%s", text))
