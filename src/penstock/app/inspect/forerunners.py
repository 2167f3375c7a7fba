"""Who has published into a target that a publication begins with, as one that was renamed has.

Invariant: nothing is written. Only offsets topics that have their names by default are read, and
few at most: what they do not say is not known.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import replace

from penstock.app.assembly.producers import open_producers, open_targets
from penstock.core.errors import PenstockError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import Look
from penstock.publishing.record import read_record, receipts_of
from penstock.publishing.settings import Publication

TOPICS_MAX = 50
"""Offsets topics that are read: where a group has more of other specs, nothing is said."""


def forerunners(
    publication: Publication, filled: Collection[TopicPartition], known: Collection[str]
) -> tuple[str, ...]:
    """Return which publications of its group have a receipt for records in these partitions.

    Those that are `known` are not looked at, nor is what may not be listed or read.
    """
    names, found = list[str](), list[str]()
    with suppress(PenstockError):
        names = [each for each in _names(publication) if each not in known] if filled else []
    for name in names if len(names) <= TOPICS_MAX else ():
        other = replace(publication, offsets_topic=f"{publication.group}-{name}-offsets")
        with suppress(PenstockError), closing(open_producers(other)) as producers:
            producers.ledger.check()  # what is not compacted may be of any size
            if _has_published(name, producers.ledger.look(), filled):
                found.append(name)
    return tuple(found)


def _names(publication: Publication) -> list[str]:
    """Return the names that offsets topics of its group have in theirs."""
    topic = re.compile(f"{re.escape(publication.group)}-(.+)-offsets")
    asked = {**publication.target, "topics": [{"pattern": topic.pattern}]}
    with closing(open_targets(replace(publication, target=asked))) as log:
        topics = {at.topic for at in log.partitions()}
    return sorted(found[1] for each in topics if (found := topic.fullmatch(each)))


def _has_published(name: str, look: Look, filled: Collection[TopicPartition]) -> bool:
    """Return whether a receipt that is kept has a batch in one of these partitions."""
    record = read_record(name, look)
    kept = (each for task in range(len(record.ledgers)) for each in receipts_of(name, record, task))
    return any(at in filled for receipt in kept for at in receipt.targets)
