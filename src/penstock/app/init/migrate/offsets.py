"""Where another system ended, as positions to begin at: `penstock init --from-config --offsets`.

kafka-delta-ingest notes the last offset it landed of each partition in the table, as the version
of the application `<app_id>-<partition>`: exact. The Iceberg sink of Kafka Connect and Flink commit
the next offset to their consumer group: what they had read, which is what had landed once nothing
was in flight (docs/how-to/come-from-kafka-connect.md).

Invariant: nothing is written, and no position is guessed: a partition without one begins as
the configuration says of new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from penstock.app.assembly import assembly
from penstock.app.init.migrate.account import Migrated
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.observe.fanout import UNHEARD
from penstock.spec.model import Pipeline
from penstock.spec.secrets import ProcessSecrets

Start = dict[str, dict[int, int]]


def where_it_ended(pipeline: Pipeline, found: Migrated) -> tuple[Start, int]:
    """Ask the table or the cluster how far the other system came: the next offset to land, by
    topic and partition, and how many records lie after that in Kafka.

    Raises InvalidError (P167) when neither knows, or while it runs; UnavailableError.
    """
    from penstock.connectors.kafka.groups import group_offsets

    with closing(assembly.open_log(pipeline)) as log:
        listing = log.partitions()
        bounds = log.bounds(listing)
        ended = (
            group_offsets(assembly.log_settings(pipeline), ProcessSecrets(), found.group)
            if found.group
            else _of_table(pipeline, found, listing)
        )
    places = {at: (at.topic, at.partition) for at in listing}
    known = {at: ended[place] for at, place in places.items() if place in ended}
    if not known:
        asked = f"group {found.group}" if found.group else f"application {found.application}"
        raise InvalidError(
            f"{asked} has no committed offsets for these topics",
            code="P167",
            hint="check the name; without --offsets it starts at kafka.start",
        )
    ends = {at: int(each.stop) for at, each in bounds.items()}
    new = ends if pipeline.kafka.start == "latest" else {}
    start: Start = {}
    for at, offset in sorted({**new, **known}.items()):
        start.setdefault(at.topic, {})[at.partition] = offset
    remaining = sum(max(ends.get(at, 0) - offset, 0) for at, offset in known.items())
    return start, remaining


def _of_table(
    pipeline: Pipeline, found: Migrated, listing: Sequence[TopicPartition]
) -> dict[tuple[str, int], int]:
    from penstock.connectors.delta.table import DeltaTable

    place = assembly.place_of(pipeline, pipeline.tables[0].into)
    catalog = assembly.open_catalog(pipeline, place.catalog, UNHEARD, read_only=True)
    with closing(catalog):
        table = catalog.load(place.name)
        if not isinstance(table, DeltaTable):
            return {}
        name = found.application
        versions = {at: table.application_version(f"{name}-{at.partition}") for at in listing}
    return {(at.topic, at.partition): last + 1 for at, last in versions.items() if last is not None}
