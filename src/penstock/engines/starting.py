"""An engine that starts while its owner does other things: Spark takes seconds to be ready.

Invariants:
- whoever first needs the engine waits for it, and is told what its start failed with;
- it is closed once it has started, also when nobody ever needed it; a start that sees that it is
  not wanted any more may leave out what is left of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import PenstockError
from penstock.ports.running import Engine


class StartingEngine:
    """An Engine whose `start` runs in a thread of its own, from now on.

    `start` is given a way to ask whether the engine is still wanted.
    """

    def __init__(self, start: Callable[[Callable[[], bool]], Engine]) -> None:
        self._closing = threading.Event()
        threads = ThreadPoolExecutor(1, thread_name_prefix="engine-start")
        self._started = threads.submit(start, lambda: not self._closing.is_set())
        threads.shutdown(wait=False)

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs once it has started; raises what its start raised, or its `run`."""
        return self._started.result().run(jobs)

    def capacity(self) -> int:
        """Give the number of jobs that run at once; raises what its start raised."""
        return self._started.result().capacity()

    def cancel(self) -> None:
        """Cancel the present run; before it has started there is none."""
        if self._started.done() and self._started.exception() is None:
            self._started.result().cancel()

    def close(self) -> None:
        """Wait until it has started, then stop it."""
        self._closing.set()
        with contextlib.suppress(PenstockError):
            self._started.result().close()
