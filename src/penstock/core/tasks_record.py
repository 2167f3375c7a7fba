"""How many tasks a publication has, and who said so, as its offsets topic has it.

Invariant: reading back what was written returns an equal value; a newer version is rejected (P190),
and anything but the exact form is (P191).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.claims import Generation
from penstock.core.plain_data import ENCODER, as_natural, as_text, as_truth, as_whole, reading
from penstock.core.positions import RESERVED, OffsetKey, key_of

_VERSION = 1


@dataclass(frozen=True, slots=True)
class TasksRecord:
    """How many tasks a publication has, and the claim of the start that said so.

    `start` names the start; it has `begun` once its first transaction ended.
    """

    count: int
    generation: Generation
    owner: str
    start: str
    begun: bool


def tasks_key(name: str) -> OffsetKey:
    """Return the key of the count of tasks and the claim."""
    return key_of(name, {RESERVED: "tasks"})


def tasks_record_to_json(tasks: TasksRecord) -> bytes:
    """Write the count of tasks and the claim as their value in the offsets topic."""
    data = {
        "v": _VERSION,
        "task-count": tasks.count,
        "generation": tasks.generation,
        "owner": tasks.owner,
        "start": tasks.start,
        "begun": tasks.begun,
    }
    return ENCODER.encode(data).encode()


def tasks_record_from_json(value: bytes) -> TasksRecord:
    """Read the count of tasks and the claim. Raises InvalidError (P190, P191)."""
    with reading(value, "count of tasks", _VERSION) as data:
        return TasksRecord(
            count=as_natural(data["task-count"], 1),
            generation=Generation(as_whole(data["generation"])),
            owner=as_text(data["owner"]),
            start=as_text(data["start"]),
            begun=as_truth(data["begun"]),
        )
