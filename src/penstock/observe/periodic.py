"""Call a function again and again in a thread, inside a `with` block.

Invariant: when the block is left, a call in progress is finished, and no other one starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def periodic(act: Callable[[], object], *, every_seconds: float, name: str) -> Iterator[None]:
    """Call `act` every so many seconds; the thread has a name, to be seen in a process."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(every_seconds):
            act()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
