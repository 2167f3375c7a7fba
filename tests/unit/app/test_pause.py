"""A pause is reported when no commit begins any more: the run that is alive has said so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.story.clock import ManualClock
from tests.story.two_lakes import spec_of

from penstock.app import pause as pausing
from penstock.app.assembly import assembly
from penstock.core.claims import Claim, Generation
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.store import Owner, PendingStore
from penstock.spec.language.quantities import length_ms
from penstock.spec.load import load
from penstock.spec.model import Pipeline

TABLE = "lake.bronze.orders"
MINUTE_MS = 60_000
RULE = "  - { from: orders, into: lake.bronze.orders, schema: { create: true } }"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load(spec_of(tmp_path, RULE))


@pytest.fixture
def store(pipeline: Pipeline) -> Iterator[PendingStore]:
    with closing(assembly.open_store(pipeline)) as opened:
        yield opened


class RunAlive(ManualClock):
    """A clock by which a run on another host confirms pauses after some waits, or never."""

    def __init__(self, store: PendingStore, confirms_after: int | None) -> None:
        super().__init__()
        self._store, self._left = store, confirms_after
        self.held = self.claim("run")

    def claim(self, name: str) -> Claim:
        return self._store.claim(
            "shop",
            Owner(name, "elsewhere", 12),
            above=Generation(0),
            now_ms=self.now_ms(),
            alive_until_ms=self.now_ms() + 3_600_000,
            takeover=True,
        )

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                (found,) = self._store.pauses("shop")
                self._store.confirm_pause("shop", self.held, found)


def test_a_pipeline_that_nobody_runs_is_paused_at_once(pipeline: Pipeline) -> None:
    clock = ManualClock()
    done = pausing.pause(pipeline, TABLE, MINUTE_MS, clock)

    assert (TABLE, clock.now_ms() + MINUTE_MS, True) == (done.table, done.until_ms, done.confirmed)
    assert [done] == pausing.pauses(pipeline, clock)
    assert [] == clock.waits
    clock.advance(60)
    assert [] == pausing.pauses(pipeline, clock)


def test_a_run_that_is_alive_is_waited_for(pipeline: Pipeline, store: PendingStore) -> None:
    clock, said = RunAlive(store, confirms_after=7), []
    done = pausing.pause(pipeline, TABLE, MINUTE_MS, clock, lambda: said.append(1))

    assert (True, 7, [1]) == (done.confirmed, len(clock.waits), said)
    clock.claim("another")
    assert [False] == [each.confirmed for each in pausing.pauses(pipeline, clock)]


def test_a_run_that_confirms_nothing_is_reported_and_the_pause_stays(
    pipeline: Pipeline, store: PendingStore
) -> None:
    clock = RunAlive(store, confirms_after=None)
    with pytest.raises(UnavailableError) as raised:
        pausing.pause(pipeline, TABLE, 10 * MINUTE_MS, clock)

    assert "P513" == raised.value.code
    assert "pid 12 on host elsewhere" in raised.value.message
    assert [False] == [each.confirmed for each in pausing.pauses(pipeline, clock)]
    assert [True, False] == [pausing.resume(pipeline, TABLE) for _ in range(2)]


@pytest.mark.parametrize("text", ["25h", "ten", "0m", "", "-1m"])
def test_a_length_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        pausing.duration_of(text)
    assert "P176" == raised.value.code
    assert 86_400_000 == pausing.duration_of("24h")


def test_a_length_is_refused_by_the_name_of_its_option() -> None:
    with pytest.raises(InvalidError, match="--wait 5x: a duration such as") as raised:
        length_ms("--wait", "5x")
    assert "P176" == raised.value.code
