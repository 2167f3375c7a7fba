"""What people are told of a publication: how fast it sends, with which client, where it stands."""

from __future__ import annotations

from collections.abc import Collection

from penstock.core.positions import Position, SourcePartition
from penstock.observe.formatting import number_of, one_line, size_text
from penstock.ports.producers import NO_TRANSACTIONS, PROTOCOL_2
from penstock.ports.sources import Stands
from penstock.publishing.pace import Rate
from penstock.publishing.places import part_words, place_words
from penstock.publishing.record import task_of
from penstock.publishing.settings import Publication

NAMED_MAX = 3


def rate_words(rate: Rate) -> str:
    """Say how fast a publication sends at most; "" for as fast as it can."""
    rows = number_of(rate.rows, "record") if rate.rows is not None else ""
    size = size_text(rate.bytes) if rate.bytes is not None else ""
    return f"{rows or size} a second" if rows or size else ""


def client_words(
    publication: Publication, protocol: int, parts: Collection[SourcePartition] = ()
) -> str:
    """Say which client writes a publication, what it is worth, and how many tasks have no part."""
    if protocol == NO_TRANSACTIONS:
        return "at least once: librdkafka, without transactions"
    if protocol == PROTOCOL_2:
        return "exactly once: the own sender, transaction protocol 2"
    tasks, busy = publication.tasks, {task_of(each, publication.tasks) for each in parts}
    idle = f" ({tasks - len(busy)} without a partition)" if 0 < len(busy) < tasks else ""
    return f"exactly once: librdkafka, {number_of(tasks, 'task')}{idle}, transaction protocol 1"


def in_words(publication: Publication, stands: Stands) -> str:
    """Say where a publication stands in a table or a source of one's own; "" of a topic.

    Of a source with many parts only the last ones are named.
    """
    if not publication.reads_table and not publication.reads_own:
        return ""
    words = [
        place_in_words(publication, at, of if len(stands) > 1 else None)
        for of, at in stands.items()
    ]
    more = f"{number_of(len(words) - NAMED_MAX, 'part')} before, " if len(words) > NAMED_MAX else ""
    return more + ", ".join(words[-NAMED_MAX:])


def place_in_words(
    publication: Publication, position: Position, of: SourcePartition | None = None
) -> str:
    """Say where a publication stands or goes on, after such a verb; `of` names the part."""
    place = one_line(place_words(position))
    if publication.reads_table:
        return place
    at = f"at offset {place}" if publication.reads_topic else f"at {place}"
    return at if of is None else f"{at} of {one_line(part_words(of))}"


def places_in_words(publication: Publication, stands: Stands) -> str:
    """Name the first parts of any source, and where each is gone on with."""
    words = [f"{part_words(of)} {place_in_words(publication, at)}" for of, at in stands.items()]
    more = f" and {number_of(len(words) - NAMED_MAX, 'more part')}" * (len(words) > NAMED_MAX)
    return ", ".join(words[:NAMED_MAX]) + more
