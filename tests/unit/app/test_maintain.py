"""What `penstock maintain` does to tables of both formats, without a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.unit.app.inspect.test_maintenance import (
    DELTA,
    LAKE,
    delta_orders,
    fill,
    fill_more,
    pipeline,
    spec,
)

from penstock.app.assembly import assembly, copying_worker, worker
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.maintenance import plan_maintenance
from penstock.app.maintain import maintain as maintain_with
from penstock.cli.maintain import maintain
from penstock.cli.output import guarded
from penstock.commit import rearranging
from penstock.connectors.iceberg import connector as iceberg
from penstock.core.commits import Chain
from penstock.core.maintenance import MaintenanceAct
from penstock.engines.inline import InlineEngine
from penstock.engines.work import COPYING_WORK
from penstock.ports.store import Pause
from penstock.spec.model import Pipeline
from penstock.testing.contracts.table_fixture import Quiet, batch_of

__all__ = ["pipeline", "spec"]  # fixtures
ROWS = ("DE", "AT", "DE", None, "AT", "DE")


def rows(pipeline: Pipeline, name: str) -> list[tuple[int, str | None]]:
    """Read id and name of all rows by the format's own reader."""
    if name == DELTA:
        found = pa.table(DeltaTable(delta_orders(pipeline)).scan())
    else:
        settings = {"uri": pipeline.catalogs["lake"].uri}  # type: ignore[union-attr]
        found = load_catalog("lake", type="sql", **settings).load_table("bronze.orders").scan()
        found = found.to_arrow()
    return sorted((row["id"], row["name"]) for row in found.to_pylist())


def files(pipeline: Pipeline, name: str) -> int:
    [found] = plan_maintenance(pipeline, [name]).tables
    assert found.health is not None
    return found.health.files


@pytest.mark.parametrize("name", [LAKE, DELTA])
def test_what_the_plan_says_is_done_partition_by_partition(
    pipeline: Pipeline, spec: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, name, *ROWS)
    before = rows(pipeline, name)

    code = guarded(lambda: maintain(name, spec=spec, yes="shop"), [])

    out, err = capsys.readouterr()
    assert 0 == code
    assert f"{name}: 5 files, " in err
    assert f"{name}  5 files written again as 2 in 1 commit, " in out
    assert before == rows(pipeline, name) == [*enumerate(ROWS)]
    [found] = plan_maintenance(pipeline, [name]).tables
    assert (3, ()) == (files(pipeline, name), found.groups)


def test_without_consent_nothing_is_done(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, *ROWS)

    codes = [
        guarded(lambda: maintain(LAKE, spec=spec), []),
        guarded(lambda: maintain(LAKE, spec=spec, yes="other"), []),
    ]

    err = capsys.readouterr().err
    assert [0, 2] == codes
    assert "To apply this:  --yes shop" in err
    assert "P171" in err
    assert len(ROWS) == files(pipeline, LAKE)


def test_the_json_has_the_plan_and_what_was_done(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, DELTA, *ROWS)

    code = guarded(lambda: maintain(DELTA, spec=spec, yes="shop", json=True), [])

    data = json.loads(capsys.readouterr().out)
    [planned], [table] = data["tables"], data["done"]
    assert (0, 0, 2) == (code, data["exit_code"], len(planned["groups"]))
    assert (DELTA, []) == (table["table"], table["errors"])
    assert {"groups": 2, "files_before": 5, "files_after": 2, "commits": 1, "given_up": 0} == {
        key: table["done"][key]
        for key in ("groups", "files_before", "files_after", "commits", "given_up")
    }


def test_a_table_that_was_rolled_back_holds_up_no_other(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, "a", "a")
    fill(pipeline, DELTA, "a", "a", "a")
    DeltaTable(delta_orders(pipeline)).restore(2)

    code = guarded(lambda: maintain(DELTA, LAKE, spec=spec, yes="shop"), [])

    out = capsys.readouterr().out
    assert 4 == code
    assert "  left alone  P455  " in out
    assert 1 == out.count(" → 1 file, about "), "nothing is promised of what is left alone"
    assert f"{LAKE}  2 files written again as 1 in 1 commit, " in out
    assert 2 == files(pipeline, DELTA)


def test_a_table_that_is_paused_waits(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, "a", "a")
    with closing(assembly.open_store(pipeline)) as store:
        store.pause("shop", Pause(LAKE, 0, 1 << 45))

    code = guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])

    assert 75 == code
    assert f"{LAKE}  P445  " in capsys.readouterr().out
    assert 2 == files(pipeline, LAKE)


def test_files_of_a_former_layout_are_written_in_the_present_one(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, *ROWS, partition_by="bucket(1, id)")
    settings = {"uri": pipeline.catalogs["lake"].uri}  # type: ignore[union-attr]
    foreign = load_catalog("lake", type="sql", **settings).load_table("bronze.orders")
    with foreign.update_spec() as change:
        change.remove_field("id_bucket")
        change.add_identity("name")

    code = guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])

    assert 0 == code
    assert f"{LAKE}  6 files written again as 3 in 1 commit, " in capsys.readouterr().out
    assert [*enumerate(ROWS)] == rows(pipeline, LAKE)
    partitions = foreign.refresh().inspect.partitions().to_pylist()
    assert [None, "AT", "DE"] == sorted(
        (each["partition"]["name"] for each in partitions), key=lambda each: each or ""
    )


def test_rows_with_ids_are_maintained_like_others(
    pipeline: Pipeline,
    spec: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(pipeline, LAKE, "a", "a", properties={"format-version": "3"})
    later = SystemClock().now_ms() + 9 * DAY_MS
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: later)

    code = guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])

    out = capsys.readouterr().out
    assert 0 == code
    assert f"{LAKE}  2 files written again as 1 in 1 commit" in out
    assert f"{LAKE}  1 snapshot expired" in out


def test_with_other_acts_alone_a_table_is_not_called_well(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, "a", "a")

    assert 0 == guarded(lambda: maintain(LAKE, spec=spec, only=("expire",), dry_run=True), [])
    assert f"{LAKE}  2 files where 1 would do, in 1 group; " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("only", "second"),
    [((), ["nothing to sweep"]), (("sweep",), ["nothing to sweep"]), (("expire",), [])],
)
def test_of_all_shards_the_first_lists_files_and_the_others_sweep_their_own(
    pipeline: Pipeline,
    spec: Path,
    capsys: pytest.CaptureFixture[str],
    only: tuple[str, ...],
    second: list[str],
) -> None:
    fill(pipeline, DELTA, "a", "a")
    spec.write_text(f"shards: 2\n{spec.read_text()}")

    code = guarded(lambda: maintain(DELTA, spec=spec, only=only, dry_run=True, shard="all"), [])

    out = capsys.readouterr().out
    assert 0 == code
    found = [each.partition("  ")[2] for each in out.splitlines() if each.startswith(DELTA)]
    assert second == found[1:]


DAY_MS = 86_400_000


def aged(pipeline: Pipeline, days: int) -> None:
    """Let files on storage, and notes of them, be older by some days."""
    root = Path(pipeline.catalogs["lake"].warehouse.removeprefix("file://"))  # type: ignore[union-attr]
    for each in root.rglob("*.*"):
        if each.is_file():
            os.utime(each, (each.stat().st_atime, each.stat().st_mtime - days * 86_400))
    for notes in root.rglob("unnamed-shop.json"):
        data = json.loads(notes.read_text())
        data["notes"] = [[at - days * DAY_MS, *rest] for at, *rest in data["notes"]]
        notes.write_text(json.dumps(data))


def orphaned(pipeline: Pipeline) -> str:
    """Write a file that no commit names."""
    place = assembly.place_of(pipeline, LAKE)
    with closing(assembly.open_catalog(pipeline, place.catalog, Quiet())) as catalog:
        table = catalog.load(place.name)
        assert table is not None
        state = table.state(Chain("shop", LAKE))
        prefix = "shop-9-0-0c0ffee9"
        writer = worker.writer(place.connector)(state.target, prefix=prefix, observer=Quiet())
        writer.write(batch_of(state.schema, [{"id": 99, "name": "lost"}]))
        [file] = writer.close()
    return file.path.removeprefix("file://")


def test_snapshots_expire_and_what_nothing_names_goes_with_a_later_call(
    pipeline: Pipeline,
    spec: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(pipeline, LAKE, *ROWS)
    orphan = Path(orphaned(pipeline))
    before, later = rows(pipeline, LAKE), SystemClock().now_ms() + 9 * DAY_MS
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: later)
    aged(pipeline, 9)

    said = []
    for days in (0, 6, 0):
        assert 0 == guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])
        said.append(capsys.readouterr())
        assert orphan.exists()
        aged(pipeline, days)
    assert f"{LAKE}: 5 snapshots can no longer be read" in said[0].err
    assert f"{LAKE}  5 snapshots expired" in said[0].out
    assert "waiting for the next commit" in said[1].out

    fill_more(pipeline, LAKE, len(ROWS))
    assert 0 == guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])
    assert " deleted, " in capsys.readouterr().out
    assert not orphan.exists()
    assert [*before, (len(ROWS), "more")] == rows(pipeline, LAKE)


def test_acts_are_chosen_and_the_dry_run_writes_nothing(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, *ROWS)
    orphaned(pipeline)
    aged(pipeline, 9)
    root = Path(pipeline.catalogs["lake"].warehouse.removeprefix("file://"))  # type: ignore[union-attr]
    before = {each: each.stat().st_mtime for each in root.rglob("*")}

    assert 0 == guarded(lambda: maintain(LAKE, spec=spec, dry_run=True, json=True), [])
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert ({"due": [], "waiting": 0, "unfenced": 0, "new": 1}, 6) == (
        table["sweep"],
        len(table["expiry"]["kept"]),
    )
    code = guarded(lambda: maintain(LAKE, spec=spec, only=("expire",), dry_run=True), [])
    out = capsys.readouterr().out
    assert 0 == code
    assert "0 of 6 snapshots expire; kept: " in out
    assert "nothing names" not in out
    assert before == {each: each.stat().st_mtime for each in root.rglob("*")}


class Twice(InlineEngine):
    """Does each job twice, as an engine does that lost a worker, and believes the second time."""

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs."""
        super().run(jobs)
        return super().run(jobs)


@pytest.mark.parametrize("name", [LAKE, DELTA])
def test_a_job_that_is_done_twice_lands_once_and_leaves_files_that_nothing_names(
    pipeline: Pipeline, name: str, tmp_path: Path
) -> None:
    fill(pipeline, name, *ROWS)

    done = maintain_with(pipeline, {name: [MaintenanceAct.REARRANGE]}, Twice(COPYING_WORK), Quiet())

    written = [*tmp_path.rglob("*-maintenance-*.parquet")]
    assert (0, 4, 3) == (done.exit_code, len(written), files(pipeline, name))
    assert [*enumerate(ROWS)] == rows(pipeline, name)


@pytest.mark.parametrize(("capacity", "commits"), [(1, 3), (2, 2), (3, 1)])
def test_as_many_jobs_run_at_once_as_the_engine_has_room_for(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capacity: int, commits: int
) -> None:
    monkeypatch.setattr(rearranging, "INPUTS_MAX", 2)
    fill(pipeline, LAKE, *"aabbcc")

    engine = InlineEngine(COPYING_WORK, capacity)
    [table] = maintain_with(pipeline, {LAKE: [MaintenanceAct.REARRANGE]}, engine, Quiet()).tables

    assert (3, commits, ()) == (table.done.groups, table.done.commits, table.errors)
    assert [*enumerate("aabbcc")] == rows(pipeline, LAKE)


def test_without_spark_there_are_no_workers(
    pipeline: Pipeline, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(pipeline, LAKE, "a", "a")
    spec.write_text(f"{spec.read_text()}\nspark: {{ master: inline }}\n")

    code = guarded(lambda: maintain(LAKE, spec=spec, yes="shop", workers=True), [])

    assert 2 == code
    assert "P844" in capsys.readouterr().err
    assert 2 == files(pipeline, LAKE)
    assert 0 == guarded(lambda: maintain(LAKE, spec=spec, yes="shop"), [])


def test_a_connector_whose_files_no_worker_reads_is_refused(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pipeline, LAKE, "a", "a")
    blind = replace(iceberg, open_file_rows=None)
    monkeypatch.setattr(copying_worker, "connector_of", lambda *_: blind)
    copying_worker._file_rows.cache_clear()

    [table] = maintain_with(
        pipeline, {LAKE: [MaintenanceAct.REARRANGE]}, InlineEngine(COPYING_WORK), Quiet()
    ).tables

    assert ["P849"] == [error.code for error in table.errors]
    assert 2 == files(pipeline, LAKE)
