"""What crosses between the driver of a publication and its workers: a job and a result, as JSON.

Invariants:
- a job and its result survive `from_json(to_json(x)) == x`; another version is refused;
- all stretches of one job go into partitions that no other job of the epoch writes.
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

JOB_VERSION = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """A stretch of the source, and the partition that its messages go into."""

    stretch: Stretch
    into: TopicPartition


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
    deliveries: tuple[Delivery, ...]
    timeout_seconds: float
    batch_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far a stretch was read, and its messages."""

    of: SourcePartition
    reached: Position
    rows: int


@dataclass(frozen=True, slots=True)
class SendResult:
    """What one task sent; with `refused` the transaction must not end.

    With `batch_bytes_max` it was refused because a batch was larger than that.
    """

    number: int
    delivered: tuple[Delivered, ...] = ()
    sent: Mapping[TopicPartition, Batches] = field(default_factory=dict)
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
            "deliveries": [
                [
                    list(astuple(each.stretch)),
                    _place(each.into),
                ]
                for each in job.deliveries
            ],
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
            deliveries=tuple(
                Delivery(Stretch(*stretch), TopicPartition(*into))
                for stretch, into in data["deliveries"]
            ),
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
            "delivered": [[each.of, each.reached, each.rows] for each in result.delivered],
            "sent": [
                [_place(at), [it.first, it.last, it.records, it.count, it.crc_sum]]
                for at, it in result.sent.items()
            ],
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
            sent={TopicPartition(*at): Batches(*batches) for at, batches in data["sent"]},
            refused=None if refused is None else Refused(*refused),
            batch_bytes_max=data["batch_bytes_max"],
        )


def _place(at: TopicPartition) -> list[Any]:
    return [at.topic_id, at.partition, at.topic]
