"""Metrics of publications: what is counted of each event."""

from __future__ import annotations

import pytest

from penstock.core import publication_events as events
from penstock.core.leadership_events import StandbyChanged
from penstock.observe.publication_metrics import PublicationMetrics


@pytest.fixture
def metrics(clock) -> PublicationMetrics:
    return PublicationMetrics(clock, version="1.2")


def value(metrics: PublicationMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"penstock_{name}", labels)


def test_transactions_and_their_rows_are_counted_for_each_publication(metrics, clock) -> None:
    metrics(events.PublicationStarted("m", "into", 3, 7, 100))
    metrics(events.RowsPublished("m", "into", 8, 60, 2, 0.2, 40))
    metrics(events.RowsPublished("m", "into", 9, 40, 2, 0.2, 0, {"where": 3}, {"P840": 2}))
    metrics(events.TransactionGivenUp("m", 10, "refused"))

    assert 100 == value(metrics, "rows_published_total", publication="m")
    assert 3 == value(metrics, "rows_filtered_total", publication="m")
    assert 2 == value(metrics, "rows_rejected_total", publication="m", code="P840")
    assert 2 == value(metrics, "transactions_total", publication="m", outcome="ended")
    assert 1 == value(metrics, "transactions_total", publication="m", outcome="given up")
    assert 100 == value(metrics, "transaction_rows_sum", publication="m")
    assert 2 == value(metrics, "transaction_duration_seconds_count", publication="m")
    assert 0 == value(metrics, "publication_lag_rows", publication="m")
    assert 3 == value(metrics, "publication_generation", publication="m")
    at = value(metrics, "last_transaction_timestamp_seconds", publication="m")
    assert clock.now_ms() / 1000 == at


def test_a_publication_that_stopped_says_so_until_it_starts_again(metrics) -> None:
    metrics(events.PublicationStopped("m", "no broker answers", clean=False, code="P201"))
    assert 1 == value(metrics, "publication_stopped", publication="m")

    metrics(events.PublicationStarted("m", "into", 4, 7, 5))
    assert 0 == value(metrics, "publication_stopped", publication="m")
    assert 5 == value(metrics, "publication_lag_rows", publication="m")

    metrics(events.PublicationStopped("m", "asked to stop", clean=True))
    assert 0 == value(metrics, "publication_stopped", publication="m")


def test_one_that_stands_by_tells_no_lag_that_is_its_owner_s(metrics) -> None:
    metrics(StandbyChanged("shop/publish/m", "", ""))
    metrics(events.PublicationStarted("m", "into", 4, 7, 5))
    metrics(events.PublicationStopped("m", "a newer run", clean=False, code="P804"))
    metrics(StandbyChanged("shop/publish/m", "host-b 7", ""))

    assert None is value(metrics, "publication_lag_rows", publication="m")
    assert 0 == value(metrics, "publication_stopped", publication="m")
