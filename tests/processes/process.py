"""Real penstock processes for tests: started, watched, killed; every wait has an end.

Invariants:
- what a process logs is read all the time, so it never waits for its reader;
- no process outlives its `with` block, nor do Java and the workers below it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

import psutil
from tests.processes.broker import wait_until

SECONDS_MAX = 120.0
POLL_SECONDS = 0.005
KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Reported:
    """One line of a JSON log, and when it was read (monotonic seconds)."""

    event: str
    data: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended: its exit code, or minus the signal's number, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Read what it printed as JSON; raises ValueError with all it said when it is none."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise ValueError(f"no JSON, exit code {self.code}: {self.out}{self.err}") from error


def penstock(
    *words: str | Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    seconds_max: float = SECONDS_MAX,
) -> Finished:
    """Run a command to its end. Raises subprocess.TimeoutExpired, after killing it."""
    done = subprocess.run(
        command(*words),
        env={**os.environ, **(environment or {})},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def command(*words: str | Path) -> list[str]:
    """Return the command line of penstock in this interpreter."""
    return [sys.executable, "-m", "penstock", *map(str, words)]


class Process(Protocol):
    """What is needed of a process that was started."""

    stdout: IO[str] | None
    stderr: IO[str] | None

    @property
    def pid(self) -> int:
        """Return the process id."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str]], Process]
"""Starts a command in a session of its own, by its words and its whole environment."""


def _cold(words: Sequence[str], environment: Mapping[str, str]) -> Process:
    return subprocess.Popen(
        command(*words),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


class Driver:
    """One `penstock run SPEC --json` in a process group of its own. Use it in a `with` block.

    `verb` are the words before the spec.
    """

    def __init__(
        self,
        spec: Path,
        *words: str,
        environment: Mapping[str, str] | None = None,
        start: Start | None = None,
        verb: Sequence[str] = ("run",),
    ) -> None:
        self.began = time.monotonic()
        self.reported: list[Reported] = []
        self.lines: list[str] = []
        whole = {**os.environ, **(environment or {})}
        self._process = (start or _cold)((*verb, str(spec), "--json", *words), whole)
        self._own = psutil.Process(self._process.pid)
        self._seen: set[psutil.Process] = set()
        self._out: list[str] = []
        self._readers = [self._reading(self._read_log), self._reading(self._read_out)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.family()
        self._process.kill()
        self._process.wait()
        for process in self._seen:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for reader in self._readers:
            reader.join(timeout=SECONDS_MAX)

    @property
    def pid(self) -> int:
        """Return the process id of the driver."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether the driver is there."""
        return self._process.poll() is None

    def count(self, event: str) -> int:
        """Count the events of a name reported so far."""
        return sum(each.event == event for each in list(self.reported))

    def wait_for(self, event: str, count: int = 1, *, seconds_max: float = SECONDS_MAX) -> Reported:
        """Wait until an event was reported a number of times; give the last of these.

        Raises TimeoutError when the process ends before, or the time is up.
        """
        self.wait_until(lambda: self.count(event) >= count, event, seconds_max=seconds_max)
        return [each for each in self.reported if each.event == event][count - 1]

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, seconds_max: float = SECONDS_MAX
    ) -> None:
        """Wait for a condition while the process runs. Raises TimeoutError otherwise."""
        deadline = time.monotonic() + seconds_max
        while not condition():
            if not self.running:
                ended = self.end()
                if condition():
                    return
                raise TimeoutError(
                    f"it ended with {ended.code} before {what}\n{self.log}{ended.out}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds_max} s: {what}\n{self.log}")
            time.sleep(POLL_SECONDS)

    def end(self, seconds_max: float = SECONDS_MAX) -> Finished:
        """Wait for the end. Raises TimeoutError with the log when it does not come."""
        try:
            code = self._process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it did not end in {seconds_max} s\n{self.log}") from None
        for reader in self._readers:
            reader.join(timeout=seconds_max)
        return Finished(code, "".join(self._out), "".join(self.lines))

    @property
    def log(self) -> str:
        """Return the end of what was logged."""
        return "".join(self.lines[-40:])

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the driver alone."""
        self._process.send_signal(number)

    def interrupt_group(self) -> None:
        """Press Ctrl-C: SIGINT to the driver's whole process group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Send SIGKILL to the driver alone, and wait until it is gone."""
        self.family()
        self._process.kill()
        self._process.wait()

    def family(self) -> set[psutil.Process]:
        """Return all processes below the driver that were ever seen and still run."""
        with suppress(psutil.NoSuchProcess):
            self._seen |= set(self._own.children(recursive=True))
        return {process for process in self._seen if _runs(process)}

    def java(self) -> psutil.Process | None:
        """Return the Java process of Spark, once it is there: one that archives classes is below a
        process of its own.
        """
        own = self._own.pid
        return next(
            (each for each in self.family() if _name(each) == "java" and _parent(each) == own), None
        )

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers: children of the daemon that Java has started."""
        java = self.java()
        daemons = [] if java is None else _children(java)
        return [worker for daemon in daemons for worker in _children(daemon)]

    def wait_until_nothing_is_left(self) -> None:
        """Wait until all below the driver has ended by itself. Raises TimeoutError."""
        wait_until(lambda: not self.family(), "Java and workers have ended")

    def _reading(self, body: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        return thread

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self._out.extend(stream)

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self.lines.append(line)
                reported = _event(line)
                if reported is not None:
                    self.reported.append(reported)


@contextmanager
def paused(process: psutil.Process) -> Iterator[None]:
    """Hold a process by SIGSTOP, and let it go on."""
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def _event(line: str) -> Reported | None:
    try:
        data = json.loads(line)
        return Reported(data["event"], data, time.monotonic())
    except (ValueError, KeyError, TypeError):
        return None


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []
