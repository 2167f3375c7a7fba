"""Penstock processes forked from a server that has imported everything: there within milliseconds.

Invariants:
- each is a process of its own, with its own session, environment, directory, pid and signals;
- the server imports and does nothing else: no library is used before the fork;
- any thread may ask for the exit code: the server tells it once, and a second reader would get 255.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from threading import Lock
from typing import IO

from tests.processes.process import SECONDS_MAX, Finished

from penstock.cli import main

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.servers.preloaded"])


class WarmProcess:
    """One command, with what `subprocess.Popen` has of it."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path | None = None
    ) -> None:
        self._command = ("penstock", *words)
        readers, writers = zip(*(_SERVER.Pipe(duplex=False) for _ in range(2)), strict=True)
        place = str(directory or Path.cwd())
        self._process = _SERVER.Process(
            target=_live, args=(tuple(words), dict(environment), place, writers)
        )
        self._asking = Lock()
        self._process.start()
        for end in writers:
            end.close()
        self.stdout, self.stderr = (_text(end) for end in readers)

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit code, or minus the signal's number; None while it runs."""
        with self._asking:
            return self._process.exitcode

    def poll(self) -> int | None:
        """Return the same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        wait_for([self._process.sentinel], timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(self._command, timeout or 0)
        return code

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def warm_penstock(
    *words: str | Path, environment: Mapping[str, str], directory: Path | None = None
) -> Finished:
    """Run a command to its end. Raises subprocess.TimeoutExpired, after killing it."""
    whole = {**os.environ, **environment}
    process = WarmProcess([str(word) for word in words], whole, directory)
    with ThreadPoolExecutor(2) as readers, process.stdout, process.stderr:
        out, err = (readers.submit(each.read) for each in (process.stdout, process.stderr))
        try:
            code = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Finished(code, out.result(), err.result())


def _text(end: Connection) -> IO[str]:
    with end:
        return os.fdopen(os.dup(end.fileno()), encoding="utf-8", errors="replace")


def _live(
    words: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    pipes: Sequence[Connection],
) -> None:
    """Become the command: in a session of its own, with nothing to read."""
    os.setsid()
    for number, end in enumerate(pipes, start=1):
        os.dup2(end.fileno(), number)
        end.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path.insert(0, directory)  # as `python -m penstock` does
    sys.argv = ["penstock", *words]
    main()
