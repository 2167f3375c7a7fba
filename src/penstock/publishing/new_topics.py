"""Which topics a start creates, and with how many partitions.

Invariant: a target of a topic is created with one partition for each of the source, unless the spec
says how many: fewer only where messages do not keep theirs. Asking creates nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from penstock.core.errors import InvalidError
from penstock.core.positions import SourcePartition, values_of
from penstock.ports.producers import NewTopic
from penstock.publishing.settings import Publication, PublicationPorts


def missing_topics(publication: Publication, ports: PublicationPorts) -> list[str]:
    """Return the topics that a publication writes, and that are not there."""
    return [each for each in publication.written if not ports.producers.topics.exists(each)]


def topics_to_create(
    publication: Publication, ports: PublicationPorts, missing: Sequence[str]
) -> dict[str, NewTopic]:
    """Return with what the topics that are missing are created.

    Raises InvalidError: P813 where the spec asks for too few partitions; P205 where the target is
    missing, and the spec does not have it created.
    """
    if missing and publication.new_topic is None:
        raise InvalidError(
            f"topic {missing[0]}, into which {publication.name} publishes, does not exist",
            code="P205",
            hint="create it; or let the first run do so:  topic: { create: true }",
        )
    created = publication.created_topics
    found = {topic: created[topic] for topic in missing}
    if publication.reads_topic and publication.into in found:
        found[publication.into] = _as_many(publication, ports, found[publication.into])
    return found


def partitions_needed(sources: Iterable[SourcePartition]) -> int:
    """Return how many partitions a target has that has one of the same number for each."""
    numbers = [values_of(each)["partition"] for each in sources]
    assert all(isinstance(each, int) for each in numbers), "a topic's partitions have numbers"
    return max((int(each or 0) for each in numbers), default=0) + 1


def require_partitions(
    publication: Publication, sources: Collection[SourcePartition], count: int
) -> None:
    """Raise InvalidError (P813) where a target of `count` partitions has none for one of them."""
    needed = partitions_needed(sources)
    if sources and needed > count:
        raise InvalidError(
            f"the topic {publication.into} has fewer partitions than its source, {count} of"
            f" {needed}: a record goes into the one of the same number",
            code="P813",
            hint=f"kafka-topics --alter --topic '{publication.into}' --partitions {needed}",
        )


def _as_many(publication: Publication, ports: PublicationPorts, new: NewTopic) -> NewTopic:
    if new.partitions is not None and not publication.keeps_partitions:
        return new
    needed = partitions_needed(ports.source.ends())
    if new.partitions is not None and new.partitions < needed:
        raise InvalidError(
            f"{publication.into} is to have fewer partitions than its source, which has {needed}: a"
            " record goes into the one of the same number",
            code="P813",
            hint=f"write  partitions: {needed},  or leave it out",
        )
    return new if new.partitions is not None else replace(new, partitions=needed)
