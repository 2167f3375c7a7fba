"""Run a pipeline under its rules, after its tables are level under the rules they were fed with.

Invariants:
- the present rules count only once all tables are level, or a person said so (protocol.md 2): "a
  changed spec takes effect only where all tables are level";
- a run that cannot level its tables says so: it ends with an error, never as if it had landed all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError, InvalidError, PenstockError
from penstock.core.offsets import Positions
from penstock.landing import waiting
from penstock.landing.coordinator import Coordinator, RunResult
from penstock.landing.epoch.commit_queue import CommitQueue
from penstock.landing.epoch.committer import Committer
from penstock.landing.epoch.hold import EpochHold
from penstock.landing.epoch.landed_offsets import LandedOffsets
from penstock.landing.epoch.partition_discovery import PartitionDiscovery
from penstock.landing.epoch.pause_watch import PauseWatch
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.prepare import Preparer
from penstock.landing.epoch.trigger import EpochTrigger, StoppingOffsets
from penstock.landing.foreign_errors import FILES_FAILED
from penstock.landing.settings import Environment, Settings, Until, claim_context
from penstock.landing.tables.opening import open_quarantine
from penstock.landing.tables.spec_change import CatchUp
from penstock.landing.tables.table_set import TableSet
from penstock.ownership import fencing
from penstock.ownership.claim import PipelineClaim
from penstock.ports.log import Log

FormerSpec = Callable[[str], AbstractContextManager[tuple[Settings, Log]]]
"""Gives the settings of today with the rules of a text that the store kept, and the log of the
topics that those rules read."""

BY_SPEC = frozenset({"P345", FILES_FAILED})
"""What parks a table because of its records, as its rules read them: other rules may not."""


def run(
    settings: Settings,
    environment: Environment,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool,
    former: FormerSpec,
) -> RunResult:
    """Run a pipeline to its end. Raises any PenstockError that concerns it as a whole.

    It is leveled as often as that brings a table forward: one that comes back late trails anew.
    """
    ended = _coordinate(settings, environment, stop, until, takeover=takeover)
    before: CatchUp | None = None
    while ended.catch_up_first is not None and not stop.is_set():
        if before is not None and before.ranges == ended.catch_up_first.ranges:
            raise _undecided(before, "these ranges can no longer be read")
        before = ended.catch_up_first
        with former_rules(settings, environment, before, former) as (rules, log):
            # No table is held while it is leveled: it would end the run.
            outside = replace(environment, log=log, health=dict)
            leveled = _coordinate(rules, outside, stop, "caught-up", ends=before.ends)
        for table, reason in leveled.parked.items():
            if table in before.ranges:
                if reason.code in BY_SPEC:
                    raise _undecided(before, f"by the former rules {reason.message}") from reason
                raise reason
        if not stop.is_set():
            ended = _coordinate(settings, environment, stop, until)
    return ended


@contextmanager
def former_rules(
    settings: Settings, environment: Environment, catch_up: CatchUp, former: FormerSpec
) -> Iterator[tuple[Settings, Log]]:
    """Open the rules that tables were fed with, and the log of their topics.

    Raises DecisionNeededError (P189) where these cannot be had.
    """
    texts = [environment.store.rules(settings.pipeline, each) for each in catch_up.rules_hashes]
    if len(texts) != 1 or texts[0] is None:
        lost = "the former rules are lost" if None in texts else "they were fed by several rules"
        raise _undecided(catch_up, lost)
    with former(texts[0]) as (rules, log):
        try:
            log.partitions()
        except InvalidError as error:
            raise _undecided(catch_up, f"former topics cannot be read: {error.message}") from error
        yield rules, log


def _undecided(catch_up: CatchUp, reason: str) -> DecisionNeededError:
    ranges_text = "; ".join(
        f"{table} {at}{covered}"
        for table, ranges in catch_up.ranges.items()
        for at, covered in ranges.items()
    )
    return DecisionNeededError(
        f"the spec changed while tables were not level, and {reason}: {ranges_text}",
        code="P189",
        hint="to read these ranges by the present rules:  penstock run --accept rules",
    )


def _claimed_tables(settings: Settings, environment: Environment, claim: PipelineClaim) -> TableSet:
    """Open the tables under a claim that outranks all in their ledgers.

    What is read before a claim is worth nothing after it: its former owner may land meanwhile
    (docs/design/0325).
    """
    while True:
        tables = TableSet(settings, environment, open_quarantine(settings, environment))
        tables.list_topics(environment.log.partitions())
        by_number = fencing.read_claims(tables.rolled_back_chains())
        seen = [each.last_claim for table in tables.progress.values() for each in table.positions]
        if not claim.rise_above([*seen, *(replace(each, owner="") for each in by_number)]):
            return tables


def _coordinate(
    settings: Settings,
    environment: Environment,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool = False,
    ends: Positions | None = None,
) -> RunResult:
    """Claim one pipeline and run it. `ends` bounds what is read, to catch up under former rules.

    Raises what `Coordinator.land` raises.
    """
    claim = PipelineClaim(claim_context(settings, environment))
    claim.acquire([], takeover=takeover)
    try:
        tables = _claimed_tables(settings, environment, claim)
        chain = Chain(f"{settings.pipeline}/*", settings.quarantine.table)  # its state is any's
        quarantine = tables.quarantine.state(chain)
    except BaseException:
        claim.close()
        with suppress(PenstockError):  # nothing is under way: others need not wait
            claim.release()
        raise
    queue = CommitQueue(claim.two_phase, environment.commit_executor(settings.commits_at_once))
    observer, clock = environment.observer, environment.clock
    hold = EpochHold(settings.hold, settings.every_seconds, environment.health, observer, clock)
    preparer = Preparer(tables, claim, queue)
    landed = LandedOffsets(tables, environment.follower)
    pauses = PauseWatch(claim.pauses, observer, clock)
    coordinator = Coordinator(
        tables,
        stop,
        Committer(tables, claim, queue, pauses, hold, landed),
        preparer,
        PartitionDiscovery(tables, preparer, endless=until == "stopped"),
        EpochTrigger(settings, clock),
        StoppingOffsets(ends, keep_first=until != "stopped"),
        PoisonIsolation(environment),
        waiting.Waits(observer),
        quarantine,
    )
    return coordinator.land(until)
