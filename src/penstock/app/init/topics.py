"""The topics of a cluster: how many records each has, and a sample of them.

Invariants:
- looking is bounded in topics, and in each as `plan` is (sampling.py); what was not looked at is
  counted;
- of each topic the records are sampled that `plan` would look at for a table of it alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.sample.backlog import Backlog
from penstock.app.inspect.sample.sampling import joined, sampled
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import BacklogCounted, WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.waiting import KAFKA
from penstock.observe.fanout import UNHEARD
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Observer
from penstock.spec.language.notation import MalformedError, compiled, is_topic_name, pattern
from penstock.spec.model import Pipeline
from penstock.spec.problems import nearest

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

TOPICS_MAX = 500
LOOKERS = 8

_OWN = re.compile(r"_.*|(?:.*[-_.])?connect[-_.](?:offsets?|configs?|status(?:es)?)")
"""Names of topics that Kafka, its registry and Connect keep for themselves."""

_PATTERN = re.compile(r"[][^$*+?(){}|\\]")
"""What stands in patterns, and in no topic's name."""

Progress = Callable[[int, int], None]
"""Told how many topics were looked at, of how many; from several threads, one at a time."""


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
class Looked(Generic[T]):
    """What was made of the topics that were looked at, by name, and how many more there are."""

    topics: tuple[T, ...]
    left: int = 0


def look(
    pipeline: Pipeline,
    topics: str | None,
    make: Callable[[Topic], T],
    progress: Progress,
    observer: Observer = UNHEARD,
) -> Looked[T]:
    """Look at the chosen topics of a cluster, several at once; `make` is called from threads.

    `observer` is told what is waited for, until `progress` tells how far it is.

    Raises InvalidError (P168) where the choice names none, UnavailableError.
    """
    with ExitStack() as stack:
        log = assembly.open_log(pipeline)
        stack.callback(log.close)
        observer(WaitBegan(KAFKA))
        listing = log.partitions()
        names = chosen({at.topic for at in listing}, topics)
        listing = [at for at in listing if at.topic in names]
        bounds = log.bounds(listing)
    observer(BacklogCounted({}, {}, {}))  # the wait is over
    partitions: dict[str, dict[TopicPartition, Bounds]] = {at.topic: {} for at in listing}
    for at, found in bounds.items():
        partitions[at.topic][at] = found
    looked = names[:TOPICS_MAX]
    counter = _ProgressCounter(len(looked), progress)

    def look_at(share: Sequence[str]) -> list[tuple[str, T]]:
        reader = assembly.open_reader(pipeline)
        try:
            return [
                (name, counter.count(make(topic_of(reader, name, partitions[name]))))
                for name in share
            ]
        finally:
            reader.close()

    shares = [share for n in range(LOOKERS) if (share := looked[n::LOOKERS])]
    with ThreadPoolExecutor(LOOKERS) as threads:
        made = dict(each for part in threads.map(look_at, shares) for each in part)
    return Looked(tuple(made[name] for name in looked), len(names) - len(looked))


def chosen(names: set[str], topics: str | None) -> list[str]:
    """Return the topics that are asked for: names with commas between, or a pattern in slashes.

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
            hint = f"--topics {near}" if near else _how_to_choose(topics)
            raise InvalidError(f"the cluster has no topic {name[:80]!r}", code="P168", hint=hint)
    if not asked:
        raise InvalidError("--topics names no topic", code="P168", hint="--topics orders,payments")
    return asked


def _how_to_choose(topics: str) -> str:
    """Return how topics are chosen; for what looks like a pattern, how to write one."""
    meant = topics.strip("/")
    if _PATTERN.search(meant):
        with suppress(MalformedError):
            compiled(pattern(meant))
            return f"a pattern is written between slashes:  --topics {quote(f'/{meant[:80]}/')}"
    return "--topics orders,payments or --topics '/^shop/'"


class _ProgressCounter:
    """Counts the topics that were looked at, for all lookers."""

    def __init__(self, of: int, progress: Progress) -> None:
        self._guard, self._done, self._of, self._progress = threading.Lock(), 0, of, progress

    def count(self, made: T) -> T:
        with self._guard:
            self._done += 1
            self._progress(self._done, self._of)
        return made


def topic_of(reader: RangeReader, name: str, partitions: Mapping[TopicPartition, Bounds]) -> Topic:
    """Return a topic with its sample. Raises UnavailableError."""
    positions = {at: bounds.start for at, bounds in partitions.items()}
    ends = {at: bounds.stop for at, bounds in partitions.items()}
    backlog = Backlog({name: positions}, ends)
    sample = sampled(backlog, {}, reader, SystemClock(), at_once=LOOKERS)
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
