from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.crash.field import Field
from tests.crash.matrix import Fields, Histogram
from tests.crash.replies import Line, Lines
from tests.crash.rounds import Series, Tally
from tests.crash.stage import Stage

from penstock.core.points import Point
from penstock.dev.broker import Running

TALLY = pytest.StashKey[Tally]()
HISTOGRAM = pytest.StashKey[Histogram]()
SEED_SHIFT = int(os.environ.get("PENSTOCK_CRASH_SEED", "0"))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()
    config.stash[HISTOGRAM] = Histogram()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    tally = config.stash[TALLY]
    if tally.rounds:
        terminalreporter.write_line(tally.line())
    if config.stash[HISTOGRAM].hits:
        for line in config.stash[HISTOGRAM].lines():
            terminalreporter.write_line(line)


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


@pytest.fixture(scope="session")
def histogram(pytestconfig: pytest.Config) -> Histogram:
    return pytestconfig.stash[HISTOGRAM]


@pytest.fixture(scope="session")
def fields(
    broker: Running,
    tmp_path_factory: pytest.TempPathFactory,
    histogram: Histogram,
    request: pytest.FixtureRequest,
) -> Iterator[Fields]:
    """Fields of the matrix, kept over its rounds."""
    numbers = itertools.count()

    def make(connector: str, tables: int) -> Field:
        name = f"field{next(numbers)}-{connector}"
        place = tmp_path_factory.mktemp(name) / "field"
        return Field(place, broker.bootstrap, name, connector, tables)

    with ExitStack() as stack:
        lines = Lines(request.getfixturevalue, broker.bootstrap, stack)

        def line(connector: str, tables: int, point: Point) -> tuple[Field, Line]:
            place = tmp_path_factory.mktemp("replies") / "field"
            return lines.field(place, connector, tables, point)

        yield Fields(make, line, histogram)
