"""A world of one publication: a topic, what it is mirrored into, and what may go wrong.

Faults strike at crash points and at requests: the process dies, a rival takes over and runs, the
transaction's time is over, an answer is lost, a task is not seen to have run once.
"""

from __future__ import annotations

import itertools
import random  # noqa: TID251  seeded
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.story.clock import ManualClock
from tests.story.observer import Crash

from penstock.connectors.memory.cluster import MemoryCluster, Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.sending import BATCH_BYTES_MAX, MemoryPacker, MemorySender
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.transactions import (
    MemoryCoordinator,
    MemoryHeads,
    MemoryLedger,
    MemoryProducerTerms,
    MemoryTerms,
    MemoryTopics,
)
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.core.events import Event
from penstock.engines.inline import InlineEngine
from penstock.ports.producers import NO_ANSWER, Entry, Producers, Refused, Term
from penstock.ports.runtime import JobResult
from penstock.ports.sources import EpochLimit, Source
from penstock.ports.store import Owner
from penstock.publishing.epoch import Share
from penstock.publishing.messages import SendJob, job_from_json, result_to_json
from penstock.publishing.publisher import Publisher, Until
from penstock.publishing.settings import Publication, PublicationPorts, PublishingEnvironment
from penstock.publishing.share_messages import (
    is_share,
    share_from_json,
    share_result_to_json,
)
from penstock.publishing.shares import end_share
from penstock.publishing.topic_source import TopicReader, TopicSource
from penstock.publishing.worker import SendTools, send

PARTITIONS = 2
ID = "penstock-orders-0"
FROM, INTO, OFFSETS = "raw.orders", "orders", "penstock-orders-offsets"


def by_library(tasks: int = 1) -> dict[str, Any]:
    """Return the settings of a run whose tasks each have a producer for each transaction."""
    return {"tasks": tasks, "target": {"client": "librdkafka"}}


class NoHeartbeat:
    """A heartbeat that never beats."""

    def __init__(self, act: Callable[[], bool], every_seconds: float) -> None:
        del act, every_seconds

    def end(self) -> None:
        """End nothing."""


Act = Callable[[str], str]
"""Asked at each step by its name: what goes wrong there: "", "lost", "twice", or it raises."""


@dataclass(slots=True)
class PublishingWorld:
    """Kafka, a pending store and a clock; every run is made by `run`."""

    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    events: list[Event] = field(default_factory=list)
    rows_max: int = 1000
    chosen: Callable[[], Mapping[str, Any]] = dict
    """Settings of the next run: `by_library` has it write by a producer for each transaction."""
    _owners: itertools.count[int] = field(default_factory=itertools.count)
    coordinator: MemoryCoordinator = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = MemoryCoordinator(self.cluster)
        self.cluster.create(FROM, PARTITIONS)
        self.cluster.create(INTO, PARTITIONS)

    def send(self, partition: int, *values: str) -> None:
        """Send records into the source."""
        messages = [
            Message(each.encode(), b"k", headers=(("h", b"1"),)) if each else Message(None, b"k")
            for each in values
        ]
        self.cluster.send(FROM, *messages, partition=partition)

    def published(self, partition: int) -> list[bytes | None]:
        """Return what a reader of committed records finds in a partition of the target."""
        entries = self.cluster.partition(INTO, partition).entries
        return [each.message.value for each in entries if each.readable]

    def sent(self, partition: int) -> list[bytes | None]:
        """Return what is in a partition of the source."""
        entries = self.cluster.partition(FROM, partition).entries
        return [each.message.value for each in entries if each.readable]

    def offsets(self) -> dict[bytes, bytes]:
        """Return what the offsets topic holds."""
        return dict(MemoryLedger(self.coordinator, OFFSETS).look().entries)

    def write_offsets(self, *entries: tuple[bytes, bytes | None]) -> None:
        """Write to the offsets topic without a transaction, as people do."""
        self.cluster.send(OFFSETS, *(Message(value, key) for key, value in entries))

    def make(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        self.cluster.create(topic, partitions)

    def make_again(self, topic: str) -> None:
        """Delete a topic and create it again, with as many partitions."""
        count = len(self.cluster.topic(topic).partitions)
        del self.cluster._topics[topic]
        self.cluster.create(topic, count)

    def run(
        self, until: Until = "caught-up", *, act: Act = lambda _: "", **changes: object
    ) -> Publisher:
        """Run the publication."""
        publisher = self.publisher(until, act=act, **changes)
        publisher.run(threading.Event())
        return publisher

    def publisher(
        self, until: Until = "caught-up", *, act: Act = lambda _: "", **changes: object
    ) -> Publisher:
        """Return a run of the publication that has not begun."""
        number = next(self._owners)
        publication = replace(
            Publication(
                name="orders",
                pipeline="shop",
                group="penstock",
                into=INTO,
                offsets_topic=OFFSETS,
                rules_hash="r",
                start="earliest",
                source={},
                target={},
                limit=EpochLimit(self.rows_max, 1 << 30),
            ),
            **{**self.chosen(), **changes},
        )
        environment = PublishingEnvironment(
            ports=self.ports(publication, act),
            store=self.store,
            engine=FaultyEngine(partial(self._done, act), act),
            observer=Watch(act, self.events),
            clock=self.clock,
            owner=Owner(f"run-{number}", "here", number),
            jitter=lambda: 0.0,
            token=lambda: f"t{next(self._owners)}",
            start_heartbeat=NoHeartbeat,
        )
        return Publisher(publication, environment, until, takeover=True)

    def ports(self, publication: Publication, act: Act = lambda _: "") -> PublicationPorts:
        """Return what the publication reads and writes."""
        return PublicationPorts(
            self.source(), self.targets(publication), self.producers(publication, act)
        )

    def targets(self, publication: Publication) -> MemoryLog:
        """Return the list of what is written."""
        return MemoryLog(self.cluster, {"topics": [*publication.written]})

    def producers(self, publication: Publication, act: Act = lambda _: "") -> Producers:
        """Return what ends transactions."""
        is_library = publication.target.get("client") == "librdkafka"
        terms = FaultyProducerTerms if is_library else FaultyTerms
        return Producers(
            terms(self.coordinator, act),
            FaultyLedger(self.coordinator, publication.offsets_topic, act),
            MemoryHeads(self.coordinator),
            MemoryTopics(self.cluster),
        )

    def source(self) -> Source:
        """Return what is published."""
        return TopicSource(MemoryLog(self.cluster, {"topics": [FROM]}), FROM)

    def _done(self, act: Act, text: str) -> str:
        if is_share(text):
            own = share_from_json(text)
            share = Share(
                own.publication,
                self.targets(own.publication),
                self.producers(own.publication, act),
                InlineEngine(self._work),
                Watch(act, self.events),
                own.task,
            )
            return share_result_to_json(end_share(own, share))
        return self._work(text)

    def _work(self, text: str) -> str:
        job = job_from_json(text)
        reader = TopicReader(MemoryReader(self.cluster, self.clock, batch_records=3))
        return result_to_json(send(job, job.work, reader, self.tools(job)))

    def tools(self, job: SendJob) -> SendTools:
        """Return what a worker works with."""
        packer = MemoryPacker(batch_bytes_max=job.batch_bytes_max or BATCH_BYTES_MAX)
        return SendTools(packer, MemorySender(self.coordinator), self.clock, threads=3)


class Watch:
    """Listens, and strikes at crash points."""

    def __init__(self, act: Act, events: list[Event]) -> None:
        self._act, self._events = act, events

    def __call__(self, event: Event) -> None:
        """Keep an event."""
        self._events.append(event)

    def passed(self, point: CrashPoint) -> None:
        """Strike, perhaps."""
        self._act(point)


class FaultyTerms(MemoryTerms):
    """Terms whose answers may be lost."""

    def __init__(self, coordinator: MemoryCoordinator, act: Act) -> None:
        super().__init__(coordinator)
        self._act = act

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Renew."""
        self._act("renew")
        return super().renew(transactional_id, term)

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """End; the request or its answer may be lost."""
        fault = self._act("end")
        if fault == "lost request":
            return Refused(NO_ANSWER, "lost")
        answer = super().end(transactional_id, term)
        self._act("ended")
        return Refused(NO_ANSWER, "lost") if fault == "lost" else answer


class FaultyProducerTerms(MemoryProducerTerms):
    """Terms of producers whose answers may be lost."""

    def __init__(self, coordinator: MemoryCoordinator, act: Act) -> None:
        super().__init__(coordinator)
        self._act = act

    def take(self, transactional_id: str) -> Term:
        """Take; much may happen before, and before what was taken is used."""
        self._act("take")
        term = super().take(transactional_id)
        self._act("taken")
        return term

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """End; the request or its answer may be lost."""
        fault = self._act("end")
        if fault == "lost request":
            return Refused(NO_ANSWER, "lost")
        answer = super().end(transactional_id, term)
        self._act("ended")
        return Refused(NO_ANSWER, "lost") if fault == "lost" else answer


class FaultyLedger(MemoryLedger):
    """An offsets topic whose answers may be lost."""

    def __init__(self, coordinator: MemoryCoordinator, topic: str, act: Act) -> None:
        super().__init__(coordinator, topic)
        self._act = act

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Append; the answer may be lost."""
        answer = super().append(transactional_id, term, entries)
        return Refused(NO_ANSWER, "lost") if self._act("append") == "lost" else answer


class FaultyEngine(InlineEngine):
    """An engine whose tasks may die after they sent, or not be seen to have run once."""

    def __init__(self, work: Callable[[str], str], act: Act) -> None:
        super().__init__(work, capacity=1)
        self._act = act

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs, one of them again; or no answer comes."""
        fault = self._act("work")
        results = list(super().run(jobs))
        if fault == "twice":
            results[0] = super().run(jobs[:1])[0]
        if fault == "lost":
            raise UnavailableError("workers died", code="P606", hint="run again")
        return results

    def capacity(self) -> int:
        """Return two: partitions are shared between jobs."""
        return 2

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs."""
        fault = self._act("work")
        texts = super().run(jobs)
        results = [JobResult(text, ran_once=True) for text in texts]
        if fault == "twice":
            results[0] = JobResult(results[0].text, ran_once=False)
        if fault == "lost":
            results[-1] = JobResult(None, ran_once=False)
        return results


def live(world: PublishingWorld, chance: random.Random) -> None:
    """Run a publication while chance has it die, be replaced, lose its id, or get no answer."""
    depth = 0

    def act(step: str) -> str:
        nonlocal depth
        drawn = chance.random()
        if drawn < 0.04:
            raise Crash(step)
        if drawn < 0.07 and depth < 2:
            depth += 1
            try:
                run()
            finally:
                depth -= 1
        if drawn < 0.09 and world.coordinator._ids:
            world.coordinator.expire(chance.choice([*world.coordinator._ids]))
        return chance.choice(["", "", "lost", "lost request", "twice"]) if drawn < 0.25 else ""

    def run() -> None:
        until: Sequence[Until] = ["once", "caught-up"]
        with suppress(Crash):
            world.run(chance.choice(until), act=act)

    run()
