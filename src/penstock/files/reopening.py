"""Opens clients with secrets, and opens them again when these change: passwords rotate.

Invariants:
- a secret is kept here as a digest only;
- code that still uses the former object can finish: it is closed at the change after.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from penstock.core.errors import InvalidError
from penstock.ports.runtime import Secrets

Opened = TypeVar("Opened")


class Reopening(Generic[Opened]):
    """Opens something with settings when it is first asked for, and again when a reference in them
    resolves to another text. Thread-safe.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        secrets: Secrets,
        opening: Callable[[], Opened],
        closing: Callable[[Opened], object] = lambda _: None,
    ) -> None:
        self._settings, self._secrets = settings, secrets
        self._opening, self._closing = opening, closing
        self._guard = threading.Lock()
        self._mark = b""
        self._opened: list[Opened] = []

    def __call__(self) -> Opened:
        """Return what is open. Raises what opening does."""
        with self._guard:
            mark = self._current_mark()
            if mark != self._mark or not self._opened:
                self._opened.append(self._opening())
                self._mark = mark
            while len(self._opened) > 2:  # noqa: PLR2004  the present one and the one before
                self._closing(self._opened.pop(0))
            return self._opened[-1]

    def close(self) -> None:
        """Close what is open."""
        with self._guard:
            while self._opened:
                self._closing(self._opened.pop(0))

    def _current_mark(self) -> bytes:
        try:
            text = json.dumps(_resolved(self._settings, self._secrets), sort_keys=True)
        except InvalidError:
            if self._opened:  # a file that is just being rewritten
                return self._mark
            raise
        return hashlib.sha256(text.encode()).digest()


def _resolved(value: Any, secrets: Secrets) -> Any:
    match value:
        case str():
            return secrets.resolve(value)
        case Mapping():
            return {str(key): _resolved(each, secrets) for key, each in value.items()}
        case list() | tuple():
            return [_resolved(each, secrets) for each in value]
        case _:
            return str(value)
