"""`penstock init`: look at a cluster's topics, or at another system's configuration; write a spec.

Invariants:
- nothing is overwritten; what is written loads, or the findings are told with it;
- what a topic holds is told from its newest records and never assumed;
- looking is bounded in topics, in partitions of each, and in time; what was not looked at is told.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from penstock.app import assembly
from penstock.app.migrated import Migrated
from penstock.app.migrating import incomplete, migrated
from penstock.app.process import SystemClock
from penstock.app.taking_over import where_it_ended
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.planning import Bounds
from penstock.ports.log import RangeReader
from penstock.spec.load import loads
from penstock.spec.model import Pipeline

Format = Literal["iceberg", "delta"]

RECORDS_MAX = 20
PARTITIONS_MAX = 3
TOPICS_MAX = 500
TOPIC_SECONDS_MAX = 5.0
LOOKERS = 8

Progress = Callable[[int, int], None]
"""Told how many topics were looked at, of how many; from several threads, one at a time."""
SCHEMA_LINE = "# yaml-language-server: $schema=./penstock.schema.json"
UNDECIDED_LINE = (
    "# Not complete: decide each entry of  undecided, write that into the spec, remove the entry."
)
CATALOGS = {
    "iceberg": 'lake: { type: sql, uri: "sqlite:///./lake/catalog.db", warehouse: ./lake }',
    "delta": "delta: { type: delta, root: ./delta }",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic that was looked at. `unfit` says why it cannot land yet, empty when it can."""

    name: str
    partitions: int
    records: int
    unfit: str


@dataclass(frozen=True, slots=True)
class Looked:
    """The topics that were looked at, by name, and how many more there are."""

    topics: tuple[Topic, ...]
    left: int = 0


def draft(
    address: str, to: Format, name: str, progress: Progress = lambda _done, _of: None
) -> tuple[str, Looked]:
    """Write a spec for the topics of `kafka://host:port[,host:port]`; give what was found, too.

    Raises InvalidError (P166) for another address, or when there is no topic; UnavailableError.
    """
    scheme, _, brokers = address.partition("://")
    if scheme != "kafka" or not brokers.strip("/"):
        raise InvalidError(
            f"{address[:80]!r} is no address of a cluster",
            code="P166",
            hint="penstock init --from kafka://localhost:9092 --to iceberg",
        )
    found = look(brokers.strip("/"), to, progress)
    if not found.topics:
        raise InvalidError(
            f"the cluster at {brokers[:80]} has no topics",
            code="P166",
            hint="send records to a topic first",
        )
    return _text(brokers.strip("/"), to, name, found), found


def translated(text: str, *, base: Path | None = None) -> tuple[str, Migrated]:
    """Write a spec from another system's configuration, with the account of its options.

    With a `base`, the directory of the spec, it begins where the other system ended
    (`app.taking_over`, which says what is raised); SpecError where the spec is not whole yet.
    """
    found = migrated(text)
    if base is not None:
        pipeline = loads(yaml.safe_dump(found.spec), base=base)
        ended = where_it_ended(pipeline, found)
        where = found.group or found.application
        found.put(f"where {where} ended", "kafka.start", ended.start)
        found.mapped += [(each.option, "kafka.start, see above") for each in found.beginning]
        found.beginning.clear()
        found.mapped.append(("records behind that", f"{ended.behind:,} in Kafka"))
    account = [f"#   {option} -> {setting}" for option, setting in found.mapped]
    left = [f"#   {option}: {why}" for option, why in found.left]
    spec = incomplete(found)
    lines = [SCHEMA_LINE, f"# From {found.system}. Mapped:", *account]
    lines += ["# Left, and why:", *left] if left else []
    lines += [UNDECIDED_LINE] if "undecided" in spec else []
    body = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join([*lines, body]), found


def keep(path: Path, text: str) -> None:
    """Write a spec where none is. Raises InvalidError (P164)."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise InvalidError(
            f"{path} is there already", code="P164", hint="penstock init another.yaml …"
        ) from error
    except OSError as error:
        raise InvalidError(
            f"{path} cannot be written: {error.strerror}", code="P164", hint=f"ls -ld {path.parent}"
        ) from error


def look(brokers: str, to: Format, progress: Progress) -> Looked:
    """Look at the topics of a cluster that are not Kafka's own, several at once."""
    pipeline = _all_topics(brokers, to)
    with ExitStack() as stack:
        log = assembly.open_log(pipeline)
        stack.callback(log.close)
        listing = [at for at in log.partitions() if not at.topic.startswith("_")]
        bounds = log.bounds(listing)
    partitions: dict[str, dict[TopicPartition, Bounds]] = {at.topic: {} for at in listing}
    for at, found in bounds.items():
        partitions[at.topic][at] = found
    names = sorted(partitions)
    looked = names[:TOPICS_MAX]
    shares = [share for n in range(LOOKERS) if (share := looked[n::LOOKERS])]
    told = _Told(len(looked), progress)
    with ThreadPoolExecutor(LOOKERS) as threads:
        parts = threads.map(lambda share: _look_at(pipeline, share, partitions, told), shares)
        topics = {topic.name: topic for part in parts for topic in part}
    return Looked(tuple(topics[name] for name in looked), len(names) - len(looked))


class _Told:
    """Counts the topics that were looked at, for all lookers."""

    def __init__(self, of: int, progress: Progress) -> None:
        self._guard, self._done, self._of, self._progress = threading.Lock(), 0, of, progress

    def one_more(self) -> None:
        with self._guard:
            self._done += 1
            self._progress(self._done, self._of)


def _look_at(
    pipeline: Pipeline,
    names: Sequence[str],
    partitions: Mapping[str, Mapping[TopicPartition, Bounds]],
    told: _Told,
) -> list[Topic]:
    reader, found = assembly.open_reader(pipeline), []
    try:
        for name in names:
            mine = partitions[name]
            records = sum(bounds.stop - bounds.start for bounds in mine.values())
            try:
                unfit = _unfit(_newest(reader, mine))
            except InvalidError as error:
                unfit = error.message
            found.append(Topic(name, len(mine), records, unfit))
            told.one_more()
    finally:
        reader.close()
    return found


def _newest(reader: RangeReader, partitions: Mapping[TopicPartition, Bounds]) -> list[bytes]:
    """Read the newest records of the partitions that hold most."""
    values: list[bytes] = []
    deadline = SystemClock().monotonic() + TOPIC_SECONDS_MAX
    fullest = sorted(partitions, key=lambda at: partitions[at].start - partitions[at].stop)
    for at in fullest[:PARTITIONS_MAX]:
        bounds = partitions[at]
        start = Offset(max(bounds.start, bounds.stop - RECORDS_MAX))
        if start < bounds.stop:
            read = reader.read(at, OffsetRange(start, bounds.stop), deadline=deadline)
            values += [v for f in read for v in f.batch.column("value").to_pylist() if v]
        if len(values) >= RECORDS_MAX:
            break
    return values


def _unfit(values: Sequence[bytes]) -> str:
    if not values:
        return "no record to look at"
    objects = sum(_is_object(value) for value in values)
    return "" if objects * 2 >= len(values) else "its records are no JSON objects"


def _is_object(value: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(value), dict)
    except msgspec.DecodeError:
        return False


def _all_topics(brokers: str, to: Format) -> Pipeline:
    catalog = "delta" if to == "delta" else "lake"
    data = {
        "name": "init",
        "kafka": {"brokers": brokers, "topics": [{"pattern": ".+"}]},
        "catalogs": yaml.safe_load(CATALOGS[to]),
        "tables": [{"from": ".+", "into": f"{catalog}.a.b"}],
        "quarantine": {"into": f"{catalog}.ops.quarantine"},
    }
    return Pipeline.model_validate(data)


def _text(brokers: str, to: Format, name: str, looked: Looked) -> str:
    catalog, topics = ("delta" if to == "delta" else "lake"), looked.topics
    left = f"\n  # {looked.left} more topics were not looked at" if looked.left else ""
    fit = [topic.name for topic in topics if not topic.unfit]
    read = ", ".join(f'"{each}"' for each in fit or [topics[0].name])
    return f"""{SCHEMA_LINE}
# Written by penstock init. Next: penstock validate, penstock plan, penstock run
name: {name}
kafka:
  brokers: "${{env:BROKERS:-{brokers}}}"
  topics: [{read}]
  start: earliest                 # or latest, or a time such as 2026-11-01T00:00:00Z
catalogs:
  {CATALOGS[to]}
tables:
{chr(10).join(_rules(catalog, topics, any_fit=bool(fit)))}{left}
commit: {{ every: 30s }}            # how long a record waits at most before it is visible
quarantine: {{ into: {catalog}.ops.quarantine }}   # where records go that do not fit
"""


def _rules(catalog: str, topics: Sequence[Topic], *, any_fit: bool) -> Iterator[str]:
    taken: set[str] = set()
    for number, topic in enumerate(topics):
        table = _table(topic.name, taken)
        told = f"{topic.records:,} records in {topic.partitions} partitions"
        if topic.unfit:
            told = f"{told}; {topic.unfit}"
        off = "# " if topic.unfit and (any_fit or number) else ""
        yield f"  # {told}"
        yield (
            f'  {off}- {{ from: "{topic.name}", into: {catalog}.landed.{table}, '
            "schema: { create: true } }"
        )


def _table(topic: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", topic.lower()).strip("_") or "topic"
    name = f"t_{name}" if name[0].isdigit() else name
    found, number = name[:120], 2
    while found in taken:
        found, number = f"{name[:120]}_{number}", number + 1
    taken.add(found)
    return found
