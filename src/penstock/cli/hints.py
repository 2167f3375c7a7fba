"""Commands in hints name the spec in use, so that they work when pasted.

Code below the CLI knows no spec file and says `penstock run --accept gap`; after `penstock run
shop.yaml` the hint reads `penstock run shop.yaml --accept gap`. The default spec is not named.
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
    """Return a hint whose commands name the spec in use."""
    named = _named.get()
    return _COMMAND.sub(lambda found: f"{found[0]} {named}", hint) if named else hint
