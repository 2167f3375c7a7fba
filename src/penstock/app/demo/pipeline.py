"""The demo's commands as processes of their own: started, watched, killed.

They are `penstock run` and `penstock publish` with `--json`, as a user would start them; what they
do is read from their logs.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import UnavailableError

Line = dict[str, Any]


@dataclass(slots=True)
class PipelineProcess:
    """One life of the pipeline, or of the publication."""

    process: subprocess.Popen[str]
    tail: list[str] = field(default_factory=list)
    _lines: queue.Queue[Line | None] = field(default_factory=queue.Queue)

    def lines(self, timeout_seconds: float) -> Iterator[Line]:
        """Yield log lines as they arrive. Raises UnavailableError when none arrives in time."""
        while True:
            try:
                line = self._lines.get(timeout=timeout_seconds)
            except queue.Empty as error:
                raise self._died(f"said nothing for {timeout_seconds:.0f} s") from error
            if line is None:
                return
            yield line

    def kill(self) -> None:
        """SIGKILL: no warning, no clean-up."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM, wait for the clean end, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise self._died("did not stop within 60 s") from error

    def follow(self) -> None:
        """Read the log until the process ends; run in a thread."""
        assert self.process.stderr is not None, "it was started with a pipe"
        for text in self.process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                self.tail = [*self.tail[-20:], text.rstrip()]
                continue
            self._lines.put(line if isinstance(line, dict) else {})
        self._lines.put(None)

    def _died(self, how: str) -> UnavailableError:
        last = f"; its last words: {' | '.join(self.tail[-3:])}" if self.tail else ""
        return UnavailableError(
            f"the demo's pipeline {how}{last}", code="P641", hint="run the demo again"
        )


def start(brokers: str, *words: str) -> PipelineProcess:
    """Start a command of Penstock with `--json`."""
    environment = {**os.environ, "DEMO_BROKERS": brokers}
    command = [sys.executable, "-m", "penstock", *words, "--json"]
    process = subprocess.Popen(  # noqa: S603  our own interpreter and module
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pipeline = PipelineProcess(process)
    threading.Thread(target=pipeline.follow, name="demo-log", daemon=True).start()
    return pipeline
