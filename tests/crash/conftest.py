from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.crash.field import Field
from tests.crash.kept import Kept
from tests.crash.matrix import CELLS, Cell, Fields, Histogram
from tests.crash.replies import Line, Lines
from tests.crash.rounds import Series, Tally
from tests.crash.stage import Stage

from penstock.dev.broker import Running

TALLY = pytest.StashKey[Tally]()
HISTOGRAM = pytest.StashKey[Histogram]()
SEED_SHIFT = int(os.environ.get("PENSTOCK_CRASH_SEED", "0"))
KEPT = Kept(Path(path)) if (path := os.environ.get("PENSTOCK_CRASH_KEPT")) else None
"""Where cells are kept as played; what is there of this very code is not played again."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()
    config.stash[HISTOGRAM] = Histogram()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cells that were played on the code as it is; the histogram has them."""
    played = set(KEPT.played()) if KEPT else set()
    for cell in CELLS:
        if str(cell) in played:
            config.stash[HISTOGRAM].count(cell)
    items[:] = [each for each in items if _id(each) not in played]


def _id(item: pytest.Item) -> str:
    return item.name.partition("[")[2].removesuffix("]")


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
        series.first_creation()
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

    def make(cell: Cell) -> Field:
        name = f"field{next(numbers)}-{cell.connector}"
        place = tmp_path_factory.mktemp(name) / "field"
        kind = {"keyed": cell.keyed, "rewrites": cell.rewrites}
        return Field(place, broker.bootstrap, name, cell.connector, cell.tables, **kind)

    with ExitStack() as stack:
        lines = Lines(request.getfixturevalue, broker.bootstrap, stack)

        def line(cell: Cell) -> tuple[Field, Line]:
            place = tmp_path_factory.mktemp("replies") / "field"
            return lines.field(place, cell.connector, cell.tables, cell.point, keyed=cell.keyed)

        yield Fields(make, line, histogram, KEPT)
