"""An engine that starts in the background: Spark takes seconds to be ready.

Invariants:
- the first use of the engine waits for the start, and raises what the start raised;
- it is closed once it has started, even if it was never used;
- `close` cancels a start that is under way; what the start then raises is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from penstock.ports.runtime import Engine, JobResult


class CancellationToken:
    """Whether a start is cancelled, and what to call then; safe for threads."""

    def __init__(self) -> None:
        self._cancelled: Future[None] = Future()

    @property
    def is_cancelled(self) -> bool:
        """Return whether the start is cancelled."""
        return self._cancelled.done()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back once the start is cancelled, at once if it is."""
        self._cancelled.add_done_callback(lambda _: callback())

    def cancel(self) -> None:
        """Cancel the start. At most once."""
        self._cancelled.set_result(None)


class BackgroundEngine:
    """An Engine with a `start` that runs in a thread of its own, from now on."""

    def __init__(self, start: Callable[[CancellationToken], Engine]) -> None:
        self._token = CancellationToken()
        threads = ThreadPoolExecutor(1, thread_name_prefix="engine-start")
        self._started = threads.submit(start, self._token)
        threads.shutdown(wait=False)

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs once it has started; raises what its start or its `run` raises."""
        return self._started.result().run(jobs)

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs without repeating one, once it has started; raises as `run` does."""
        return self._started.result().run_once(jobs)

    def is_ready(self, patience_seconds: float) -> bool:
        """Return whether it has started, or failed to; with patience, wait that long for it."""
        return bool(wait([self._started], timeout=patience_seconds).done)

    def warm(self) -> object:
        """Run a tiny job once it has started; raises what its start raised."""
        return self._started.result().warm()

    def capacity(self) -> int:
        """Return the number of jobs that run at once; raises what its start raised."""
        return self._started.result().capacity()

    def cancel(self) -> None:
        """Cancel the present run; before it has started there is none."""
        if self._started.done() and self._started.exception() is None:
            self._started.result().cancel()

    def close(self) -> None:
        """Stop it, or cancel its start. An error of the start is not raised."""
        if not self._started.done():
            self._token.cancel()
        if self._started.exception() is None:
            self._started.result().close()
