"""A pipeline that is owned for a while to change its tables by hand.

Invariant: a table is changed only when what was pending for it is settled, and it was opened
afresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.commit.chain_position import NO_EPOCH, CommitLabels
from penstock.landing.settings import Environment, Settings, claim_context
from penstock.landing.tables.opening import open_quarantine
from penstock.landing.tables.progress import TableProgress, by_table
from penstock.landing.tables.table_set import TableSet
from penstock.ownership.claim import PipelineClaim, exclusive_claim
from penstock.ownership.fencing import read_claims
from penstock.spec.routing.names import no_table


@dataclass(frozen=True, slots=True)
class ExclusiveAccess:
    """The positions of a pipeline's tables, under a claim that no run shares."""

    settings: Settings
    environment: Environment
    tables: TableSet
    claim: PipelineClaim

    def labels(self, attempt: str, rules_hash: str) -> CommitLabels:
        """Return what labels a commit by hand."""
        cluster_id = self.environment.cluster_id
        return CommitLabels(self.claim.claim, cluster_id, NO_EPOCH, rules_hash, attempt)

    def settle_pending(self, name: str) -> TableProgress:
        """Settle what is pending for a table, and return its progress then.

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
    tables = TableSet(settings, environment, open_quarantine(settings, environment))
    tables.list_topics(environment.log.partitions())
    seen = [each.last_claim for table in tables.progress.values() for each in table.positions]
    seen += read_claims(tables.rolled_back_chains())
    with exclusive_claim(claim_context(settings, environment), seen, takeover=takeover) as claim:
        if claim.foreign:
            tables.take_over(claim.commit_context)
        yield ExclusiveAccess(settings, environment, tables, claim)
