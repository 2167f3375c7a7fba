"""The versioned plain-data forms of what outlives a process: ledgers and committables.

Invariants:
- reading back what was written returns an equal value;
- a newer version is rejected with what it needs, never half understood;
- parsers take hostile input: anything but the exact form raises InvalidError, nothing else.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
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
    Keyed,
    Landed,
)
from penstock.core.offsets import LeaderEpochs, Offset, Positions, Progress, TopicPartition, span
from penstock.core.plain_data import (
    ENCODER,
    as_counts,
    as_list,
    as_natural,
    as_rows,
    as_text,
    as_truth,
    as_whole,
    reading,
    refusing,
)

Value = TypeVar("Value")

LEDGER_VERSION = 4
"""Of a chain whose topics have grown; of a keyed chain with a sequence it is 3, without one 2, and
of a chain that appends 1. A release that knows no keys, no sequence, or no partitions that wait,
would land other rows, and must not read it."""
COMMITTABLE_VERSION = 3
"""Of a row delta with a sequence; without one it is 2, and of other commits 1, as for ledgers."""


def ledger_to_json(landed: Landed) -> str:
    """Write a ledger as it is kept in a table (protocol.md 3), compact and with sorted keys."""
    return ENCODER.encode(
        {
            "v": _version_of(landed),
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
            **({} if landed.keyed is None else {"keyed": _keyed_with_since(landed.keyed)}),
            **(
                {"grown": [positions_to_json(each) for each in landed.grown]}
                if landed.grown
                else {}
            ),
            **_given(purged_through_ms=landed.purged_through_ms),
        }
    )


def _version_of(landed: Landed) -> int:
    if landed.grown:
        return 4
    return 1 if landed.keyed is None else 3 if landed.keyed.sequence else 2


def ledger_from_json(text: str) -> Landed:
    """Read a ledger; raises InvalidError when it is not one or of a newer version."""
    with reading(text, "ledger", LEDGER_VERSION) as data:
        return Landed(
            chain=as_text(data["chain"]),
            cluster_id=as_text(data["cluster"]),
            generation=Generation(as_whole(data["generation"])),
            owner=as_text(data["owner"]),
            segment=as_whole(data["segment"]),
            rules_hash=as_text(data["rules"]),
            offsets=positions_from_json(data["topics"]),
            recent=tuple((CommitId(as_text(i)), as_text(d)) for i, d in as_rows(data["recent"])),
            valid_through_ms=_optional(data.get("valid_through_ms")),
            leader_epochs=epochs_from_json(data.get("leader_epochs", [])),
            keyed=_keyed(data),
            grown=tuple(positions_from_json(each) for each in as_list(data.get("grown", []))),
            purged_through_ms=_optional(data.get("purged_through_ms")),
        )


def _keyed_with_since(keyed: Keyed) -> dict[str, Any]:
    places = {"since": keyed.since, "compares_from": keyed.compares_from}
    given = {name: positions_to_json(each) for name, each in places.items() if each}
    return {**keyed_to_data(keyed), **given}


def keyed_to_data(keyed: Keyed) -> dict[str, Any]:
    """Return the plain-data form of how a chain changes rows, without since where.

    Keys with a sequence have another name: a release that knows no sequence does not read them.
    """
    keys = {"keys": [*keyed.keys], "compares_offsets": keyed.compares_offsets}
    if not keyed.sequence:
        return keys
    return {"sequenced_keys": keys.pop("keys"), "sequence": [*keyed.sequence], **keys}


def keyed_from_data(data: Mapping[str, Any]) -> Keyed:
    """Read it back; raises KeyError, TypeError, ValueError or AssertionError on another form."""
    since = positions_from_json(data.get("since", {}))
    again = positions_from_json(data.get("compares_from", {}))
    compares, sequence = as_truth(data["compares_offsets"]), "sequence" in data
    keys = _names(data["sequenced_keys" if sequence else "keys"])
    return Keyed(keys, compares, since, _names(data["sequence"]) if sequence else (), again)


def keyed_to_text(keyed: Keyed) -> str:
    """Write how a chain changes rows, without since where; equal ones give equal text."""
    return ENCODER.encode(keyed_to_data(keyed))


def keyed_from_text(text: str) -> Keyed:
    """Read how a chain changes rows; raises InvalidError when it is not that."""
    with refusing("keyed ledger"):
        return keyed_from_data(json.loads(text))


def committable_to_json(commit: Committable) -> str:
    """Write a committable as it is kept in the pending store."""
    assert not commit.beside, "what begins other shards lands at once"
    return ENCODER.encode(
        {
            "v": 3 if commit.sequence else 2 if commit.touched is not None or commit.keys else 1,
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
            "tallies": tallies_to_json(commit.tallies),
            **({} if commit.touched is None else {"touched": b64encode(commit.touched).decode()}),
            **({"keys": [*commit.keys]} if commit.keys else {}),
            **({"compares_offsets": True} if commit.compares_offsets else {}),
            **({"sequence": [*commit.sequence]} if commit.sequence else {}),
            **({"ends": positions_to_json(commit.ends)} if commit.ends else {}),
            **({"growths": commit.growths} if commit.growths else {}),
        }
    )


def committable_from_json(text: str) -> Committable:
    """Read a committable; raises InvalidError when it is not one or of a newer version."""
    with reading(text, "pending commit", COMMITTABLE_VERSION) as data:
        return Committable(
            chain=Chain(as_text(data["chain"]), as_text(data["table"])),
            table_uuid=as_text(data["uuid"]),
            segment=as_whole(data["segment"]),
            commit_id=CommitId(as_text(data["id"])),
            attempt=as_text(data["attempt"]),
            generation=Generation(as_whole(data["generation"])),
            owner=as_text(data["owner"]),
            cluster_id=as_text(data["cluster"]),
            epoch=EpochNumber(as_whole(data["epoch"])),
            kind=CommitKind(data["kind"]),
            progress=progress_from_json(data["progress"]),
            files=tuple(map(file_from_data, as_list(data["files"]))),
            rules_hash=as_text(data["rules"]),
            schema_id=as_whole(data["schema_id"]),
            valid_through_ms=_optional(data["valid_through_ms"]),
            origins=positions_from_json(data["origins"]),
            leader_epochs=epochs_from_json(data.get("leader_epochs", [])),
            tallies=tallies_from_json(data["tallies"]),
            touched=b64decode(data["touched"], validate=True) if "touched" in data else None,
            keys=_names(data["keys"]) if "keys" in data else (),
            compares_offsets=as_truth(data.get("compares_offsets", False)),
            sequence=_names(data["sequence"]) if "sequence" in data else (),
            ends=positions_from_json(data.get("ends", {})),
            growths=as_natural(data.get("growths", 0)),
        )


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
        TopicPartition(topic_id, _number(partition), as_text(topic["name"])): Offset(
            as_natural(offset)
        )
        for topic_id, topic in topics.items()
        for partition, offset in _filled(topic["offsets"]).items()
    }


def epochs_to_json(epochs: LeaderEpochs) -> list[list[Any]]:
    """List leader epochs as `[topic id, partition, topic, epoch]` in order."""
    return [[*_place(at), epoch] for at, epoch in sorted(epochs.items())]


def epochs_from_json(rows: list[list[Any]]) -> dict[TopicPartition, int]:
    """Read leader epochs back; raises TypeError or ValueError on another form."""
    return _by_place((place, as_natural(epoch)) for *place, epoch in as_rows(rows))


def progress_to_json(progress: Progress) -> list[list[Any]]:
    """List ranges as `[topic id, partition, topic, start, stop]` in order."""
    return [[*_place(at), r.start, r.stop] for at, r in sorted(progress.items())]


def progress_from_json(rows: list[list[Any]]) -> Progress:
    """Read ranges back; raises TypeError or ValueError on another form."""
    return _by_place(
        (place, span(as_natural(start), as_natural(stop))) for *place, start, stop in as_rows(rows)
    )


def tallies_to_json(tallies: Mapping[TopicPartition, Tally]) -> list[list[Any]]:
    """List tallies as `[topic id, partition, topic, examined, landed, filtered, quarantined]`, and
    what was superseded after them where that is not 0.
    """
    return [
        [
            *_place(at),
            each.examined,
            each.landed,
            each.filtered,
            each.quarantined,
            *([each.superseded] if each.superseded else []),
        ]
        for at, each in sorted(tallies.items())
    ]


def tallies_from_json(rows: list[list[Any]]) -> dict[TopicPartition, Tally]:
    """Read tallies back; raises TypeError or ValueError on another form."""
    return _by_place((row[:3], _tally(*row[3:])) for row in as_rows(rows))


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
        path=as_text(data["path"]),
        record_count=as_natural(data["records"]),
        size_bytes=as_natural(data["bytes"]),
        ranges=progress_from_json(data["ranges"]),
        partition=as_text(data["partition"]),
        detail=as_text(data["detail"]),
    )


def _filled(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise TypeError(f"an object with members was expected, not {value!r}")
    return value


def _place(at: TopicPartition) -> list[Any]:
    return [at.topic_id, at.partition, at.topic]


def _by_place(pairs: Iterable[tuple[list[Any], Value]]) -> dict[TopicPartition, Value]:
    found: dict[TopicPartition, Value] = {}
    for (topic_id, partition, topic), value in pairs:
        at = TopicPartition(as_text(topic_id), as_whole(partition), as_text(topic))
        if at in found:
            raise ValueError(f"{at} occurs twice")
        found[at] = value
    return found


def _number(text: str) -> int:
    """Read a whole number as it is written here: `00`, `1_0` and ` 1` are none."""
    number = int(text)
    if text != str(number):
        raise ValueError(f"{text!r} is no number of a partition")
    return number


def _keyed(ledger: Mapping[str, Any]) -> Keyed | None:
    if ledger["v"] == 1 and "keyed" in ledger:
        raise ValueError("a ledger of version 1 is of no keyed chain")
    if ledger["v"] == 1 or (ledger["v"] == LEDGER_VERSION and "keyed" not in ledger):
        return None
    return keyed_from_data(ledger["keyed"])


def _tally(examined: Any, landed: Any, filtered: Any, refused: Any, *superseded: Any) -> Tally:
    """Read the numbers of a tally; raise TypeError or ValueError where there are others."""
    [more] = [as_natural(each, 1) for each in superseded] or [0]
    return Tally(
        as_natural(examined), as_natural(landed), as_counts(filtered), as_counts(refused), more
    )


def _names(value: Any) -> tuple[str, ...]:
    """Return names of columns, each there once; raise TypeError or ValueError for anything else."""
    names = tuple(as_text(each) for each in as_list(value))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"names were expected, each once, not {value!r}")
    return names


def _given(**values: int | None) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def _optional(value: Any) -> int | None:
    return None if value is None else as_whole(value)
