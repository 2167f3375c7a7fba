from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.crash.rounds import Series, Tally
from tests.crash.stage import Stage

from penstock.dev.broker import Running

TALLY = pytest.StashKey[Tally]()
SEED_SHIFT = int(os.environ.get("PENSTOCK_CRASH_SEED", "0"))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    tally = config.stash[TALLY]
    if tally.rounds:
        terminalreporter.write_line(tally.line())


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Tally:
    return pytestconfig.stash[TALLY]


@pytest.fixture
def series(
    broker: Running, tmp_path_factory: pytest.TempPathFactory, tally: Tally
) -> Callable[[int, str], Series]:
    """Open a series of rounds by its seed and the master to run on."""

    def open_series(seed: int, master: str) -> Series:
        name = f"crash{seed}-{master[:5]}".replace("[", "")
        stage = Stage(tmp_path_factory.mktemp(name), broker.bootstrap, name, master)
        stage.build()
        series = Series(stage, seed + SEED_SHIFT, tally)
        series.birth()
        return series

    return open_series
