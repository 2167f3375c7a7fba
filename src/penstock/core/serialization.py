"""The versioned plain-data forms of what outlives a process: ledgers and committables.

Invariants:
- reading back what was written gives an equal value;
- a newer version is refused with what it needs, never half understood;
- parsers take hostile input: anything but the exact form raises InvalidError, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from penstock.core.accounting import Tally
from penstock.core.claims import Generation
from penstock.core.commits import (
    Chain,
    CommitId,
    CommitKind,
    Committable,
    DataFile,
    EpochNumber,
    Landed,
)
from penstock.core.errors import InvalidError
from penstock.core.offsets import LeaderEpochs, Offset, Positions, Progress, TopicPartition, span

Value = TypeVar("Value")

LEDGER_VERSION = 1
COMMITTABLE_VERSION = 1

_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def ledger_to_json(landed: Landed) -> str:
    """Write a ledger as it stands in a table (protocol.md 3), compact and with sorted keys."""
    return _dump(
        {
            "v": LEDGER_VERSION,
            "chain": landed.chain,
            "cluster": landed.cluster_id,
            "generation": landed.generation,
            "owner": landed.owner,
            "segment": landed.segment,
            "rules": landed.rules_hash,
            "recent": [list(pair) for pair in landed.recent],
            "valid_through_ms": landed.valid_through_ms,
            "leader_epochs": epochs_to_json(landed.leader_epochs),
            "topics": positions_to_json(landed.offsets),
        }
    )


def ledger_from_json(text: str) -> Landed:
    """Read a ledger; raises InvalidError when it is not one or of a newer version."""
    data = _load(text, "ledger", LEDGER_VERSION)
    try:
        return Landed(
            chain=_text(data["chain"]),
            cluster_id=_text(data["cluster"]),
            generation=Generation(_whole(data["generation"])),
            owner=_text(data["owner"]),
            segment=_whole(data["segment"]),
            rules_hash=_text(data["rules"]),
            offsets=positions_from_json(data["topics"]),
            recent=tuple((CommitId(_text(i)), _text(d)) for i, d in _rows(data["recent"])),
            valid_through_ms=_optional(data.get("valid_through_ms")),
            leader_epochs=epochs_from_json(data.get("leader_epochs", [])),
        )
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise _malformed("ledger", error) from error


def committable_to_json(commit: Committable) -> str:
    """Write a committable as it stands in the pending store."""
    return _dump(
        {
            "v": COMMITTABLE_VERSION,
            "chain": commit.chain.name,
            "table": commit.chain.table,
            "uuid": commit.table_uuid,
            "segment": commit.segment,
            "id": commit.commit_id,
            "attempt": commit.attempt,
            "generation": commit.generation,
            "owner": commit.owner,
            "cluster": commit.cluster_id,
            "epoch": commit.epoch,
            "kind": commit.kind.value,
            "progress": progress_to_json(commit.progress),
            "files": [file_to_data(file) for file in commit.files],
            "rules": commit.rules_hash,
            "schema_id": commit.schema_id,
            "valid_through_ms": commit.valid_through_ms,
            "origins": positions_to_json(commit.origins),
            "leader_epochs": epochs_to_json(commit.leader_epochs),
            "tallies": [
                [*_place(at), t.examined, t.landed, t.filtered, t.quarantined]
                for at, t in sorted(commit.tallies.items())
            ],
        }
    )


def committable_from_json(text: str) -> Committable:
    """Read a committable; raises InvalidError when it is not one or of a newer version."""
    data = _load(text, "pending commit", COMMITTABLE_VERSION)
    try:
        return Committable(
            chain=Chain(_text(data["chain"]), _text(data["table"])),
            table_uuid=_text(data["uuid"]),
            segment=_whole(data["segment"]),
            commit_id=CommitId(_text(data["id"])),
            attempt=_text(data["attempt"]),
            generation=Generation(_whole(data["generation"])),
            owner=_text(data["owner"]),
            cluster_id=_text(data["cluster"]),
            epoch=EpochNumber(_whole(data["epoch"])),
            kind=CommitKind(data["kind"]),
            progress=progress_from_json(data["progress"]),
            files=tuple(map(file_from_data, _list(data["files"]))),
            rules_hash=_text(data["rules"]),
            schema_id=_whole(data["schema_id"]),
            valid_through_ms=_optional(data["valid_through_ms"]),
            origins=positions_from_json(data["origins"]),
            leader_epochs=epochs_from_json(data.get("leader_epochs", [])),
            tallies=_by_place(
                (place, Tally(_natural(x), _natural(y), _counts(f), _counts(q)))
                for *place, x, y, f, q in _rows(data["tallies"])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise _malformed("pending commit", error) from error


def positions_to_json(positions: Positions) -> dict[str, Any]:
    """Group positions by topic id: `{id: {name, offsets: {partition: next offset}}}`."""
    topics: dict[str, Any] = {}
    for at, offset in sorted(positions.items()):
        topic = topics.setdefault(at.topic_id, {"name": at.topic, "offsets": {}})
        topic["offsets"][str(at.partition)] = offset
    return topics


def positions_from_json(topics: Mapping[str, Any]) -> dict[TopicPartition, Offset]:
    """Read positions back; raises KeyError, TypeError or ValueError on another form."""
    return {
        TopicPartition(topic_id, _number(partition), _text(topic["name"])): Offset(_natural(offset))
        for topic_id, topic in topics.items()
        for partition, offset in _filled(topic["offsets"]).items()
    }


def epochs_to_json(epochs: LeaderEpochs) -> list[list[Any]]:
    """List leader epochs as `[topic id, partition, topic, epoch]` in order."""
    return [[*_place(at), epoch] for at, epoch in sorted(epochs.items())]


def epochs_from_json(rows: list[list[Any]]) -> dict[TopicPartition, int]:
    """Read leader epochs back; raises TypeError or ValueError on another form."""
    return _by_place((place, _natural(epoch)) for *place, epoch in _rows(rows))


def progress_to_json(progress: Progress) -> list[list[Any]]:
    """List ranges as `[topic id, partition, topic, start, stop]` in order."""
    return [[*_place(at), r.start, r.stop] for at, r in sorted(progress.items())]


def progress_from_json(rows: list[list[Any]]) -> Progress:
    """Read ranges back; raises TypeError or ValueError on another form."""
    return _by_place(
        (place, span(_natural(start), _natural(stop))) for *place, start, stop in _rows(rows)
    )


def file_to_data(file: DataFile) -> dict[str, Any]:
    """Return the plain-data form of a file description."""
    return {
        "path": file.path,
        "records": file.record_count,
        "bytes": file.size_bytes,
        "ranges": progress_to_json(file.ranges),
        "partition": file.partition,
        "detail": file.detail,
    }


def file_from_data(data: Mapping[str, Any]) -> DataFile:
    """Read a file description back; raises KeyError, TypeError or ValueError on another form."""
    return DataFile(
        path=_text(data["path"]),
        record_count=_natural(data["records"]),
        size_bytes=_natural(data["bytes"]),
        ranges=progress_from_json(data["ranges"]),
        partition=_text(data["partition"]),
        detail=_text(data["detail"]),
    )


def _dump(data: Mapping[str, Any]) -> str:
    return _ENCODER.encode(data)


def _load(text: str, what: str, version_max: int) -> dict[str, Any]:
    try:
        data = json.loads(text)
        version = _positive(data["v"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _malformed(what, error) from error
    if version > version_max:
        raise InvalidError(
            f"this {what} has version {version}, and this penstock reads up to {version_max}",
            code="P190",
            hint="use the newer penstock that wrote it, or upgrade this one",
        )
    return dict(data)


def _malformed(what: str, error: Exception) -> InvalidError:
    return InvalidError(
        f"this is not a {what} of Penstock: {type(error).__name__}: {error}",
        code="P191",
        hint="it was edited or damaged by others; restore it from a backup",
    )


def _rows(value: Any) -> list[list[Any]]:
    """Return a list of lists, or raise: a text would pass as a row of its letters."""
    return [_list(each) for each in _list(value)]


def _list(value: Any) -> list[Any]:
    """Return a list; raise for anything else: what has no members would pass as an empty list."""
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def _filled(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise TypeError(f"an object with members was expected, not {value!r}")
    return value


def _place(at: TopicPartition) -> list[Any]:
    return [at.topic_id, at.partition, at.topic]


def _by_place(pairs: Iterable[tuple[list[Any], Value]]) -> dict[TopicPartition, Value]:
    found: dict[TopicPartition, Value] = {}
    for (topic_id, partition, topic), value in pairs:
        at = TopicPartition(_text(topic_id), _whole(partition), _text(topic))
        if at in found:
            raise ValueError(f"{at} is there twice")
        found[at] = value
    return found


def _number(text: str) -> int:
    """Read a whole number as it is written here: `00`, `1_0` and ` 1` are none."""
    number = int(text)
    if text != str(number):
        raise ValueError(f"{text!r} is no number of a partition")
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not {value!r}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number was expected, not {value!r}")
    return value


def _natural(value: Any) -> int:
    number = _whole(value)
    if number < 0:
        raise ValueError(f"a number from 0 on was expected, not {number}")
    return number


def _positive(value: Any) -> int:
    number = _whole(value)
    if number < 1:
        raise ValueError(f"a number from 1 on was expected, not {number}")
    return number


def _counts(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError(f"counts by reason were expected, not {value!r}")
    return {reason: _natural(count) for reason, count in value.items()}


def _optional(value: Any) -> int | None:
    return None if value is None else _whole(value)
