"""Processes that are measured: started, followed by their JSON lines, ended with all they started.

Invariants:
- a child is followed from its first line; what is no JSON is kept as its last words;
- `end` leaves no process of the child's tree running, also of trees whose root was killed before.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Literal

import psutil

from benchmarks.machine import ROOT
from benchmarks.meter import family

Line = dict[str, Any]
STOP_SECONDS_MAX = 60.0
LAST_WORDS_MAX = 45


class FailedError(RuntimeError):
    """A measurement that came to nothing, with the reason."""


@dataclass(slots=True)
class Child:
    """One process and its lines."""

    command: str
    process: subprocess.Popen[str]
    root: psutil.Process
    _known: set[psutil.Process] = field(default_factory=set)
    _words: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS_MAX))
    _lines: queue.Queue[Line | None] = field(default_factory=queue.Queue)

    def lines(self, patience_seconds: float = 120.0) -> Iterator[Line]:
        """Yield lines as they come, to the end. Raises FailedError after so long a silence."""
        while True:
            try:
                line = self._lines.get(timeout=patience_seconds)
            except queue.Empty as error:
                raise self.failed(f"said nothing for {patience_seconds:.0f} s") from error
            if line is None:
                return
            yield line

    def ended(self) -> None:
        """Wait for its end. Raises FailedError when that is not a good one."""
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise self.failed("did not end") from error
        if code:
            raise self.failed(f"ended with {code}")

    def stop(self) -> None:
        """Ask it to end by SIGTERM, as an operator would, and wait."""
        self.note()
        self.process.send_signal(signal.SIGTERM)
        self.ended()

    def kill(self) -> None:
        """SIGKILL the process itself; what it started is left to find out."""
        self.note()
        self.process.kill()
        self.process.wait()

    def note(self) -> None:
        """Remember the tree as it is, so that `end` finds all of it."""
        self._known.update(family(self.root))

    def end(self) -> None:
        """Kill whatever is left of the tree."""
        self.note()
        left = [each for each in self._known if each.is_running()]
        for each in left:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=STOP_SECONDS_MAX)
        self.process.wait()

    def failed(self, how: str) -> FailedError:
        """Return the error that says how it went wrong, with its last words."""
        return FailedError("\n  ".join([f"{self.command} {how}", *self._words]))

    def follow(self, stream: IO[str]) -> None:
        """Read lines until the stream ends; run in a thread."""
        with stream:
            for text in stream:
                try:
                    line = json.loads(text)
                except ValueError:
                    line = None
                if isinstance(line, dict):
                    self._lines.put(line)
                else:
                    self._words.append(text.rstrip())
        self._lines.put(None)


def start(
    command: Sequence[str],
    *,
    says: Literal["stdout", "stderr"],
    environment: Mapping[str, str],
) -> Child:
    """Start a program; its JSON lines come on one of its streams."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}
    everything = {**os.environ, **own, **environment}
    everything.pop("PYTHONDONTWRITEBYTECODE", None)  # or every start compiles all libraries again
    process = subprocess.Popen(
        command,
        env=everything,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if says == "stdout" else subprocess.DEVNULL,
        stderr=subprocess.PIPE if says == "stderr" else subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a Ctrl-C is ours to handle
    )
    child = Child(
        " ".join(command).removeprefix(f"{sys.executable} -m ")[:200],
        process,
        psutil.Process(process.pid),
    )
    stream = process.stdout if says == "stdout" else process.stderr
    assert stream is not None, "it was started with a pipe"
    threading.Thread(target=child.follow, args=(stream,), name="lines", daemon=True).start()
    return child


def now_ms() -> int:
    """Return the wall clock's epoch milliseconds, the measure of the children's own lines."""
    return time.time_ns() // 1_000_000
