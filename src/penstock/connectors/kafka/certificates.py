"""Makes what uses certificates, and makes it again when their files change: they are renewed.

Invariants:
- files count as changed by their place, size and time, so that a link that is turned to another
  directory counts, too;
- where the new files do not fit together, as between two writes, what was made before goes on, and
  the next change is looked at;
- what was made before is closed at the change after: whoever still uses it can finish.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_Marks = tuple[tuple[int, int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class Renewed(Generic[Made]):
    """Makes something with a client's certificates when first asked for it, and when they change.

    `failing` is what `make` raises for files that do not fit together.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        make: Callable[[], Made],
        failing: type[Exception],
        closing: Callable[[Made], object] = lambda _: None,
    ) -> None:
        self._files = [client[name] for name in _FILES if name in client]
        self._make, self._failing, self._closing = make, failing, closing
        self._made: list[Made] = []
        self._marks: _Marks = ()

    def __call__(self) -> Made:
        """Return what is made with the present files. Raises what the first making does."""
        marks = tuple(_mark(each) for each in self._files)
        if not self._made:
            self._made.append(self._make())
        elif marks != self._marks:
            self._renew()
        self._marks = marks
        return self._made[-1]

    def close(self) -> None:
        """Close what was made; it is made again when asked for."""
        while self._made:
            self._closing(self._made.pop(0))

    def _renew(self) -> None:
        try:
            self._made.append(self._make())
        except self._failing as error:
            _log.warning("changed certificates are not used yet, the former ones are: %s", error)
        while len(self._made) > 2:  # noqa: PLR2004  the present one and the one before
            self._closing(self._made.pop(0))


def _mark(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
