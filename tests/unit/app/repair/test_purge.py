"""What `penstock purge` finds and removes in tables of both formats, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.story.clock import ManualClock
from tests.story.two_lakes import spec_of

from penstock.app.assembly import assembly, worker
from penstock.app.repair import purge as purging
from penstock.app.repair.confirmed_change import Step
from penstock.commit.purge import PurgedRows
from penstock.core.commits import Chain, CommitKind
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.store import Pause
from penstock.ports.tables import TableDefinition
from penstock.spec.load import load
from penstock.spec.model import Pipeline
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.contracts.table_purges import FLAG, SOFT, TIME
from penstock.testing.prepared import origin, prepared

DAY_MS = 24 * 3_600_000
TABLES = ("lake.bronze.orders", "delta.bronze.orders", "delta.bronze.rewritten")
RULE = """
  - from: orders
    into: %s
    continue: %s
    mode: cdc
    keys: [id]
    operation: { field: op, map: { U: update, D: delete } }
    deletes: %s
    row_deletes: %s
    schema: { create: true, hints: { id: long } }
"""
RULES = (
    (TABLES[0], "true", "soft", "auto"),
    (TABLES[1], "true", "soft", "auto"),
    (TABLES[2], "true", "soft", "rewrite"),
    ("lake.bronze.hard", "false", "hard", "auto"),
)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load(spec_of(tmp_path, "".join(RULE % each for each in RULES)))


def filled(pipeline: Pipeline, name: str) -> list[datetime]:
    """Make a table with ids 0 to 9, of which 1, 2 and 3 were deleted that many days after 1970."""
    place, chain = assembly.place_of(pipeline, name), Chain("shop", name)
    times = [datetime.fromtimestamp(day * DAY_MS / 1000, UTC) for day in range(4)]
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        mode = RowDeleteMode.REWRITE if name == TABLES[2] else RowDeleteMode.AUTO
        definition = TableDefinition(SOFT, keys=("id",), row_deletes=mode)
        table = catalog.create(place.name, definition, [origin(chain, {0: 0})])
        state = table.state(chain)
        writer = worker.writer(place.connector)(state.target, prefix="f-", observer=Quiet())
        deleted = {number: times[number] for number in (1, 2, 3)}
        row = dict.fromkeys(SOFT.names)
        writer.write(
            batch_of(
                SOFT,
                [{**row, "id": n, FLAG: n in deleted, TIME: deleted.get(n)} for n in range(10)],
            )
        )
        given = {"uuid": state.uuid, "schema_id": state.schema_id, "kind": CommitKind.ROW_DELTA}
        commit = prepared(chain, {0: (0, 10)}, files=writer.close(), **given)
        table.commit(state, replace(commit, keys=("id",)), retain=25)
    return times


def rows_left(pipeline: Pipeline, name: str) -> int | None:
    place = assembly.place_of(pipeline, name)
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        table = catalog.load(place.name)
        assert table is not None
        return table.describe().rows


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(PenstockError) as raised:
        act()
    return raised.value.code


@pytest.mark.parametrize("name", TABLES)
def test_a_plan_says_what_a_purge_then_removes(pipeline: Pipeline, name: str) -> None:
    times, clock = filled(pipeline, name), ManualClock()
    age_ms = clock.now_ms() - 2 * DAY_MS
    found = PurgedRows(2, 1, times[1], times[2])
    plan = purging.plan_purge(pipeline, name, age_ms, clock)

    text = "2 rows in 1 file are removed, of keys deleted from 1970-01-02 00:00:00 UTC to"
    assert found == plan.found
    assert (Step(f"{name}: {text} 1970-01-03 00:00:00 UTC", destructive=True),) == plan.steps
    assert 10 == rows_left(pipeline, name)
    assert found == purging.purge(pipeline, name, age_ms, clock)
    assert 8 == rows_left(pipeline, name)
    assert () == purging.plan_purge(pipeline, name, age_ms, clock).steps
    assert PurgedRows(0, 0) == purging.purge(pipeline, name, age_ms, clock)


def test_a_plan_says_that_more_would_be_rewritten_than_one_commit_may(pipeline: Pipeline) -> None:
    filled(pipeline, TABLES[2])
    rules = [rule.model_copy(update={"rewrite_bytes_max": 1}) for rule in pipeline.tables]
    pipeline = pipeline.model_copy(update={"tables": rules})

    for act in (purging.plan_purge, purging.purge):
        assert "P265" == code_of(lambda act=act: act(pipeline, TABLES[2], DAY_MS, ManualClock()))  # type: ignore[misc]
    assert 10 == rows_left(pipeline, TABLES[2])


def test_a_table_without_soft_deletes_or_without_changes_is_refused(pipeline: Pipeline) -> None:
    def purge(name: str) -> None:
        purging.purge(pipeline, name, DAY_MS, ManualClock())

    assert "P287" == code_of(lambda: purge("lake.bronze.hard"))
    assert "P185" == code_of(lambda: purge("lake.bronze.order"))
    assert "P461" == code_of(lambda: purge(TABLES[0]))


def test_a_table_that_is_paused_is_left_alone(pipeline: Pipeline) -> None:
    filled(pipeline, TABLES[0])
    clock = ManualClock()
    now_ms = clock.now_ms()
    with closing(assembly.open_store(pipeline)) as store:
        store.pause("shop", Pause(TABLES[0], now_ms, now_ms + 60_000))

    assert purging.plan_purge(pipeline, TABLES[0], DAY_MS, clock).steps
    with pytest.raises(UnavailableError) as raised:
        purging.purge(pipeline, TABLES[0], DAY_MS, clock)
    assert "P445" == raised.value.code


@pytest.mark.parametrize("text", ["", "30", "59m", "0d", "-1d", "400d", "soon"])
def test_an_age_that_is_none_or_too_short_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        purging.age_of(text)

    assert "P286" == raised.value.code
    assert 30 * DAY_MS == purging.age_of("30d")
