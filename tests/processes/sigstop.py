"""Processes that stop by SIGSTOP, and hold up no test."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import psutil

ENDED = frozenset("ZX")
"""The states of a thread that runs no more, as /proc/…/stat names them (proc_pid_stat(5))."""
TRIES = 100
SUSPEND_SECONDS_MAX = 60.0


def sleeps(process: psutil.Process) -> bool:
    """Return whether every thread of a process has stopped: they stop one after the other."""
    return _states(process) == {"T"}


def let_locks_go(process: psutil.Process, databases: Sequence[Path]) -> bool:
    """Let threads of a process that is being stopped end the reads and writes that they are in.

    In one it would keep the lock of a SQLite database, a reader's too, and everybody waits. False
    when the process came to its end meanwhile.
    """
    for _ in range(TRIES):
        deadline = time.monotonic() + SUSPEND_SECONDS_MAX
        while not sleeps(process):
            if not _states(process):
                return False
            assert time.monotonic() < deadline, "somebody lets it go on"
            time.sleep(0.001)
        if not any(_is_locked(path) for path in databases):
            return True
        with suppress(psutil.NoSuchProcess):
            process.resume()
            time.sleep(0.005)
            process.suspend()
    raise AssertionError("it reads and writes all the time")


def _states(process: psutil.Process) -> set[str]:
    """Return the states that the threads of a process are in: none when it has ended."""
    states = set()
    for task in Path(f"/proc/{process.pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            states.add(task.read_text().rpartition(")")[2].split()[0])
    return states - ENDED


def _is_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0.05, isolation_level=None)) as database:
        try:
            database.execute("begin exclusive")
        except sqlite3.OperationalError:
            return True
        database.execute("rollback")
        return False
