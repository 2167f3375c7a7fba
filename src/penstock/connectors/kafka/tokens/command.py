"""Tokens that a command prints.

Invariants:
- no shell is asked, and nothing is added to the command's words;
- it has ended within `COMMAND_SECONDS_MAX`, or is ended with all that it started;
- what it prints is in no error: it may hold the token.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kafka.tokens.token import (
    TOKEN_BYTES_MAX,
    Token,
    no_token,
    no_token_now,
    stated,
    token_of,
)

COMMAND_SECONDS_MAX = 10.0
_VALUES = ("access_token", "accessToken", "token")
_BY_HAND = "run it by hand, as the user and on the host of this process"


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """A command by its words: it prints a token, or JSON with it and when it expires."""

    words: tuple[str, ...]

    def fetch(self, now: float) -> Token:
        """Return a new token. Raises InvalidError (P179), UnavailableError (P178)."""
        said = _printed(self.words).strip()
        if not said.startswith("{"):
            return token_of(said, now)
        try:
            found = json.loads(said)
            value = next(found[name] for name in _VALUES if name in found)
            stated_seconds = _stated_seconds(found, now)
        except (ValueError, TypeError, OverflowError, StopIteration, RecursionError) as error:
            raise no_token(
                f"{self.words[0]} prints JSON without an access_token, or with no time for when"
                " it expires",
                hint=_BY_HAND,
            ) from error
        return token_of(str(value), now, stated_seconds=stated_seconds)


def _stated_seconds(found: Mapping[str, Any], now: float) -> float | None:
    """Return for how long a token is good: `expires_in` counts from now, `expires_on` from 1970."""
    if "expires_in" in found:
        return stated(found["expires_in"])
    return stated(found["expires_on"]) - now if "expires_on" in found else None


def _printed(words: tuple[str, ...]) -> str:
    """Return what a command prints. Raises InvalidError (P179), UnavailableError (P178)."""
    try:
        process = subprocess.Popen(  # noqa: S603  the spec's own words
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise no_token(
            f"token_command {words[0]} cannot be run: {reason}",
            hint="install it where this process runs, or correct token_command",
        ) from error
    late = threading.Timer(COMMAND_SECONDS_MAX, _end, [process])
    late.start()
    with process:
        assert process.stdout is not None, "it is a pipe"
        said = process.stdout.read(TOKEN_BYTES_MAX + 1)
        if len(said) > TOKEN_BYTES_MAX:
            _end(process)
        code = process.wait()
        in_time = late.is_alive()
        late.cancel()
    if not in_time:
        raise no_token_now(
            f"token_command {words[0]} did not end within {COMMAND_SECONDS_MAX:g} s", hint=_BY_HAND
        )
    if code and len(said) <= TOKEN_BYTES_MAX:
        raise no_token_now(f"token_command {words[0]} ended with exit code {code}", hint=_BY_HAND)
    return said.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
