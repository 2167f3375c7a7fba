"""Does something over and over in a thread of its own, from entering a `with` block to leaving it.

Invariant: when the block is left, what is under way is finished, and nothing begins any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Periodic:
    """Call `act` every so many seconds; the thread bears a name, for who looks at a process."""

    def __init__(self, act: Callable[[], object], *, every_seconds: float, name: str) -> None:
        self._act = act
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self._act()
