"""Keeps metadata files that never change, so that what a commit wrote the next one need not fetch.

Invariants:
- only files under a name that is used once are kept: what is kept is what the name will ever mean;
- a file is kept once it was read whole from the storage, or acknowledged by it;
- what is kept is bounded: those asked for last, up to so many bytes.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

BYTES_MAX = 64 << 20

_NAMED_ONCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_named_once(location: str) -> bool:
    """Return whether a file's name bears a random UUID, by which nobody else's file can have it.

    That of a directory does not count: catalogs name those of tables so, and `v1.metadata.json` in
    it is whatever was written last.
    """
    return _NAMED_ONCE.search(location.rpartition("/")[2]) is not None


class KeptFiles:
    """Bytes of files by their storage and location; safe between threads."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size_bytes = 0
        self._guard = threading.Lock()

    def get(self, storage: str, location: str) -> bytes | None:
        """Return the bytes of a file, None where they are not kept."""
        with self._guard:
            body = self._kept.get((storage, location))
            if body is not None:
                self._kept.move_to_end((storage, location))
            return body

    def keep(self, storage: str, location: str, body: bytes) -> None:
        """Keep a file that is on the storage, if its name is used once."""
        key = storage, location
        if not is_named_once(location) or len(body) > self._bytes_max:
            return
        with self._guard:
            if key not in self._kept:
                self._kept[key] = body
                self._size_bytes += len(body)
            while self._size_bytes > self._bytes_max:
                _, dropped = self._kept.popitem(last=False)
                self._size_bytes -= len(dropped)
