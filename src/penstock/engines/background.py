"""An engine that starts while its owner does other things: Spark takes seconds to be ready.

Invariants:
- whoever first needs the engine waits for it, and is told what its start failed with;
- it is closed once it has started, also when nobody ever needed it;
- a start that is not wanted any more is ended, and what it then fails with is told to nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from penstock.ports.runtime import Engine


class CancellationToken:
    """Whether an engine that starts is still wanted; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []
        self._is_wanted = True

    def __call__(self) -> bool:
        """Return whether the engine is wanted."""
        return self._is_wanted

    def on_cancel(self, end: Callable[[], None]) -> None:
        """Have something ended as soon as the engine is not wanted, perhaps at once."""
        with self._lock:
            if self._is_wanted:
                self._ends.append(end)
                return
        end()

    def cancel(self) -> None:
        """Want it no more: end what is to be ended. At most once."""
        with self._lock:
            self._is_wanted = False
        for end in self._ends:
            end()


class BackgroundEngine:
    """An Engine whose `start` runs in a thread of its own, from now on."""

    def __init__(self, start: Callable[[CancellationToken], Engine]) -> None:
        self._wanted = CancellationToken()
        threads = ThreadPoolExecutor(1, thread_name_prefix="engine-start")
        self._started = threads.submit(start, self._wanted)
        threads.shutdown(wait=False)

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs once it has started; raises what its start raised, or its `run`."""
        return self._started.result().run(jobs)

    def is_ready(self, patience_seconds: float) -> bool:
        """Return whether it has started, or failed to; with patience, wait that long for it."""
        return bool(wait([self._started], timeout=patience_seconds).done)

    def capacity(self) -> int:
        """Return the number of jobs that run at once; raises what its start raised."""
        return self._started.result().capacity()

    def cancel(self) -> None:
        """Cancel the present run; before it has started there is none."""
        if self._started.done() and self._started.exception() is None:
            self._started.result().cancel()

    def close(self) -> None:
        """Stop it; a start under way is ended first. What a start failed with is not raised."""
        if not self._started.done():
            self._wanted.cancel()
        if self._started.exception() is None:
            self._started.result().close()
