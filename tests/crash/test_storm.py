"""A short storm, and proof that its checkers can fail; `make storm` lets it blow for hours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from tests.storm.judgement import judged
from tests.storm.plan import Fault, digest, plan
from tests.storm.report import Report, lines
from tests.storm.stage import Stage, opened
from tests.storm.storm import LONG, SHORT, storm
from tests.storm.strangers import Strangers
from tests.storm.watch import NOWHERE, SHIFT, Standing, Watch, wrong

from penstock.testing.process import KILLED

SECONDS = float(os.environ.get("STORM_SECONDS", "30"))
SEED = int(os.environ.get("STORM_SEED", "1"))

Blown = tuple[Stage, Report]


@pytest.fixture(scope="module")
def blown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blown]:
    with opened(tmp_path_factory.mktemp("storm"), SHORT.pipes) as stage:
        yield stage, storm(stage, SHORT, SECONDS, SEED)


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_doubled_in_a_storm(blown: Blown) -> None:
    stage, report = blown
    told = "\n".join(lines(report.data()))
    print(told)

    assert [] == report.wrong, told
    assert report.judgement.records > 1_000
    assert report.looks > 2
    assert set(stage.tables) <= {table for log in report.logs.values() for table in log.commits}
    assert sum(report.faults.values()) > 10
    assert any(life.code == KILLED for log in report.logs.values() for life in log.lives)


def test_a_duplicate_planted_after_the_storm_turns_the_report_red(blown: Blown) -> None:
    stage, report = blown
    table = stage.iceberg("lake.storm.mixed")
    assert table is not None
    rows = table.scan().to_arrow()
    table.append(rows.filter(pc.is_valid(rows["_kafka_offset"])).slice(0, 1))

    assert {"doubled"} == _seen(stage)
    assert 1 == _again(stage, report).counted["doubled"]


def test_a_loss_planted_after_the_storm_turns_the_report_red(blown: Blown) -> None:
    stage, report = blown
    table = stage.delta("delta.storm.whole")
    assert table is not None
    rows = pa.table(table.to_pyarrow_table())
    gone = pc.and_(
        pc.equal(rows["_kafka_partition"], 0), pc.equal(rows["_kafka_offset"], _first(rows))
    )
    write_deltalake(
        table, rows.filter(pc.invert(pc.fill_null(gone, fill_value=False))), mode="overwrite"
    )

    assert "lost" in _seen(stage)
    again = _again(stage, report)
    assert 1 == again.counted["lost"]
    assert "RED" in lines(again.data())[0]


def test_a_file_that_nobody_knows_turns_the_report_red(blown: Blown) -> None:
    stage, report = blown
    stray = stage.place("delta.storm.split") / "stray.parquet"
    stray.write_bytes(b"PAR1")

    assert [str(stray)] == list(_again(stage, report).judgement.leftovers.unknown)


def _seen(stage: Stage) -> set[str]:
    watch = Watch(stage, every=60.0)
    with watch.watching():
        pass
    return {each.kind for each in watch.sights}


def _first(rows: pa.Table) -> int:
    return pc.min(rows.filter(pc.equal(rows["_kafka_partition"], 0))["_kafka_offset"]).as_py()


def _again(stage: Stage, report: Report) -> Report:
    lives = [life for log in report.logs.values() for life in log.lives]
    return replace(report, judgement=judged(stage, lives, Strangers(stage), spark=False))


@pytest.mark.parametrize(
    ("landed", "refused", "committed", "kind"),
    [
        ([(0, 1), (0, 2)], [], [(0, 1), (0, 2)], ""),
        ([(0, 2)], [(0, 1)], [(0, 1), (0, 2), (0, 3)], ""),
        ([(0, 1), (0, 1)], [], [(0, 1)], "doubled"),
        ([(0, 1)], [(0, 1)], [(0, 1)], "doubled"),
        ([(1, 2)], [], [(1, 1), (1, 2)], "lost"),
        ([(1, 1), (1, 2)], [], [(1, 2)], "foreign"),
    ],
)
def test_the_live_checker_finds_what_must_not_be(landed, refused, committed, kind) -> None:
    standing = Standing("t", *map(_numbered, (landed, refused, committed)), {0: 4, 1: 4})

    assert ([kind] if kind else []) == [each.kind for each in wrong(standing)]


def _numbered(those: list[tuple[int, int]]) -> np.ndarray:
    return np.array([(part << SHIFT) + at for part, at in those], np.int64) if those else NOWHERE


def test_the_same_seed_gives_the_same_storm() -> None:
    assert plan(7, 3600, LONG.paces) == plan(7, 3600, LONG.paces)
    assert digest(plan(7, 3600, LONG.paces)) != digest(plan(8, 3600, LONG.paces))


def test_a_long_storm_has_every_fault_and_one_every_few_seconds() -> None:
    gusts = plan(1, 3600, LONG.paces)

    assert set(Fault) == {each.fault for each in gusts}
    assert len(gusts) > 3600 / 5
