"""What crosses between the driver of a publication and its workers: a job and a result, as JSON.

Invariants:
- a job and its result survive `from_json(to_json(x)) == x`; another version is refused;
- a job goes into partitions that no other job of the epoch writes: one that encodes rows, which go
  into any, is alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from penstock.core.offsets import TopicPartition
from penstock.core.plain_data import reading
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipts import Batches
from penstock.ports.producers import Refused, Term
from penstock.ports.sources import Stretch
from penstock.rows.encode.rules import MessageRules, rules_from_data, rules_to_data

JOB_VERSION = 2


@dataclass(frozen=True, slots=True)
class Delivery:
    """A stretch of the source, and the partition that its messages go into."""

    stretch: Stretch
    into: TopicPartition


@dataclass(frozen=True, slots=True)
class Encoding:
    """Stretches whose rows become messages, each for the partition that its key says.

    Rows that are no messages go into `rejects`, up to a share; where there are none, they stop it.
    """

    stretches: tuple[Stretch, ...]
    targets: tuple[TopicPartition, ...]
    rules: MessageRules
    rejects: tuple[TopicPartition, ...] = ()
    stop_above_share: float = 0.0


@dataclass(frozen=True, slots=True)
class SendJob:
    """The work of one task: read some stretches and send them under a term.

    `batch_bytes_max` is how large a batch may be where the target takes smaller ones than usual.
    """

    number: int
    transactional_id: str
    term: Term
    source: Mapping[str, Any]
    target: Mapping[str, Any]
    work: tuple[Delivery, ...] | Encoding
    timeout_seconds: float
    batch_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far a stretch was read, its rows, and those that are no messages, by reason or code."""

    of: SourcePartition
    reached: Position
    rows: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendResult:
    """What one task packed and sent; with `refused` the transaction must not end.

    With `batch_bytes_max` it was refused because a batch was larger than that.
    """

    number: int
    delivered: tuple[Delivered, ...] = ()
    packed: Mapping[TopicPartition, int] = field(default_factory=dict)
    sent: Mapping[TopicPartition, Batches] = field(default_factory=dict)
    sent_bytes: int = 0
    refused: Refused | None = None
    batch_bytes_max: int | None = None


def job_to_json(job: SendJob) -> str:
    """Write a job."""
    return json.dumps(
        {
            "v": JOB_VERSION,
            "number": job.number,
            "id": job.transactional_id,
            "term": [job.term.producer_id, job.term.epoch],
            "source": dict(job.source),
            "target": dict(job.target),
            **_work_to_data(job.work),
            "timeout_seconds": job.timeout_seconds,
            "batch_bytes_max": job.batch_bytes_max,
        }
    )


def job_from_json(text: str) -> SendJob:
    """Read a job. Raises InvalidError (P190, P191)."""
    with reading(text, "job of a publication", JOB_VERSION) as data:
        return SendJob(
            number=data["number"],
            transactional_id=data["id"],
            term=Term(*data["term"]),
            source=data["source"],
            target=data["target"],
            work=_work_from_data(data),
            timeout_seconds=data["timeout_seconds"],
            batch_bytes_max=data["batch_bytes_max"],
        )


def result_to_json(result: SendResult) -> str:
    """Write a result."""
    refused = result.refused
    return json.dumps(
        {
            "v": JOB_VERSION,
            "number": result.number,
            "delivered": [
                [each.of, each.reached, each.rows, dict(each.filtered), dict(each.rejected)]
                for each in result.delivered
            ],
            "packed": [[_place(at), count] for at, count in result.packed.items()],
            "sent": [
                [_place(at), [it.first, it.last, it.records, it.count, it.crc_sum]]
                for at, it in result.sent.items()
            ],
            "sent_bytes": result.sent_bytes,
            "refused": None if refused is None else [refused.error, refused.reason],
            "batch_bytes_max": result.batch_bytes_max,
        }
    )


def result_from_json(text: str) -> SendResult:
    """Read a result. Raises InvalidError (P190, P191)."""
    with reading(text, "result of a publication", JOB_VERSION) as data:
        refused = data["refused"]
        return SendResult(
            number=data["number"],
            delivered=tuple(Delivered(*each) for each in data["delivered"]),
            packed={TopicPartition(*at): count for at, count in data["packed"]},
            sent={TopicPartition(*at): Batches(*batches) for at, batches in data["sent"]},
            sent_bytes=data["sent_bytes"],
            refused=None if refused is None else Refused(*refused),
            batch_bytes_max=data["batch_bytes_max"],
        )


def _work_to_data(work: tuple[Delivery, ...] | Encoding) -> dict[str, Any]:
    if isinstance(work, Encoding):
        return {
            "stretches": [stretch_to_data(each) for each in work.stretches],
            "targets": [_place(each) for each in work.targets],
            "rules": rules_to_data(work.rules),
            "rejects": [_place(each) for each in work.rejects],
            "stop_above_share": work.stop_above_share,
        }
    return {"deliveries": [[stretch_to_data(each.stretch), _place(each.into)] for each in work]}


def _work_from_data(data: Mapping[str, Any]) -> tuple[Delivery, ...] | Encoding:
    if "rules" in data:
        return Encoding(
            tuple(Stretch(*each) for each in data["stretches"]),
            tuple(TopicPartition(*each) for each in data["targets"]),
            rules_from_data(data["rules"]),
            tuple(TopicPartition(*each) for each in data["rejects"]),
            data["stop_above_share"],
        )
    return tuple(
        Delivery(Stretch(*stretch), TopicPartition(*into)) for stretch, into in data["deliveries"]
    )


def stretch_to_data(stretch: Stretch) -> list[Any]:
    """Write a stretch as a list."""
    return list(astuple(stretch))


def _place(at: TopicPartition) -> list[Any]:
    return [at.topic_id, at.partition, at.topic]
