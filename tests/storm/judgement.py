"""The verdict when a storm is over: every record, every file, and Spark's own reading.

Invariants:
- what is right is decided by Kafka's own records and `json.loads`, value by value;
- what metadata says of every live file, other writers' too, is compared with what the file holds;
- lost is what lies below something that landed after it; what lies above all is not landed: its
  table was parked, say, and may still take it;
- tables with keys have the last record of each slot, if it has a value and no other writer has
  deleted its row;
- a mirror has in each partition the records of the topic, in their order, and its audit agrees;
  librdkafka and Spark's own source of Kafka read the same of it, record by record;
- a leftover is a data file that no table ever needed; what other writers replaced is none;
- it counts as attributed only when its name gives pipeline, epoch, slice and attempt, and a
  life of that pipeline ran when it was written; other writers' files are known by their names,
  and so are those of maintenance, whose process may outlive the life that began it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from tests.crash.field import expected_row, folded
from tests.crash.values import Compared, compared
from tests.servers.warm import warm_penstock
from tests.storm.lives import Life
from tests.storm.other_writers import OtherWriters, in_spark
from tests.storm.stage import KEY, KEYED, TOPIC, Pipe, Stage, path_of
from tests.story.oracle import (
    Coordinate,
    Finding,
    Record,
    Row,
    committed_records,
    compare,
    same,
)

ATTEMPT = re.compile(
    r"(?P<pipe>[a-z]+)([+-]\d+)?-(?P<epoch>\d+)-(?P<slice>\d+)-(?P<token>[0-9a-f]{8})(-sought-\d+)?(-q)?-"
)
MAINTENANCE = re.compile(
    r"(?P<pipe>[a-z]+)([+-]\d+)?-maintenance-[0-9a-f]{8}-[0-9a-f]{16}\.parquet"
)
FOREIGN_NAME = re.compile(r"(\d{5}-\d+|part-\d{5})-[0-9a-f-]{36}(-[0-9a-z]+)*(\.[a-z]+)?\.parquet")
ROW_DELETES = re.compile(r".*-deletes(-.*)?\.parquet|deletion_vector_.*")
_DELTA_LOG = "_delta_log"
SLACK_SECONDS = 2.0
LOST, NOT_LANDED = "lost", "not landed"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Data files that no table needs: by writer, and those of unknown origin."""

    by: Mapping[str, int]
    attempts: int
    unknown: Sequence[str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is there when all is over."""

    records: int
    without_value: int
    rows: Mapping[str, int]
    refused: int
    published: Mapping[str, int]
    audits: Sequence[str]
    findings: Sequence[Finding]
    others_wrong: Sequence[str]
    spark_differs: Sequence[str]
    values: Compared
    read_by_spark: int
    leftovers: Leftovers


def judgement_of(
    stage: Stage,
    lives: Sequence[Life],
    others: OtherWriters,
    *,
    spark: bool = True,
) -> Judgement:
    """Judge the tables of a stage; nothing may be at work on them any more."""
    records = committed_records(stage.direct, [TOPIC])
    landing = [record for record in records if record.value is not None]
    if spark:
        ended = in_spark(stage, "read")
        assert 0 == ended.returncode, ended.stderr[-3000:]
    findings: list[Finding] = []
    wrong: list[str] = []
    differs: list[str] = []
    rows: dict[str, int] = {}
    refused = 0
    for pipe in stage.pipes:
        if pipe.into:
            continue
        rejects = stage.rows(pipe.quarantine)
        refused += len(rejects)
        for table in pipe.tables:
            all_ = stage.rows(table)
            rows[table] = len(all_)
            ours = [row for row in all_ if row["_kafka_offset"] is not None]
            expected = folded_without(records, others.deleted.get(table, set()))
            found = compare(
                table, expected if table in KEYED else landing, expected_row, ours, rejects
            )
            findings += told_apart(found, ours, [r for r in rejects if r["table"] == table])
            wrong += _wrong_of_others(table, all_, others.rows.get(table, set()))
            differs += _differs(stage, table, all_) if spark else []
        differs += _differs(stage, pipe.quarantine, rejects) if spark else []
    published: dict[str, int] = {}
    for pipe in stage.mirrors:
        copies = committed_records(stage.direct, [pipe.into])
        published[pipe.into] = len(copies)
        findings += mirrored(pipe.into, records, copies)
        differs += read_otherwise(pipe.into, copies, by_spark(stage, pipe.into)) if spark else []
    return Judgement(
        published=published,
        audits=[each for pipe in stage.mirrors for each in _audited(stage, pipe)],
        records=len(records),
        without_value=len(records) - len(landing),
        rows=rows,
        refused=refused,
        findings=findings,
        others_wrong=wrong,
        spark_differs=differs,
        values=_values(stage),
        read_by_spark=sum((*rows.values(), *published.values())) + refused if spark else 0,
        leftovers=leftovers(stage, lives, others.replaced),
    )


def mirrored(topic: str, records: Sequence[Record], copies: Sequence[Record]) -> list[Finding]:
    """Find what a mirror has not, what it has twice or besides, and what is not in its place."""
    found: list[Finding] = []
    for number in sorted({each.at.partition for each in (*records, *copies)}):
        wanted, there = (
            [each for each in those if each.at.partition == number] for those in (records, copies)
        )
        left, before = Counter(map(_content, there)), len(found)
        for each in wanted:
            if left[_content(each)]:
                left[_content(each)] -= 1
            else:
                found.append(Finding(LOST, topic, each.at, "it is not in the mirror"))
        known = {*map(_content, wanted)}
        for each in reversed(there):
            if left[_content(each)]:
                left[_content(each)] -= 1
                kind = "doubled" if _content(each) in known else "foreign"
                found.append(Finding(kind, topic, each.at, "the topic does not have it"))
        if len(found) == before and [*map(_content, wanted)] != [*map(_content, there)]:
            found.append(Finding("out of order", topic, there[0].at, "the order is another one"))
    return found


def by_spark(stage: Stage, topic: str) -> list[Record]:
    """Return the committed records of a topic as Spark read them."""
    found = pq.read_table(stage.directory / "by-spark" / topic).to_pylist()
    return [
        Record(
            Coordinate(each["topic"], each["partition"], each["offset"]),
            round(each["timestamp"].timestamp() * 1000),
            each["key"],
            each["value"],
            tuple((header["key"], header["value"]) for header in each["headers"] or ()),
        )
        for each in found
    ]


def read_otherwise(topic: str, copies: Sequence[Record], others: Sequence[Record]) -> list[str]:
    """Compare the committed records of a topic as librdkafka and as Spark read them."""
    mine, spark = ({each.at: each for each in those} for those in (copies, others))
    unlike = sorted(at for at in mine.keys() | spark.keys() if mine.get(at) != spark.get(at))
    unlike += sorted(at for at, times in Counter(each.at for each in others).items() if times > 1)
    if not unlike:
        return []
    first = f"{mine.get(unlike[0])}, {spark.get(unlike[0])}"
    return [f"{topic}: {len(unlike)} records are others by Spark: {first}"]


def _content(record: Record) -> tuple[Any, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers


def _audited(stage: Stage, pipe: Pipe) -> list[str]:
    """Return what the audit of a publication finds."""
    words = ("audit", "--spec", stage.spec(pipe), "--count")
    done = warm_penstock(*words, environment={}, directory=stage.spec(pipe).parent)
    return [f"the audit of {pipe.name}: {done.out}{done.err}"] if done.code else []


def folded_without(
    records: Sequence[Record], deleted: AbstractSet[tuple[int, int]]
) -> list[Record]:
    """Return the records that a table with keys must have, less those that others deleted."""
    return [
        each for each in folded(records, KEY) if (each.at.partition, each.at.offset) not in deleted
    ]


def _values(stage: Stage) -> Compared:
    """Compare the metadata of all tables with what their files hold, past the liar."""
    names: dict[str, list[str]] = {"lake": [], "delta": []}
    for table in stage.everything:
        catalog, _, name = table.partition(".")
        names[catalog].append(name)
    lake = compared("iceberg", {"type": "rest", "uri": stage.catalog}, names["lake"])
    delta = {"type": "delta", "root": str(stage.directory / "delta")}
    return lake + compared("delta", delta, names["delta"])


def told_apart(
    findings: Sequence[Finding], rows: Sequence[Row], rejects: Sequence[Row]
) -> list[Finding]:
    """Call what is above every landed offset not landed, instead of lost."""
    places = [(row["_kafka_partition"], row["_kafka_offset"]) for row in rows]
    places += [(row["partition"], row["offset"]) for row in rejects]
    tops: dict[int, int] = {}
    for partition, offset in places:
        tops[partition] = max(offset, tops.get(partition, -1))
    return [
        replace(each, kind=NOT_LANDED)
        if each.kind == LOST and each.at.offset > tops.get(each.at.partition, -1)
        else each
        for each in findings
    ]


def _wrong_of_others(table: str, rows: Sequence[Row], confirmed: set[int]) -> list[str]:
    """Find rows of other writers that are missing or doubled."""
    there = Counter(row["id"] for row in rows if row["_kafka_offset"] is None)
    gone = sorted(confirmed - set(there))
    twice = sorted(each for each, count in there.items() if count > 1)
    found = [f"{table}: rows {gone} of other writers are missing"] if gone else []
    return found + ([f"{table}: rows {twice} of other writers are doubled"] if twice else [])


def _differs(stage: Stage, table: str, rows: Sequence[Row]) -> list[str]:
    """Compare the rows as the table's library and as Spark reads them.

    PyIceberg gives lists that are null as empty ones.
    """
    by_spark = pq.read_table(stage.directory / "by-spark" / table).to_pylist()
    rows = [{**row, "headers": row["headers"] or None} if "headers" in row else row for row in rows]
    if len(by_spark) != len(rows):
        return [f"{table}: {len(rows)} rows, and {len(by_spark)} by Spark"]
    pairs = zip(sorted(rows, key=_key), sorted(by_spark, key=_key), strict=True)
    unlike = [(mine, other) for mine, other in pairs if not same(mine, other)]
    if not unlike:
        return []
    mine, other = unlike[0]
    differences = [
        f"{k}: {mine.get(k)!r}, {other.get(k)!r}" for k in mine if mine[k] != other.get(k)
    ]
    return [f"{table}: {len(unlike)} rows are others by Spark: {'; '.join(differences)}"]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Order rows: refused records, rows of ours, rows of other writers."""
    if "_kafka_offset" not in row:
        return (row["table"], row["partition"], row["offset"])
    at = (row["_kafka_partition"], row["_kafka_offset"])
    return (-1, -1, row["id"]) if at[1] is None else (*at, row["id"])


def leftovers(stage: Stage, lives: Sequence[Life], replaced: AbstractSet[Path]) -> Leftovers:
    """Return where every data file came from that no table needs any more."""
    by: Counter[str] = Counter()
    attempts: set[str] = set()
    unknown: list[str] = []
    for table in stage.everything:
        place, needed = _files(stage, table)
        for path in {each for each in place.rglob("*.parquet") if _DELTA_LOG not in each.parts}:
            if path in needed or path in replaced:
                continue
            attempt, moved = ATTEMPT.match(path.name), MAINTENANCE.fullmatch(path.name)
            life = _life(lives, attempt["pipe"], path.stat().st_mtime) if attempt else None
            if life is not None and attempt is not None:
                attempts.add(attempt[0])
                by[f"an attempt of a life that ended by: {life.blow}"] += 1
            elif ROW_DELETES.fullmatch(path.name):
                by["row deletes that were replaced"] += 1
            elif moved and moved["pipe"] in {pipe.name for pipe in stage.pipes}:
                by["maintenance that was killed or yielded, or whose files were replaced"] += 1
            elif FOREIGN_NAME.fullmatch(path.name):
                by["strangers"] += 1
            else:
                unknown.append(str(path))
    return Leftovers(by, len(attempts), unknown)


def _life(lives: Sequence[Life], pipe: str, written: float) -> Life | None:
    """Find the life that was there when a file was written; the later of two."""
    fits = [
        each
        for each in lives
        if each.pipe == pipe and each.began - SLACK_SECONDS <= written <= each.ended + SLACK_SECONDS
    ]
    return max(fits, key=lambda each: each.began, default=None)


def _files(stage: Stage, table: str) -> tuple[Path, AbstractSet[Path]]:
    """Return the place of a table, and the data files it needs, or once needed: Delta's log."""
    if table.startswith("delta."):
        place = stage.place(table)
        log = [line for path in (place / _DELTA_LOG).glob("*.json") for line in path.open()]
        added = [json.loads(line)["add"]["path"] for line in log if line.startswith('{"add"')]
        return place, {place / unquote(each) for each in added}
    lake = stage.iceberg(table)
    if lake is None:
        return stage.directory / "nowhere", frozenset()
    files = [file for each in lake.scan().plan_files() for file in (each.file, *each.delete_files)]
    return path_of(lake.location()), {path_of(each.file_path) for each in files}
