"""Commands in hints, as they work when they are pasted: with the spec that was named.

Rooms below know of no spec's file: they say `penstock run --accept gap`. Who typed `penstock run
shop.yaml` pastes `penstock run shop.yaml --accept gap`. Where nobody named a spec, the one of
`PENSTOCK_SPEC` or `penstock.yaml` is found again, and a hint stays as it is.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

_COMMAND = re.compile(
    r"\bpenstock (?:run|plan|validate|status|doctor|test|audit|peek|seek|replay|quarantine [a-z]+)"
    r"(?![\w-])(?! FILE)"
)
_named: ContextVar[str] = ContextVar("named", default="")


def name_spec(words: str) -> None:
    """Let hints name the spec by these words, until the command ends (`output.guarded`)."""
    _named.set(words)


def pasteable(hint: str) -> str:
    """Return a hint whose commands name the spec of the command that goes on."""
    named = _named.get()
    return _COMMAND.sub(lambda found: f"{found[0]} {named}", hint) if named else hint
