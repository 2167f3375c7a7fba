"""Metrics of publications for Prometheus, fed by the same events as the log.

Invariants: those of `metrics.py`.
"""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from penstock.core import publication_events as events
from penstock.core.claims import claimed_publication
from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.core.leadership_events import StandbyChanged
from penstock.observe.metrics import PREFIX, SECONDS
from penstock.ports.runtime import Clock

_OF = ("publication",)
_ROWS = tuple(float(10**power) for power in range(8))


class PublicationMetrics:
    """Count events of publications; `registry` is what an endpoint shows."""

    def __init__(self, clock: Clock, *, version: str) -> None:
        self._clock = clock
        own = self.registry = CollectorRegistry(auto_describe=False)
        self._published = Counter(
            PREFIX + "rows_published", "Records visible in a topic.", _OF, registry=own
        )
        self._filtered = Counter(
            PREFIX + "rows_filtered", "Rows that `where` left out.", _OF, registry=own
        )
        self._rejected = Counter(
            PREFIX + "rows_rejected",
            "Rows that are no messages, in the topic for rejects, by code.",
            (*_OF, "code"),
            registry=own,
        )
        self._transactions = Counter(
            PREFIX + "transactions",
            "Transactions, by outcome: ended, or given up and made again.",
            (*_OF, "outcome"),
            registry=own,
        )
        self._rows = Histogram(
            PREFIX + "transaction_rows",
            "Records of a transaction.",
            _OF,
            buckets=_ROWS,
            registry=own,
        )
        self._seconds = Histogram(
            PREFIX + "transaction_duration_seconds",
            "Time of a transaction, from its plan to its end.",
            _OF,
            buckets=SECONDS,
            registry=own,
        )
        self._lag = Gauge(
            PREFIX + "publication_lag_rows", "Rows that are left to publish.", _OF, registry=own
        )
        self._last = Gauge(
            PREFIX + "last_transaction_timestamp_seconds",
            "Time of the newest transaction of this run.",
            _OF,
            registry=own,
        )
        self._stopped = Gauge(
            PREFIX + "publication_stopped",
            "1 after a publication ended with an error, or while it waits to try again.",
            _OF,
            registry=own,
        )
        self._generation = Gauge(
            PREFIX + "publication_generation",
            "Generation that holds the publication.",
            _OF,
            registry=own,
        )
        Gauge(PREFIX + "build_info", "1, with the version.", ("version",), registry=own).labels(
            version
        ).set(1)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case StandbyChanged():  # its lag is the owner's to tell
                name = claimed_publication(event.pipeline)
                self._stopped.labels(name).set(0)
                with suppress(KeyError):
                    self._lag.remove(name)
            case events.PublicationStarted(publication=name):
                self._generation.labels(name).set(event.generation)
                self._lag.labels(name).set(event.backlog)
                self._stopped.labels(name).set(0)
            case events.RowsPublished(publication=name):
                self._published.labels(name).inc(event.rows)
                self._filtered.labels(name).inc(sum(event.filtered.values()))
                for code, count in event.rejected.items():
                    self._rejected.labels(name, code).inc(count)
                self._transactions.labels(name, "ended").inc()
                self._rows.labels(name).observe(event.rows)
                self._seconds.labels(name).observe(event.seconds)
                self._lag.labels(name).set(event.lag)
                self._last.labels(name).set(self._clock.now_ms() / 1000)
            case events.TransactionGivenUp(publication=name):
                self._transactions.labels(name, "given up").inc()
            case events.PublicationStopped(publication=name):
                self._stopped.labels(name).set(0 if event.clean else 1)

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""
