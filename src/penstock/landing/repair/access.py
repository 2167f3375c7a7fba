"""A pipeline that is owned for a while to change its tables by hand.

Invariant: a table is changed only when what was pending for it is settled, and it was opened
afresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.commit.chain_position import NO_EPOCH, CommitLabels
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables.pipeline_run import Run
from penstock.landing.tables.progress import TableProgress, by_table
from penstock.landing.tables.table_set import TableSet
from penstock.ownership.claim import PipelineClaim
from penstock.ownership.exclusive import exclusive_claim
from penstock.ownership.fencing import read_claims
from penstock.ports.runtime import Engine
from penstock.spec.routing.names import no_table


@dataclass(frozen=True, slots=True)
class ExclusiveAccess:
    """Where the tables of a pipeline stand, under a claim that no run shares."""

    run: Run
    claim: PipelineClaim

    @property
    def settings(self) -> Settings:
        """The pipeline's settings."""
        return self.run.settings

    @property
    def environment(self) -> Environment:
        """The outside."""
        return self.run.environment

    @property
    def tables(self) -> TableSet:
        """Where its tables stand."""
        return self.run.tables

    def labels(self, attempt: str, rules_hash: str) -> CommitLabels:
        """Return what labels a commit by hand."""
        cluster_id = self.environment.cluster_id
        return CommitLabels(self.claim.claim, cluster_id, NO_EPOCH, rules_hash, attempt)

    def with_engine(self, engine: Engine) -> ExclusiveAccess:
        """Return it with another engine to read records again."""
        environment = replace(self.environment, engine=engine)
        return replace(self, run=replace(self.run, environment=environment))

    def settle_pending(self, name: str) -> TableProgress:
        """Settle what is pending for a table, and return where it stands then.

        Raises what keeps the table from being opened, and what `commit.land` raises.
        """
        tables, pipeline = self.tables, self.settings.pipeline
        if name not in tables.progress and name not in tables.parked:
            raise no_table(name, {*tables.progress, *tables.parked}, tables.topics)
        rows = by_table(pipeline, self.environment.store.pending(pipeline)).get(name, [])
        work = tables.recovery_work(name, rows)
        if work is not None:
            self.claim.two_phase.recover(work)
            tables.recovered(name, self.claim.commit_context)
            tables.list_topics(self.environment.log.partitions())  # routes learn of their tables
        if name in tables.parked:
            raise tables.parked[name].error
        return tables.progress[name]


@contextmanager
def exclusive_access(
    settings: Settings, environment: Environment, *, takeover: bool = False
) -> Iterator[ExclusiveAccess]:
    """Own a pipeline while its tables are changed.

    Raises UnavailableError (P510) while another owner is alive, unless `takeover`; what opening the
    quarantine table raises.
    """
    run = Run.of(settings, environment)
    tables = run.tables
    tables.list_topics(environment.log.partitions())
    seen = [each.last_claim for table in tables.progress.values() for each in table.positions]
    seen += read_claims(tables.rolled_back_chains())
    with exclusive_claim(run.claim_context, seen, takeover=takeover) as claim:
        if claim.foreign:
            tables.take_over(claim.commit_context)
        yield ExclusiveAccess(run, claim)
