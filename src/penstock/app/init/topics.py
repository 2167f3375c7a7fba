"""The topics of a cluster: how many records each has, and a sample of them.

Invariants:
- reading is bounded in topics, and in each as `plan` is (sampling.py); topics that were not read
  are counted;
- of each topic it samples the records that `plan` would read for a table of this topic alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from shlex import quote
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.sample.backlog import Backlog
from penstock.app.inspect.sample.sampling import joined, sampled
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import BacklogCounted, WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.waiting import KAFKA
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Observer
from penstock.spec.language.notation import MalformedError, compiled, is_topic_name, pattern
from penstock.spec.model import Pipeline
from penstock.spec.problems import nearest

T = TypeVar("T")

TOPICS_MAX = 500
SAMPLERS = 8

_OWN = re.compile(r"_.*|(?:.*[-_.])?connect[-_.](?:offsets?|configs?|status(?:es)?)")
"""Names of topics that Kafka, its registry and Connect keep for themselves."""

_PATTERN = re.compile(r"[][^$*+?(){}|\\]")
"""Characters of patterns, and of no topic's name."""
SHOWN_MAX = 10

Progress = Callable[[int, int], None]
"""Gets how many topics were read, of how many; from several threads, one at a time."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, with a sample of its records; `failure` says why there is none.

    `records` counts positions, an upper bound of the records there are.
    """

    name: str
    partitions: int
    records: int
    batch: pa.RecordBatch | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class SampledTopics(Generic[T]):
    """What was made of the topics that were read, by name, and how many more there are."""

    topics: tuple[T, ...]
    left: int = 0


def sample_topics(
    pipeline: Pipeline,
    topics: str | None,
    make: Callable[[Topic], T],
    progress: Progress,
    observer: Observer,
) -> SampledTopics[T]:
    """Sample the chosen topics of a cluster, several at once; `make` is called from threads.

    `observer` gets what is waited for, until `progress` gets how far it is.

    Raises InvalidError (P168) where the choice names none, UnavailableError.
    """
    with closing(assembly.open_log(pipeline)) as log:
        observer(WaitBegan(KAFKA))
        listing = log.partitions()
        names = chosen({at.topic for at in listing}, topics)
        listing = [at for at in listing if at.topic in names]
        bounds = log.bounds(listing)
    observer(BacklogCounted({}, {}, {}))  # the wait is over
    partitions: dict[str, dict[TopicPartition, Bounds]] = {at.topic: {} for at in listing}
    for at, found in bounds.items():
        partitions[at.topic][at] = found
    sampled = names[:TOPICS_MAX]
    guard, counted = threading.Lock(), count(1)

    def reported(made: T) -> T:
        with guard:
            progress(next(counted), len(sampled))
        return made

    def sample_share(share: Sequence[str]) -> list[tuple[str, T]]:
        with closing(assembly.open_reader(pipeline)) as reader:
            topics = (topic_of(reader, name, partitions[name]) for name in share)
            return [(topic.name, reported(make(topic))) for topic in topics]

    shares = [share for n in range(SAMPLERS) if (share := sampled[n::SAMPLERS])]
    with ThreadPoolExecutor(SAMPLERS) as threads:
        made = dict(each for part in threads.map(sample_share, shares) for each in part)
    return SampledTopics(tuple(made[name] for name in sampled), len(names) - len(sampled))


def chosen(names: set[str], topics: str | None) -> list[str]:
    """Return the requested topics: names separated by commas, or a pattern between slashes.

    Topics that Kafka and its tools keep for themselves are taken by their names only. Raises
    InvalidError (P168).
    """
    others = sorted(name for name in names if _OWN.fullmatch(name) is None)
    if topics is None:
        return others
    if len(topics) > 1 and topics[0] == topics[-1] == "/":
        try:
            sought = compiled(pattern(topics[1:-1]))
        except MalformedError as error:
            raise InvalidError(error.message, code="P168", hint=error.hint) from error
        found = [name for name in others if sought.search(name)]
        if not found:
            raise InvalidError(
                f"the pattern {topics[:80]} finds none of {len(others)} topics",
                code="P168",
                hint=f"there are {', '.join(others[:20])}" if others else "send records first",
            )
        return found
    asked = sorted({name.strip() for name in topics.split(",") if name.strip()})
    for name in asked:
        if name not in names:
            near = nearest(name, sorted(names)) if is_topic_name(name) else ""
            hint = f"--topics {near}" if near else _how_to_choose(topics, others)
            raise InvalidError(f"the cluster has no topic {name[:80]!r}", code="P168", hint=hint)
    if not asked:
        raise InvalidError("--topics names no topic", code="P168", hint="--topics orders,payments")
    return asked


def _how_to_choose(topics: str, there: Sequence[str]) -> str:
    meant = topics.strip("/")
    if _PATTERN.search(meant):
        with suppress(MalformedError):
            compiled(pattern(meant))
            return f"a pattern is written between slashes:  --topics {quote(f'/{meant[:80]}/')}"
    more = f", and {len(there) - SHOWN_MAX} more" if len(there) > SHOWN_MAX else ""
    names = f"there are {', '.join(there[:SHOWN_MAX])}{more}; choose as in  " if there else ""
    return f"{names}--topics orders,payments or --topics '/^shop/'"


def topic_of(reader: RangeReader, name: str, partitions: Mapping[TopicPartition, Bounds]) -> Topic:
    """Return a topic with its sample. Raises UnavailableError."""
    positions = {at: bounds.start for at, bounds in partitions.items()}
    ends = {at: bounds.stop for at, bounds in partitions.items()}
    backlog = Backlog({name: positions}, ends)
    sample = sampled(backlog, {}, reader, SystemClock(), at_once=SAMPLERS)
    failure = sample.failed.get(name)
    if isinstance(failure, UnavailableError):
        raise failure
    return Topic(
        name,
        len(partitions),
        backlog.records(name),
        joined(sample.batches.values()) if sample.batches else None,
        failure.message if failure else "",
    )
