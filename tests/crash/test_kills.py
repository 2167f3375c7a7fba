"""SIGKILL at random moments, and the oracle after each: every record once, value by value.

`make test` runs one on Spark next to its storm, `make crash` at least a hundred. Every choice comes
from the seed in the test's name; PENSTOCK_CRASH_SEED=n shifts all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.rounds import Series, Tally

OpenSeries = Callable[[int, str], Series]
INLINE = "inline"
SPARK = "local[2]"


@pytest.mark.timeout(900)
def test_a_few_kills_on_spark_lose_and_double_nothing(series: OpenSeries) -> None:
    rounds = series(2, SPARK)
    rounds.round("worker, then driver")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(101, 107))
def test_many_kills_of_the_driver_lose_and_double_nothing(series: OpenSeries, seed: int) -> None:
    rounds = series(seed, INLINE)
    for victim in ("driver", "driver", "point", "driver") * 3:
        rounds.round(victim)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(201, 204))
def test_many_kills_on_spark_lose_and_double_nothing(series: OpenSeries, seed: int) -> None:
    rounds = series(seed, SPARK)
    for victim in ("java", "worker", "driver", "java", "worker, then driver", "point") * 2:
        rounds.round(victim)


@pytest.mark.slow
def test_enough_of_the_kills_hit_while_rows_were_pending(tally: Tally) -> None:
    assert len(tally.kills) >= 100
    assert tally.pending_share >= 0.3, tally.line()
