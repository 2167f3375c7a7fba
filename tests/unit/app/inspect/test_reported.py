"""Whose words count: those of the store or of the status file, whatever clocks say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from penstock.app.inspect.reported import newest_of, status_file
from penstock.observe.snapshot import Snapshot, State, to_json
from penstock.ports.reports import Report
from penstock.spec.load import loads
from penstock.spec.model import Pipeline

NOW = 1_763_721_600_000
MINUTES = 60_000
ELSEWHERE = Snapshot("shop", State.RUNNING, NOW, NOW, generation=7, owner="b")
HERE = replace(ELSEWHERE, owner="a")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    spec = {
        "name": "shop",
        "kafka": {"brokers": "localhost:9092", "topics": ["orders"]},
        "catalogs": {"delta": {"type": "delta", "root": "./delta"}},
        "tables": [{"from": "orders", "into": "delta.shop.orders"}],
        "quarantine": {"into": "delta.ops.quarantine"},
    }
    return loads(yaml.safe_dump(spec), base=tmp_path)


def test_ages_are_by_the_clock_of_the_process_that_wrote(pipeline: Pipeline) -> None:
    """Its host's clock is ten minutes ahead; the store says that it wrote two seconds ago."""
    ahead = NOW + 10 * MINUTES
    found = newest_of(pipeline, Report(to_json(ELSEWHERE, written_ms=ahead), 2_000), NOW)

    assert found is not None
    assert (ahead + 2_000, False) == (found.now_ms, found.is_silent)


def test_a_run_that_has_said_nothing_for_long_is_silent_unless_it_ended(pipeline: Pipeline) -> None:
    ended = replace(ELSEWHERE, state=State.STOPPED)
    silent = [
        newest_of(pipeline, Report(to_json(each, written_ms=NOW), 60_000), NOW)
        for each in (ELSEWHERE, ended)
    ]

    assert [True, False] == [each.is_silent for each in silent if each is not None]


@pytest.mark.parametrize(
    ("generation", "age_ms", "owner"),
    [(8, 9_000, "b"), (6, 1_000, "a"), (7, 1_000, "b"), (7, 9_000, "a")],
)
def test_the_higher_generation_counts_then_the_newer(
    pipeline: Pipeline, generation: int, age_ms: int, owner: str
) -> None:
    status_file(pipeline).parent.mkdir(parents=True)
    status_file(pipeline).write_bytes(to_json(HERE, written_ms=NOW - 5_000))
    elsewhere = replace(ELSEWHERE, generation=generation)
    found = newest_of(pipeline, Report(to_json(elsewhere, written_ms=NOW), age_ms), NOW)

    assert found is not None
    assert owner == found.snapshot.owner
