"""Read a stretch again for a replay, epoch by epoch, by the engine that a run would use.

Source: docs/design/0170. Rows go from Kafka to files in the workers; what comes back is
descriptions of files and counts.

Invariants:
- what is held here is bounded by one epoch and by the number of files, not by the stretch;
- what is in quarantine stays there and lands in no file;
- the first record that would be refused ends it: no record leaves the table and the quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.core.accounting import Tally
from penstock.core.commits import EpochNumber
from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.events import ReplayProgressed
from penstock.core.offsets import OffsetRange, Positions, TopicPartition
from penstock.core.planning import Epoch, plan
from penstock.core.resolutions import resolutions_of
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.runner import EpochRunner
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.tables.credentials import renewed, with_credentials
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.quarantined_offsets import EMPTY
from penstock.landing.task.chosen_offsets import next_chosen
from penstock.landing.task.coordinates import Coordinate
from penstock.landing.task.messages import WriteTarget
from penstock.landing.task.results import TableResult, aggregate, failures
from penstock.rows.quarantine.status import READ, not_yet_landed, status_of

REPORTS_MAX = 100

Ranges = Mapping[TopicPartition, OffsetRange]


def reread(
    held: ExclusiveAccess, progress: TableProgress, stretch: Ranges
) -> tuple[TableResult, Counter[TopicPartition]]:
    """Read a stretch for a table's state, all of it or `only` those records, and write its files;
    report how far it is, a hundred times at most.

    Returns its files and tallies, and how many of its positions are in quarantine.

    Raises DecisionNeededError (P476) when a record would be refused, UnavailableError (P477) when
    Kafka gives nothing, and what engines and writers raise.
    """
    reader = replace(
        progress,
        quarantined=EMPTY,
        leader_epochs={},
        examined={at: covered.start for at, covered in stretch.items()},
    )
    whole = sum(covered.count for covered in stretch.values())
    reported, found = 0, TableResult()
    quarantined: Counter[TopicPartition] = Counter()
    for part, before, after in _epochs(held, reader, {at: c.stop for at, c in stretch.items()}):
        found.files += part.files
        for at, tally in part.tallies.items():
            found.tallies[at] = found.tallies.get(at, Tally()) + tally
        for topic_id, number, offset in after.quarantined:
            at = TopicPartition(topic_id, number, "")
            if at in before:  # what is beyond the epoch may be among them
                quarantined[at] += before[at] <= offset < after.examined[at]
        done = sum(after.examined[at] - covered.start for at, covered in stretch.items())
        if done * REPORTS_MAX // whole > reported:
            reported = done * REPORTS_MAX // whole
            held.environment.observer(ReplayProgressed(progress.name, done, whole))
    return found, quarantined


def _epochs(
    held: ExclusiveAccess, reader: TableProgress, stops: Positions
) -> Iterator[tuple[TableResult, Positions, TableProgress]]:
    """Read epoch by epoch; yield what each found, and the reader's positions before and after."""
    settings, environment = held.settings, held.environment
    quarantine = held.tables.quarantine.state(reader.quarantine.chain)
    trigger, number = EpochTrigger(settings, environment.clock), 0
    while any(reader.examined[at] < stop for at, stop in stops.items()):
        number += 1
        if reader.only is not None:
            reader = replace(reader, examined=next_chosen(reader.only, reader.examined, stops))
        before = reader.examined
        if all(before[at] >= stop for at, stop in stops.items()):
            return  # what is left is not chosen
        budget = trigger.budget(environment.engine.capacity())
        epoch = plan(EpochNumber(number), {reader.name: before}, stops, budget)
        reader, quarantine = with_credentials(reader), renewed(quarantine)
        reader = replace(reader, quarantined=EMPTY | _quarantined(reader, epoch))
        rejects = WriteTarget(settings.quarantine.connector, quarantine.target)
        runner = EpochRunner(settings, environment, rejects, PoisonIsolation(environment))
        results = runner.run(epoch, {reader.name: reader})
        for error in failures(results).values():
            raise error
        held.claim.check()
        found = aggregate(results)[reader.name]
        if quarantined := found.total.quarantined:
            counts = ", ".join(f"{count} by {code}" for code, count in quarantined.items())
            raise DecisionNeededError(
                f"{reader.name}: records in the table would be rejected now ({counts}): nothing was"
                " changed",
                code="P476",
                hint="penstock peek  shows why; fix the rules or the table's columns, then try"
                " again",
            )
        reader = replace(reader, examined={**before, **found.reached})
        if reader.examined == before:
            raise UnavailableError(
                f"{reader.name}: Kafka returned no record of the range",
                code="P477",
                hint="nothing was changed; see the brokers' logs, and try again",
            )
        trigger.observe_sizes(results)
        yield found, before, reader


def _quarantined(reader: TableProgress, epoch: Epoch) -> frozenset[Coordinate]:
    """Return the records of an epoch that are in quarantine; what was retried is in the table."""
    assert reader.state is not None, "a table that is replayed is there"
    ranges: Sequence[Sequence[object]] = [
        [lane.at.topic_id, lane.at.partition, lane.at.topic, lane.covered.start, lane.covered.stop]
        for part in epoch.slices
        for lane in part.lanes
    ]
    rejects, landed = reader.quarantine, reader.state.landed
    followed = 0 if landed is None else landed.offsets.get(resolutions_of(reader.name), 0)
    statuses = status_of(rejects.table.read_quarantine(rejects.chain, READ, ranges))
    found = not_yet_landed(statuses, followed).select(["topic_id", "partition", "offset"])
    return frozenset(zip(*found.to_pydict().values(), strict=True))
