"""What this process is: its clock, its randomness, its threads, its name as an owner."""

from __future__ import annotations

import os
import random  # noqa: TID251  this is where randomness comes from
import secrets
import socket
import time

from penstock.connectors.sql.owners import started_ms
from penstock.landing.epoch.commit_pool import PacedCommits
from penstock.landing.settings import CommitExecutor, CommitsAtOnce, ThreadPoolCommits
from penstock.ports.store import Owner


class SystemClock:
    """The machine's time."""

    def now_ms(self) -> int:
        """Return wall-clock epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(max(seconds, 0))


def commit_executor(at_once: CommitsAtOnce) -> CommitExecutor:
    """Return what commits so many at once, or as many as pay."""
    if at_once == "auto":
        return PacedCommits(time.monotonic, time.process_time)
    return ThreadPoolCommits(at_once)


def this_owner() -> Owner:
    """Name this run of this process."""
    return Owner(token(), socket.gethostname(), os.getpid(), started_ms(os.getpid()))


def token() -> str:
    """Return a short random text, for names of files and owners."""
    return secrets.token_hex(4)


def jitter() -> float:
    """Return a random number in 0..1."""
    return random.random()  # noqa: S311  spreads retries, guards nothing
