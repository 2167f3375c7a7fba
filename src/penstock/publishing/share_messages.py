"""What crosses between the driver and a worker that ends a transaction of its own, as JSON.

Invariants: a job and its answer survive `from_json(to_json(x)) == x`; another version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.plain_data import reading
from penstock.core.positions import OffsetKey, Position, SourcePartition
from penstock.core.receipts import (
    LedgerRecord,
    Receipt,
    ledger_record_from_json,
    ledger_record_to_json,
    receipt_from_parts,
    receipt_to_parts,
)
from penstock.core.tasks_record import TasksRecord, tasks_record_from_json, tasks_record_to_json
from penstock.ports.sources import Stretch
from penstock.publishing.messages import stretch_to_data
from penstock.publishing.settings import Publication, Rejects
from penstock.rows.encode.rules import rules_from_data, rules_to_data

SHARE = "share of a publication"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ShareJob:
    """The transaction of one task: where the task stands, and what is to be published.

    `claim` is the one that the task has to find in the offsets topic, once it has taken its id, and
    `ledger` its own there.
    """

    publication: Publication
    task: int
    claim: TasksRecord
    ledger: LedgerRecord
    stands: Mapping[SourcePartition, Position]
    keys: Mapping[SourcePartition, OffsetKey]
    topic_ids: frozenset[str]
    stretches: tuple[Stretch, ...]
    batch_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class ShareResult:
    """What came of it: the ledger and the receipt of a transaction that ended, or the doubt.

    Neither: nothing could be read in time.
    """

    ledger: LedgerRecord | None = None
    receipt: Receipt | None = None
    moved: Mapping[SourcePartition, Position] = field(default_factory=dict)
    sent_bytes: int = 0
    doubt: str = ""
    batch_bytes_max: int | None = None


def is_share(text: str) -> bool:
    """Return whether a job is a whole transaction."""
    return SHARE in json.loads(text)


def share_to_json(job: ShareJob) -> str:
    """Write a job."""
    return json.dumps(
        {
            "v": VERSION,
            SHARE: job.task,
            "publication": _publication_to_data(job.publication),
            "claim": tasks_record_to_json(job.claim).decode(),
            "ledger": ledger_record_to_json(job.ledger).decode(),
            "stands": dict(job.stands),
            "keys": {at: key.raw.decode("latin-1") for at, key in job.keys.items()},
            "topic_ids": sorted(job.topic_ids),
            "stretches": [stretch_to_data(each) for each in job.stretches],
            "batch_bytes_max": job.batch_bytes_max,
        }
    )


def share_from_json(text: str) -> ShareJob:
    """Read a job. Raises InvalidError (P190, P191)."""
    with reading(text, SHARE, VERSION) as data:
        return ShareJob(
            publication=_publication_from_data(data["publication"]),
            task=data[SHARE],
            claim=tasks_record_from_json(data["claim"].encode()),
            ledger=ledger_record_from_json(data["ledger"].encode()),
            stands=data["stands"],
            keys={
                at: OffsetKey(data["publication"]["name"], at, raw.encode("latin-1"))
                for at, raw in data["keys"].items()
            },
            topic_ids=frozenset(data["topic_ids"]),
            stretches=tuple(Stretch(*each) for each in data["stretches"]),
            batch_bytes_max=data["batch_bytes_max"],
        )


def share_result_to_json(result: ShareResult) -> str:
    """Write what came of a job."""
    ledger, receipt = result.ledger, result.receipt
    return json.dumps(
        {
            "v": VERSION,
            "ledger": None if ledger is None else ledger_record_to_json(ledger).decode(),
            "receipt": []
            if receipt is None
            else [each.decode() for each in receipt_to_parts(receipt)],
            "moved": dict(result.moved),
            "sent_bytes": result.sent_bytes,
            "doubt": result.doubt,
            "batch_bytes_max": result.batch_bytes_max,
        }
    )


def share_result_from_json(text: str) -> ShareResult:
    """Read what came of a job. Raises InvalidError (P190, P191)."""
    with reading(text, f"result of a {SHARE}", VERSION) as data:
        ledger, parts = data["ledger"], [each.encode() for each in data["receipt"]]
        return ShareResult(
            ledger=None if ledger is None else ledger_record_from_json(ledger.encode()),
            receipt=receipt_from_parts(parts) if parts else None,
            moved=data["moved"],
            sent_bytes=data["sent_bytes"],
            doubt=data["doubt"],
            batch_bytes_max=data["batch_bytes_max"],
        )


def _publication_to_data(publication: Publication) -> dict[str, Any]:
    """Return what a transaction needs of a publication; nothing of its catalog and registries."""
    rejects, messages = publication.rejects, publication.messages
    return {
        "name": publication.name,
        "pipeline": publication.pipeline,
        "group": publication.group,
        "into": publication.into,
        "offsets_topic": publication.offsets_topic,
        "rules_hash": publication.rules_hash,
        "start": publication.start,
        "source": dict(publication.source),
        "target": dict(publication.target),
        "tasks": publication.tasks,
        "timeout_seconds": publication.timeout_seconds,
        "messages": None if messages is None else rules_to_data(messages),
        "rejects": None if rejects is None else [rejects.into, rejects.stop_above_share],
    }


def _publication_from_data(data: Mapping[str, Any]) -> Publication:
    messages, rejects = data["messages"], data["rejects"]
    given = {
        **data,
        "messages": None if messages is None else rules_from_data(messages),
        "rejects": None if rejects is None else Rejects(*rejects),
    }
    return Publication(**given)
