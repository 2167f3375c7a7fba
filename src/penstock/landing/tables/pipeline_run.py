"""What a run of a pipeline consists of."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.landing.settings import Environment, Settings
from penstock.landing.tables.opening import open_quarantine
from penstock.landing.tables.table_set import TableSet
from penstock.ownership.claim import ClaimContext


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a pipeline: its settings, the outside, and where its tables stand."""

    settings: Settings
    environment: Environment
    tables: TableSet

    @classmethod
    def of(cls, settings: Settings, environment: Environment) -> Run:
        """Begin a run: the quarantine is created when it is not there, no table is opened yet."""
        quarantine = open_quarantine(settings, environment)
        return cls(settings, environment, TableSet(settings, environment, quarantine))

    @property
    def claim_context(self) -> ClaimContext:
        """Return what a claim on the pipeline works with."""
        settings, environment = self.settings, self.environment
        return ClaimContext(
            settings.pipeline,
            environment.store,
            environment.owner,
            environment.observer,
            environment.clock,
            environment.jitter,
            environment.token,
            environment.start_heartbeat,
            snapshots_kept=settings.retain,
            heartbeat_seconds=settings.heartbeat_seconds,
            alive_seconds=settings.alive_seconds,
        )
