"""Commands in hints, as they work when they are pasted: with the spec that was named.

Rooms below know of no spec's file: they say `penstock run --accept gap`. Who typed `penstock run
shop.yaml` pastes `penstock run shop.yaml --accept gap`. Where nobody named a spec, the one of
`PENSTOCK_SPEC` or `penstock.yaml` is found again, and a hint stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shlex import quote

from penstock.cli.specs import ENDINGS, SPEC, SPEC_VARIABLE

_COMMAND = re.compile(
    r"\bpenstock (?:run|plan|validate|status|doctor|test|audit|peek|seek|replay|quarantine [a-z]+)"
    r"(?![\w-])(?! FILE)"
)
_named: ContextVar[str] = ContextVar("named", default="")


@contextmanager
def naming_spec_of(words: Sequence[str]) -> Iterator[None]:
    """Let hints name the spec that a command's words name, while the command goes on."""
    token = _named.set(spec_among(words))
    try:
        yield
    finally:
        _named.reset(token)


def spec_among(words: Sequence[str]) -> str:
    """Return how to name the spec of a command's words again; "" where that is not needed."""
    given = [*words]
    named = ""
    for number, word in enumerate(given):
        option, _, value = word.partition("=")
        if option == "--spec":
            named = value or "".join(given[number + 1 : number + 2])
            break
        if word.endswith(ENDINGS) and not word.startswith("-"):
            named = named or word
    if not named or Path(named) == Path(os.environ.get(SPEC_VARIABLE) or SPEC):
        return ""
    return quote(named) if named.endswith(ENDINGS) else f"--spec {quote(named)}"


def pasteable(hint: str) -> str:
    """Return a hint whose commands name the spec of the command that goes on."""
    named = _named.get()
    return _COMMAND.sub(lambda found: f"{found[0]} {named}", hint) if named else hint
