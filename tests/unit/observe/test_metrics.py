"""Events become metrics with the names and labels of interface.md 4."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import replace

import pytest

from penstock.core import events
from penstock.core.errors import InvalidError
from penstock.core.maintenance_events import LayoutMeasured, TableMaintained
from penstock.observe.metrics import Metrics
from penstock.observe.metrics_endpoint import address, metrics_served, served_at
from penstock.observe.status import StatusBoard


@pytest.fixture
def reported(clock):
    """Return a function that says events to board and metrics, and reads a sample."""
    board = StatusBoard("shop", clock)
    metrics = Metrics(board, clock, version="1.2", interval_ms=1000, target_file_bytes=1 << 20)

    def report(*happened: events.Event) -> Metrics:
        for event in happened:
            board(event)
            metrics(event)
        return metrics

    return report


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"penstock_{name}", labels)


def test_how_tables_lie_is_measured_once_somebody_looked(reported, clock) -> None:
    metrics = reported(committed(clock))
    assert None is value(metrics, "table_excess_files", table="lake.a")

    looked = LayoutMeasured("lake.a", 500, 20, 9_000, 750, 250, 77, 7, 9, 1000, late=9)
    reported(looked, committed(clock), TableMaintained("lake.a", 300, 6, 0, 0, 0, 4096, 2))
    assert 187 == value(metrics, "table_excess_files", table="lake.a")
    assert 9 == value(metrics, "table_late_files", table="lake.a")
    assert 0.25 == value(metrics, "table_deleted_share", table="lake.a")
    assert 77 == value(metrics, "table_metadata_bytes", table="lake.a")
    assert 4096 == value(metrics, "maintenance_bytes_total", table="lake.a")
    assert 2 == value(metrics, "maintenance_yields_total", table="lake.a")


def committed(clock, table: str = "lake.a", rows: int = 5) -> events.TableCommitted:
    return events.TableCommitted(1, table, "shop", "append", "c", "s", rows, 1, 99, 0.2, clock.ms)


def test_an_epoch_is_counted_from_reading_to_landing(reported, clock) -> None:
    metrics = reported(
        events.EpochPlanned(1, 1, 7, {"orders": 7}, {"lake.a": 7}, {"or[d[3]": 4, "orders[0]": 3}),
        events.SliceRead(1, 0, 7, 100, 0.5, {"orders": 7}),
        events.RecordsQuarantined(1, "lake.a", {"P302": 2}),
        events.RecordsFiltered(1, "lake.a", {"tombstone": 1}),
        events.FilesWritten(1, "lake.a", 2, 5, 5000),
        events.EpochPrepared(1, 7, 1, 0.7),
    )
    assert 1 == value(metrics, "pending_commits", table="lake.a")
    assert 4 == value(metrics, "lag_records", topic="or[d", partition="3")

    reported(committed(clock))
    assert 7 == value(metrics, "records_read_total", topic="orders")
    assert 5 == value(metrics, "rows_landed_total", table="lake.a", operation="append")
    assert 2 == value(metrics, "records_quarantined_total", table="lake.a", code="P302")
    assert 1 == value(metrics, "records_filtered_total", reason="tombstone")
    assert 1 == value(metrics, "commits_total", table="lake.a", outcome="landed")
    assert 2 == value(metrics, "files_written_total", table="lake.a")
    assert 2 == value(metrics, "table_small_files", table="lake.a")
    assert 5000 == value(metrics, "file_bytes_sum", table="lake.a")
    assert 0 == value(metrics, "pending_commits", table="lake.a")
    assert clock.ms / 1000 == value(metrics, "last_commit_timestamp_seconds", table="lake.a")
    assert clock.ms / 1000 == value(
        metrics, "table_valid_through_timestamp_seconds", table="lake.a"
    )
    for phase, seconds in {"read": 0.5, "prepare": 0.7, "commit": 0.2}.items():
        assert seconds == value(metrics, "commit_duration_seconds_sum", phase=phase)
    assert 1 == value(metrics, "build_info", version="1.2")


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (events.CommitFoundLanded("a", "shop", "c", as_prepared=True), "found landed"),
        (events.CommitConflicted("a", "shop", "c", 1, "moved"), "conflict"),
        (events.CommitLeftInDoubt("a", "shop", "c", 1, "lost"), "in doubt"),
        (events.CommitAborted("a", "shop", "c", "gone"), "aborted"),
    ],
)
def test_every_outcome_of_a_commit_is_counted(reported, event, outcome: str) -> None:
    assert 1 == value(reported(event), "commits_total", table="a", outcome=outcome)


def test_the_state_is_one_of_all(reported) -> None:
    metrics = reported(events.PipelineStarted("shop", 3, "me", 1, 0))

    assert 3 == value(metrics, "generation")
    assert 1 == value(metrics, "pipeline_state", state="starting")
    assert 0 == value(metrics, "pipeline_state", state="failed")


def test_a_stall_and_a_parked_table_are_reported(reported, clock) -> None:
    metrics = reported(
        events.EpochPlanned(1, 1, 7), events.TableParked("lake.a", "P430", "no answer")
    )
    assert (0, 1) == (value(metrics, "stalled"), value(metrics, "table_parked", table="lake.a"))

    clock.wait(2.1)
    assert 1 == value(metrics, "stalled")


def test_the_endpoint_answers_as_prometheus_asks_and_frees_its_port(reported, clock) -> None:
    with metrics_served(reported(committed(clock)).registry, "127.0.0.1", 0) as served:
        url = f"http://127.0.0.1:{served}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        assert 'penstock_rows_landed_total{operation="append",table="lake.a"} 5.0' in text
        taken = metrics_served(reported().registry, "127.0.0.1", served)
        with pytest.raises(InvalidError, match="metrics cannot be served") as refused:
            taken.__enter__()
        assert "P592" == refused.value.code
    with metrics_served(reported().registry, "127.0.0.1", served):
        pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        ("::1:9464", ("::1", 9464)),
    ],
)
def test_an_address_is_read(text: str, expected: tuple[str, int]) -> None:
    assert expected == address(text)


def test_a_url_has_brackets_around_ipv6_alone() -> None:
    assert "http://[::1]:9464/metrics" == served_at("::1", 9464)
    assert "http://127.0.0.1:9464/metrics" == served_at("127.0.0.1", 9464)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_metrics_are_served_at_an_ipv6_address(reported) -> None:
    host, port = address("[::1]:0")
    with metrics_served(reported().registry, host, port) as served:
        url = served_at(host, served)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"penstock_build_info" in answer.read()


def test_a_host_that_is_no_valid_name_is_refused(reported) -> None:
    with pytest.raises(InvalidError, match="not a host name") as refused:
        metrics_served(reported().registry, f"{'a' * 64}.example", 0).__enter__()
    assert "P592" == refused.value.code


@pytest.mark.parametrize("text", ["", "host", "host:port", "host:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not an address for metrics"):
        address(text)


def test_what_waits_for_a_parked_table_is_reported_while_all_others_are_level(reported) -> None:
    metrics = reported(
        events.TableParked("lake.b", "P452", "gone"),
        events.BacklogCounted({"orders": 0}, {"lake.a": 0, "lake.b": 7}, {"orders[0]": 0}),
    )

    assert 0 == value(metrics, "lag_records", topic="orders", partition="0")
    assert 0 == value(metrics, "table_lag_records", table="lake.a")
    assert 7 == value(metrics, "table_lag_records", table="lake.b")


def test_lag_is_absent_until_it_is_known(reported) -> None:
    started = events.PipelineStarted("shop", 1, "me", 1, 0)
    assert value(reported(started), "lag_records", topic="orders", partition="0") is None

    counted = reported(events.BacklogCounted({"orders": 3}, {"lake.a": 3}, {"orders[0]": 3}))
    assert 3 == value(counted, "lag_records", topic="orders", partition="0")


def test_until_when_a_table_is_paused_is_a_gauge(reported) -> None:
    name = "table_paused_until_timestamp_seconds"

    assert 5 == value(reported(events.PauseBegan("lake.a", 5_000)), name, table="lake.a")
    over = reported(events.PauseBegan("lake.a", 5_000), events.PauseEnded("lake.a"))
    assert value(over, name, table="lake.a") is None


def test_what_changes_of_a_keyed_table_did_is_counted(reported, clock) -> None:
    commit = replace(committed(clock), kind="row-delta", changes={"updated": 3, "superseded": 2})
    metrics = reported(commit, replace(commit, changes={"updated": 1}))

    assert 4 == value(metrics, "changes_landed_total", table="lake.a", outcome="updated")
    assert 2 == value(metrics, "changes_landed_total", table="lake.a", outcome="superseded")
    assert 10 == value(metrics, "rows_landed_total", table="lake.a", operation="row-delta")
