"""What `penstock run` shows on a real terminal: frames, and what Ctrl-C says there."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from rich.cells import cell_len
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within
from tests.processes.broker import wait_until
from tests.processes.process import command
from tests.processes.screen import Screen

from penstock.connectors.kafka import errors

CTRL_C = b"\x03"


@dataclass(slots=True)
class Shown:
    """A run on a terminal of its own: what it has shown, and all that it ever showed."""

    process: subprocess.Popen[bytes]
    terminal: int
    screen: Screen
    frames: set[str] = field(default_factory=set)

    def until(self, seen: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            if select.select([self.terminal], [], [], 0.05)[0]:
                with suppress(OSError):  # the other end is closed
                    self.screen.feed(os.read(self.terminal, 1 << 16))
            self.frames |= set(self.screen.lines)
            return seen()

        wait_until(looked, what)

    def shows(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.screen.lines)


@contextmanager
def running(shop: Shop, width: int, *words: str, **environment: str) -> Iterator[Shown]:
    """Run a pipeline, or another command, on the terminal that Ctrl-C is typed on."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command(*(words or ("run", str(shop.path)))),
        env={**os.environ, "TERM": "xterm-256color", **environment},
        cwd=shop.directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=take_terminal,  # noqa: PLW1509  nothing of ours holds a lock over this line
    )
    os.close(theirs)
    try:
        yield Shown(process, ours, Screen(width=width, height=40))
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_run_says_what_it_waits_for_and_ctrl_c_leaves_the_table_whole(
    shop: Shop, width: int
) -> None:
    shop.send(0, 10)
    with running(shop, width, NO_COLOR="1") as run:
        run.until(lambda: run.shows("lake.shop.orders", "10"), "the first rows have landed")
        run.until(lambda: run.shows("lag 0 records"), "all have")
        os.write(run.terminal, CTRL_C)
        run.until(lambda: run.process.poll() is not None, "it has ended")
        run.until(lambda: run.shows("shop  stopped"), "its last frame is there")

    assert 0 == run.process.returncode
    assert [] == run.screen.styles
    assert any(line.startswith("waiting 0s for ") for line in run.frames)
    assert any(line.startswith("lag ? records") for line in run.frames)
    last = run.screen.lines[-8:]
    assert not any("^C" in line or "stopping" in line for line in last), last
    rows = [line for line in last if line.split()[:1] == ["lake.shop.orders"]]
    assert 1 == len(rows), last
    assert width >= max(cell_len(line) for line in run.screen.lines)


def test_a_run_without_a_terminal_that_moves_its_cursor_writes_lines_alone(shop: Shop) -> None:
    shop.send(0, 10)
    with running(shop, 80, TERM="dumb") as run:
        run.until(lambda: run.shows("epoch 1:", "10 rows"), "the first rows have landed")
        os.write(run.terminal, CTRL_C)
        run.until(lambda: run.process.poll() is not None, "it has ended")
        run.until(lambda: run.shows("stopped: asked to stop"), "it has said so")

    assert 0 == run.process.returncode
    assert [] == run.screen.styles
    assert run.shows("Stopping after the current epoch")
    assert not any(line.startswith(("lag", "waiting")) for line in run.frames)


@pytest.mark.parametrize(
    "words",
    [
        "plan {spec}",
        "init drafted.yaml --from kafka://localhost:1",
        "quarantine retry {spec} lake.shop.orders",
    ],
)
def test_a_command_that_nobody_answers_says_what_it_waits_for(shop: Shop, words: str) -> None:
    shop.spec["kafka"]["brokers"] = "localhost:1"
    given = words.format(spec=shop.path).split()
    with running(shop, 80, *given) as looking:
        looking.until(lambda: looking.shows("waiting ", " for Kafka to answer"), "it says so")
        looking.until(lambda: looking.process.poll() is not None, "it has ended")
        looking.until(lambda: looking.shows("P201"), "it has said why")

    assert not looking.shows("waiting ")


@pytest.mark.parametrize("values", [(), ("--values",)])
def test_an_audit_says_what_it_waits_for(
    shop: Shop, values: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "DOWN_SECONDS_MAX", 0.2)
    shop.spec["kafka"]["brokers"] = "localhost:1"
    found = within("audit", shop.path, *values)

    waits, *_ = found.err.splitlines()
    assert (75, "waiting for Kafka to answer") == (found.code, waits)
