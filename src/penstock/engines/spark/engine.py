"""Run jobs as Spark tasks: one batch job per run, one task per job, text in and text out.

Invariants:
- exactly one result for each job, in order, whatever Spark retried or ran twice;
- a run is submitted by the thread that calls it, under a tag of its own;
- a session that was not started here is not stopped here;
- every error of Spark, Py4J or Java is translated here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError
from penstock.engines.spark.attempts import seen_to_run_once
from penstock.engines.spark.failures import java_gone, job_failed, results_too_large
from penstock.engines.spark.release import require_release
from penstock.engines.spark.session import STOP_SECONDS_MAX, OwnSession, start_session
from penstock.engines.spark.settings import (
    BROADCAST_KEY,
    BROADCAST_NEVER,
    DAEMON_KEY,
    DAEMON_MODULE,
    RESULT_BYTES_KEY,
    SparkSettings,
    is_local,
)
from penstock.engines.spark.task import OUTCOME_COLUMNS, error_from_text, perform, perform_once
from penstock.engines.spark.versions import REPORT_VERSIONS, versions_here
from penstock.engines.work import LANDING_WORK, cancelled
from penstock.ports.runtime import JobResult

CANCEL_AGAIN_SECONDS = 0.2
CANCEL_ROUNDS_MAX = 150
DEATH_SECONDS_MAX = 5.0
WARMING_JOBS_MAX = 64
SLOWER = (
    "Workers start with PySpark's own daemon, so a tiny job takes about four times as "
    f"long: start the session with {DAEMON_KEY}={DAEMON_MODULE}."
)


@dataclass(frozen=True, slots=True)
class _Run:
    """What `cancel` must know of one call of `run`."""

    tag: str
    thread: int = field(default_factory=threading.get_ident)
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class SparkEngine:
    """An Engine on Spark: starts a session from `settings`, or uses a running classic `session`.

    `remarks` says what makes a given session slower than our own, `is_local` whether workers run on
    this machine alone; `launched` gets what ends a start (`start_session`). Raises what
    `start_session` and `require_classic` raise.
    """

    def __init__(
        self,
        session: Any = None,
        *,
        settings: SparkSettings | None = None,
        work: str = LANDING_WORK,
        launched: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        assert session is None or settings is None, "a running session has its settings already"
        self._own: OwnSession | None = None
        if session is None:
            self._own = start_session(settings or SparkSettings(), launched)
            session = self._own.spark
        else:
            require_classic(session)
        self._spark = session
        self._context = session.sparkContext
        self._work = work
        self._runs = itertools.count(1)
        self._under_way: set[_Run] = set()
        self._pickling = threading.Lock()
        self.is_local = is_local(str(self._context.master))
        self._versions = {} if self.is_local else versions_here()
        own_daemon = self._context.getConf().get(DAEMON_KEY, "") == DAEMON_MODULE
        self.remarks = () if own_daemon else (SLOWER,)

    def warm(self) -> SparkEngine:
        """Run a tiny job, so that the first real one finds workers and a warm Java.

        Closes the engine when that fails; raises what `versions` raises.
        """
        try:
            self.versions()
        except PenstockError:
            self.close()
            raise
        return self

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs; one result for each, in order.

        Raises the first PenstockError in job order that a job ended with; UnavailableError when
        Java has ended (P601), the run was cancelled (P605), workers died (P606) or Spark gave up
        (P609); InvalidError for results too large (P607) or executors that differ from the driver
        (P608); BugError for anything else a worker raised (P710).
        """
        return self._perform(self._work, jobs) if jobs else []

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs; a later attempt at a task does no work. Raises what `run` raises.

        Where Spark does not show within 2 s how the tasks ran, no job counts as run once.
        """
        if not jobs:
            return []
        with self._running() as current:
            texts = self._collect(current, perform_once, self._work, jobs)
            with self._translated(current):
                tracker = self._context._jsc.sc().statusTracker()  # noqa: SLF001 - Python's knows no tags
                once = seen_to_run_once(tracker, current.tag, len(jobs), current.cancelled.wait)
        return [JobResult(text, ran_once=once and text is not None) for text in texts]

    def versions(self) -> Sequence[dict[str, str]]:
        """Return the versions of the workers, by one tiny job; raises what `run` raises."""
        answers = self._perform(REPORT_VERSIONS, [""] * min(self.capacity(), WARMING_JOBS_MAX))
        return [json.loads(answer) for answer in sorted(set(answers))]

    def is_ready(self, patience_seconds: float) -> bool:
        """Return True: it was started when it was created."""
        del patience_seconds
        return True

    def capacity(self) -> int:
        """Return the number of jobs that run at once: cores here, or of the executors known now."""
        with self._translated(None):
            return max(1, int(self._context.defaultParallelism))

    def cancel(self) -> None:
        """Cancel all runs and wait, at most 30 s for each, until they have ended; from any thread.

        Its tasks may continue for about 3 s: files they write are leftovers. Called by the
        submitting thread itself (a signal handler), it does not wait: `run` raises P605 soon.
        """
        under_way = [*self._under_way]
        for current in under_way:
            current.cancelled.set()
        for current in under_way:
            if current.thread == threading.get_ident():
                # Py4J has one connection for each thread, and this one's waits for the answer
                threading.Thread(target=self._press, args=(current,), daemon=True).start()
            else:
                self._press(current)

    def close(self, patience_seconds: float = STOP_SECONDS_MAX) -> None:
        """Stop the session if it was started here; Java is killed when that takes too long."""
        if self._own is not None:
            self._own.stop(patience_seconds)
            self._own = None

    def _perform(self, work: str, jobs: Sequence[str]) -> Sequence[str]:
        with self._running() as current:
            texts = self._collect(current, perform, work, jobs)
        results = [text for text in texts if text is not None]
        assert len(results) == len(jobs), "each attempt does its work"
        return results

    @contextlib.contextmanager
    def _running(self) -> Iterator[_Run]:
        current = _Run(f"penstock-{os.getpid()}-{id(self)}-{next(self._runs)}")
        self._under_way.add(current)
        try:
            yield current
        finally:
            self._under_way.discard(current)
            current.ended.set()

    def _collect(
        self, current: _Run, task: Callable[..., Any], work: str, jobs: Sequence[str]
    ) -> Sequence[str | None]:
        from py4j.protocol import Py4JError

        with self._translated(current):
            if self._context._jsc is None:  # noqa: SLF001 - pyspark's own mark of a stopped context
                raise java_gone("the session was stopped")
            bytes_max = result_bytes_max(self._context._conf)  # noqa: SLF001 - the session's
            self._context.addJobTag(current.tag)
            numbers = self._spark.range(0, len(jobs), 1, len(jobs))
            body = partial(task, self._versions, work, tuple(jobs))
            try:
                with self._pickling, _pickled_whole(self._context._conf):  # noqa: SLF001 - the one that counts
                    outcomes = numbers.mapInArrow(body, OUTCOME_COLUMNS)
                rows: Sequence[Any] = outcomes.collect()
            except (KeyboardInterrupt, Py4JError, OSError) as error:
                if _is_interrupt(error):
                    self._ask_to_cancel(current)
                    raise KeyboardInterrupt from error
                raise
        return _results(rows, len(jobs), bytes_max)

    def _press(self, current: _Run) -> None:
        """Cancel until the run has ended: its job may not have been submitted yet at first."""
        for _ in range(CANCEL_ROUNDS_MAX):
            if not self._ask_to_cancel(current) or current.ended.wait(CANCEL_AGAIN_SECONDS):
                return

    def _ask_to_cancel(self, current: _Run) -> bool:
        """Cancel by tag; return False when Spark has ended."""
        from py4j.protocol import Py4JError

        if self._context._jsc is None:  # noqa: SLF001 - the session was stopped
            return False
        try:
            self._context.cancelJobsWithTag(current.tag)
        except (Py4JError, OSError):
            return False
        return True

    @contextlib.contextmanager
    def _translated(self, current: _Run | None) -> Iterator[None]:
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            try:
                text = str(error)  # Java is asked for it
            except (Py4JError, OSError) as silence:
                raise self._gone() from silence
            if current is not None and current.cancelled.is_set():
                raise cancelled() from error
            raise job_failed(text) from error
        except (Py4JError, OSError, EOFError) as error:
            raise self._gone() from error
        finally:
            if current is not None and self._context._jsc is not None:  # noqa: SLF001
                with contextlib.suppress(Py4JError, OSError):
                    self._context.removeJobTag(current.tag)

    def _gone(self) -> UnavailableError:
        own = self._own
        if own is None or own.is_alive(patience_seconds=DEATH_SECONDS_MAX):
            return java_gone()
        return java_gone(own.output.last_error())


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether SIGINT caused an error: pyspark may fail as it passes through."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def require_classic(session: object) -> None:
    """Raise InvalidError unless an object is a running classic Spark session (P604) of a release
    that is supported (P298).
    """
    kind = type(session)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise InvalidError(
            "A Spark Connect session cannot run workers: tags, daemon and context are out of reach "
            "there.",
            code="P604",
            hint="pass a classic session (unset SPARK_REMOTE), or let penstock start its own",
        )
    from pyspark.sql import SparkSession

    if not isinstance(session, SparkSession):
        raise InvalidError(
            f"A {kind.__module__}.{kind.__qualname__} is not a Spark session.",
            code="P604",
            hint="pass a pyspark.sql.SparkSession",
        )
    require_release(session.version)


@contextlib.contextmanager
def _pickled_whole(conf: Any) -> Iterator[None]:
    """Send jobs of any size in the task: a broadcast would leave its file until the session ends.

    PySpark reads the live SparkConf whenever it pickles. A given session without the setting is
    changed meanwhile, also for others that pickle.
    """
    if conf.contains(BROADCAST_KEY):
        yield
        return
    conf.set(BROADCAST_KEY, BROADCAST_NEVER)
    try:
        yield
    finally:
        conf._jconf.remove(BROADCAST_KEY)  # noqa: SLF001 - SparkConf has no remove


def result_bytes_max(conf: Any) -> int | None:
    """Return how many bytes of results the driver accepts, by its SparkConf; None: any."""
    size: int = conf._jconf.getSizeAsBytes(RESULT_BYTES_KEY, "1g")  # noqa: SLF001 - Spark's default
    return size or None


def _results(rows: Sequence[Any], jobs: int, bytes_max: int | None) -> Sequence[str | None]:
    """Return results in order, None where a later attempt did no work.

    Raises the first error among them, or P607, P712.
    """
    by_job = {int(row["job"]): row for row in rows}
    if len(rows) != jobs or by_job.keys() != set(range(jobs)):
        raise BugError(
            f"{jobs} jobs gave {len(rows)} results for {len(by_job)} of them.",
            code="P712",
            hint="report it",
        )
    outcomes = [by_job[number] for number in range(jobs)]
    for row in outcomes:
        if row["error"] is not None:
            raise error_from_text(row["error"])
    size = sum(len(row["result"] or "") for row in outcomes)
    if bytes_max is not None and size > bytes_max:
        raise results_too_large(f": {size} characters, at most {bytes_max}")
    return [row["result"] for row in outcomes]
