"""Batches of DataFrames, played: each is published once, whole, by its id."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pytest
from tests.story.observer import Crash
from tests.story.publishing import Act
from tests.story.publishing_rows import RowsWorld

from penstock.app.inspect.publications import view_of
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.publishing.batch_source import BatchSource, Kind, batch_of, run_of
from penstock.publishing.publisher import Publisher
from penstock.rows.encode.rules import MessageRules

PLAIN = MessageRules(key=("k",), bytes_of="v")


@dataclass(slots=True)
class BatchWorld(RowsWorld):
    """A program that publishes batches: a query goes on with the one that was not acknowledged."""

    def batch(
        self,
        id_: str | int,
        values: Sequence[str],
        *,
        query: str = "q",
        act: Act = lambda _: "",
        **changes: object,
    ) -> Publisher:
        """Publish rows as a run, or as a numbered batch of a query."""
        keys, texts = pa.array(["a"] * len(values), pa.string()), pa.array(values, pa.string())
        rows = pa.table({"k": keys, "v": texts})
        kind: Kind = "runs" if isinstance(id_, str) else "batches"
        batch = (
            run_of(id_, lambda: rows)
            if isinstance(id_, str)
            else batch_of(query, id_, lambda: rows)
        )
        self.table = BatchSource(kind, batch)
        return self.run(act=act, source={"dataframe": kind}, **changes)


@pytest.fixture
def world() -> BatchWorld:
    return BatchWorld()


def test_a_run_is_published_once_and_another_one_as_well(world):
    first = world.batch("monday", ["1", "2"])
    again = world.batch("monday", ["other", "rows"])
    world.batch("tuesday", ["3"])
    late = world.batch("monday", ["late"])

    assert [1, 0, 0] == [first.transactions, again.transactions, late.transactions]
    assert {b"a": [b"1", b"2", b"3"]} == world.found()


def test_batches_of_a_query_follow_each_other(world):
    world.batch(0, ["1"])
    world.batch(0, ["again"])
    world.batch(3, [])
    world.batch(4, ["2"])
    back = world.batch(2, ["late"]).error
    other = world.batch(5, ["3"], query="other").error

    assert {b"a": [b"1", b"2"]} == world.found()
    assert ["P812", "P812"] == [back.code, other.code]
    assert isinstance(back, DecisionNeededError)
    assert "the checkpoint went back" in back.message
    assert "other" in other.message

    assert world.batch(5, ["3"], query="other", accept_gap=True).error is None
    assert world.batch(6, ["4"], query="other").error is None
    assert {b"a": [b"1", b"2", b"3", b"4"]} == world.found()


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_that_is_tried_until_it_is_published_is_there_once(seed):
    """Each attempt has other rows, as a DataFrame may that is evaluated again: one is seen."""
    chance, world = random.Random(seed), BatchWorld(rules=PLAIN)

    def act(step: str) -> str:
        drawn = chance.random()
        if drawn < 0.1:
            raise Crash(step)
        return chance.choice(["", "lost", "lost request", "twice"]) if drawn < 0.3 else ""

    for number in range(4):
        done = None
        while done is None or done.error is not None:
            with suppress(Crash):
                attempt = chance.random()
                rows = [f"{number}.{attempt}.{row}" for row in range(3)]
                done = world.batch(number, rows, act=act)
    found = world.found()[b"a"]

    assert 12 == len(found)
    for number in range(4):
        own = [value.decode().rpartition(".") for value in found[3 * number : 3 * number + 3]]
        assert ["0", "1", "2"] == [row for *_, row in own]
        assert 1 == len({attempt for attempt, *_ in own})
        assert own[0][0].startswith(f"{number}.")


def test_status_of_what_no_program_gives_now(world):
    world.batch("monday", ["1", "2"])
    world.table = BatchSource("runs")
    asked = world.publisher(source={"dataframe": "runs"}).publication
    found = view_of(asked, world.ports(asked))

    assert (None, 2, 0, "DataFrames") == (
        found.problem,
        found.published,
        found.backlog,
        found.source,
    )
    with pytest.raises(InvalidError, match="not a place of DataFrames"):
        world.table.places(["earliest"])


@pytest.mark.parametrize("id_", ["", " ", None])
def test_a_run_without_an_id_is_refused(id_):
    with pytest.raises(InvalidError) as refused:
        run_of(id_, lambda: pa.table({}))

    assert "P277" == refused.value.code
    assert "P277  → give each run" in "".join(traceback.format_exception(refused.value))
