"""What a start asks before it claims or creates anything; `plan` and `peek` ask the same.

Invariant: nothing is written, and no id is taken.
"""

from __future__ import annotations

from penstock.ports.producers import NewTopic
from penstock.publishing.deciding import require_target
from penstock.publishing.fitting import require_fitting
from penstock.publishing.new_topics import missing_topics, require_partitions, topics_to_create
from penstock.publishing.record import PublicationRecord
from penstock.publishing.settings import Publication, PublicationPorts


def preflight(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> dict[str, NewTopic]:
    """Return the topics that a start creates, and with what; `record` is what stands now.

    Raises InvalidError: P800 and P868 of the offsets topic, P898 and as `require_messages` of the
    source, P205 and P813 of the target; DecisionNeededError P808; UnavailableError P889.
    """
    ports.producers.ledger.check()
    require_fitting(publication, ports, record)
    missing = missing_topics(publication, ports)
    require_target(publication, ports, record, missing)
    creates = topics_to_create(publication, ports, missing)
    if publication.keeps_partitions and publication.into not in missing:
        listed = ports.targets.partitions(without=missing)
        count = sum(at.topic == publication.into for at in listed)
        require_partitions(publication, ports.source.ends(), count)
    return creates
