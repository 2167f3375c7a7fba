"""A place to measure in: a folder, a broker, children, and the end of all of them.

Invariants: whatever way the block is left (an error, Ctrl-C, SIGTERM, the time being up), broker
and children have ended and the folder is removed.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal, Never

from benchmarks import children, topics
from benchmarks.children import Child
from benchmarks.meter import cpu_seconds_of
from penstock.dev.broker import Running, down, up

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
BROKER: dict[str, str] = {
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "3600000",
}


@dataclass(slots=True)
class Scratch:
    """One place. Folders below it have short names: paths of Unix sockets are limited."""

    folder: Path
    broker: Running | None = None
    _children: list[Child] = field(default_factory=list)

    @property
    def brokers(self) -> str:
        """Start the broker when it is first needed; give its address."""
        if self.broker is None:
            self.broker = up(self.folder / "kafka", 0, properties=BROKER)
        return self.broker.bootstrap

    def broker_seconds(self) -> float:
        """Return the CPU seconds the broker has used."""
        return 0.0 if self.broker is None else cpu_seconds_of(self.broker.pid)

    def subfolder(self, name: str) -> Path:
        """Make an empty folder, in the place of one that may be there."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        topics.create(self.brokers, name, partitions)

    def start(
        self,
        *command: str,
        says: Literal["stdout", "stderr"] = "stdout",
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a module as a child of this place."""
        module = (sys.executable, "-m", *command)
        return self.program(*module, says=says, environment=environment)

    def program(
        self,
        *command: str | Path,
        says: Literal["stdout", "stderr"] = "stdout",
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start any program as a child of this place."""
        temporary = self.folder / "t"
        temporary.mkdir(exist_ok=True)
        given = {"TMPDIR": str(temporary), **(environment or {})}
        child = children.start([str(word) for word in command], says=says, environment=given)
        self._children.append(child)
        return child

    def penstock(self, spec: Path, *options: str) -> Child:
        """Start `penstock run` as a user would; its lines are those of its log."""
        return self.start("penstock", "run", str(spec), "--json", *options, says="stderr")

    def close(self) -> None:
        """End everything."""
        for child in self._children:
            child.end()
        if self.broker is not None:
            down(self.folder / "kafka")
        shutil.rmtree(self.folder, ignore_errors=True)


def stated(command: Sequence[str]) -> str:
    """Return a command as it is typed."""
    return " ".join([".venv/bin/python", "-m", "benchmarks", *command])


@contextmanager
def scratch(seconds_max: int) -> Iterator[Scratch]:
    """Open a place for at most so many seconds."""
    place = Scratch(Path(tempfile.mkdtemp(prefix="pb-")))
    before = {number: signal.signal(number, _leave) for number in SIGNALS}
    signal.alarm(seconds_max)
    try:
        yield place
    finally:
        signal.alarm(0)
        for number in (*SIGNALS, signal.SIGINT):
            before.setdefault(number, signal.getsignal(number))
            signal.signal(number, signal.SIG_IGN)  # the end is not to be broken off
        place.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> Never:
    if number == signal.SIGALRM:
        raise children.FailedError("the time for this figure is up; see  --seconds-max")
    raise SystemExit(128 + number)
