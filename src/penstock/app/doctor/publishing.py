"""Publications: what each needs of the cluster that it writes, and whether it has it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.publishing import publication_of
from penstock.core.errors import PenstockError
from penstock.ports.checks import CheckResult, failed
from penstock.ports.connectors import LogConnector
from penstock.ports.producers import ProducerNeeds
from penstock.publishing.settings import Publication
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets


def findings(spec: Publications) -> Iterator[CheckResult]:
    """Check each publication of a spec; one that fails keeps no other from being checked."""
    for rule in spec.publish:
        try:
            own = publication_of(spec, rule)
            examine = connector_of(LogConnector, own.target["connector"]).examine_writing
            assert examine is not None, "the connector for Kafka has it"
            needs = ProducerNeeds(
                ids=tuple(own.id_of(task) for task in range(own.tasks)),
                offsets_topic=own.offsets_topic,
                created=frozenset({own.offsets_topic, *own.created_topics}),
                timeout_ms=round(own.timeout_seconds * 1000),
                mirrored=_mirrored(own),
            )
            yield from examine(own.target, ProcessSecrets(), needs)
        except PenstockError as error:
            yield failed("publication", rule.name, error)


def _mirrored(own: Publication) -> tuple[str, ...]:
    """Return the topics that are read from the cluster that is written to."""
    is_other = own.source.get("brokers") != own.target["brokers"]
    return () if is_other else tuple(own.source.get("topics", ()))
