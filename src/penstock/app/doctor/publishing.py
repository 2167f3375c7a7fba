"""Publications: what each needs of the outside, and whether it has it.

Invariants:
- a check that fails keeps no other from being made;
- nothing is written: no id is taken, no topic created, no schema registered;
- sources are asked where they end, as a start asks; no row of a table is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

from penstock.app.assembly.assembly import open_store
from penstock.app.assembly.connectors import connector_of, registry_connector
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.publishing import open_ports, open_source, open_subjects, publication_of
from penstock.app.assembly.topic_rows import REGISTRY
from penstock.app.inspect.publication_words import in_words
from penstock.app.inspect.publications import beginning_of
from penstock.core.errors import PenstockError
from penstock.observe.formatting import number_of
from penstock.ports.checks import CheckResult, failed, passed
from penstock.ports.connectors import LogConnector
from penstock.ports.producers import ProducerNeeds
from penstock.ports.registry import SchemaKey
from penstock.publishing.fitting import require_messages
from penstock.publishing.record import standing_record
from penstock.publishing.settings import Publication
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets


def findings(spec: Publications) -> Iterator[CheckResult]:
    """Check the cluster that is written, claims, sources and registries of each publication."""
    for rule in spec.publish:
        try:
            own = publication_of(spec, rule)
        except PenstockError as error:
            yield failed("publication", rule.name, error)
            continue
        checks = {
            "publication": _written(own),
            "store": _claim(spec, own),
            "source": _read(own),
            "registry": _schemas(own),
            "registry of the source": _schemas_read(own),
        }
        wrong = False
        for name, found in checks.items():
            try:
                for each in found:
                    wrong = wrong or bool(each.code)
                    yield each
            except PenstockError as error:
                wrong = True
                yield failed(name.partition(" ")[0], rule.name, error)
        if not wrong:
            yield _start(own)


def _start(own: Publication) -> CheckResult:
    """Ask what a start asks, where all that it needs is there."""
    try:
        with ExitStack() as stack:
            ports = open_ports(own, stack)
            record = standing_record(own.name, ports.producers.ledger)
            begins = beginning_of(own, ports, record).begins
    except PenstockError as error:
        return failed("publication", own.name, error)
    return passed("publication", own.name, "would begin" if begins else "would go on")


def _written(own: Publication) -> Iterator[CheckResult]:
    """Check the cluster that is written."""
    examine = connector_of(LogConnector, own.target["connector"]).examine_writing
    assert examine is not None, "the connector for Kafka has it"
    needs = ProducerNeeds(
        ids=tuple(own.id_of(task) for task in range(own.tasks)),
        offsets_topic=own.offsets_topic,
        created=frozenset({own.offsets_topic, *own.created_topics}),
        timeout_ms=round(own.timeout_seconds * 1000),
        mirrored=() if _is_elsewhere(own) else tuple(own.source.get("topics", ())),
    )
    yield from examine(own.target, ProcessSecrets(), needs)


def _claim(spec: Publications, own: Publication) -> Iterator[CheckResult]:
    """Check the pending store, where claims are."""
    with closing(open_store(spec)) as store:
        held = store.holding(own.claimed_as)
    text = "no run yet" if held is None else f"generation {held.claim.generation}"
    yield passed("store", f"claim of {own.name}", text)


def _read(own: Publication) -> Iterator[CheckResult]:
    """Check what is read, but for topics of the cluster that is written."""
    if own.reads_frames:
        return
    if own.reads_topic:
        examine = connector_of(LogConnector, own.source["connector"]).examine
        if _is_elsewhere(own) and examine is not None:
            yield from examine(own.source, ProcessSecrets(), SystemClock())
    if own.messages is None:
        return
    with closing(open_source(own)) as source:
        ends = source.ends()
        if own.reads_own:  # its end may be open, and says nothing: the next batch is looked at
            source.count({}, ends)
        require_messages(own, source)
        columns = source.columns()
    known = [] if columns is None else [number_of(len(columns), "column")]
    known += [in_words(own, ends)] if own.reads_table else [number_of(len(ends), "part")]
    yield passed("source", own.source_name, ", ".join(known))


def _schemas(own: Publication) -> Iterator[CheckResult]:
    """Check the registries of keys and values."""
    for part, settings in own.registries.items():
        subject = own.subjects[part].subject
        newest = open_subjects(settings).newest(subject)
        text = "has no schema yet" if newest is None else f"has a schema, {newest.format}"
        yield passed("registry", f"subject {subject}", text)


def _schemas_read(own: Publication) -> Iterator[CheckResult]:
    """Check the registry by which records are read: any schema is asked for, there or not."""
    settings = own.source.get(REGISTRY)
    if settings is not None:
        registry = registry_connector(settings["url"]).open_registry(settings, ProcessSecrets())
        registry.find(SchemaKey("id", "1"))
        yield passed("registry", f"schemas of {own.source_name}", "it answers")


def _is_elsewhere(own: Publication) -> bool:
    """Return whether its topic is in another cluster than it writes."""
    return bool(own.source.get("brokers") != own.target["brokers"])
