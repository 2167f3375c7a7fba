"""Puts the parts of a publication together: its settings from the spec, and what it works with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.app.assembly import topic_rows
from penstock.app.assembly.assembly import LOG, open_store
from penstock.app.assembly.connectors import connector_of, registry_connector, table_connector
from penstock.app.assembly.own_sources import UNIT_MAX, kept_own_source
from penstock.app.assembly.process import SystemClock, jitter, this_owner, token
from penstock.app.assembly.producers import (
    client_settings,
    open_producers,
    open_targets,
    settled,
)
from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import InvalidError
from penstock.core.resuming import Accepted
from penstock.files.storage_settings import references
from penstock.observe.fanout import UNHEARD
from penstock.ports.connectors import LogConnector, TableConnector
from penstock.ports.log import Log
from penstock.ports.producers import NewTopic
from penstock.ports.registry import RegisteredSchema, Subjects
from penstock.ports.runtime import Engine, Observer
from penstock.ports.sources import EpochLimit, Source
from penstock.publishing.batch_source import BatchSource
from penstock.publishing.dead_letters import dead_letter_rules
from penstock.publishing.own_source import PlannedSource
from penstock.publishing.own_stops import says_no_end, wrong_shape
from penstock.publishing.pace import Rate
from penstock.publishing.settings import (
    UNLIMITED,
    Publication,
    PublicationPorts,
    PublishingEnvironment,
    Rejects,
    SubjectRule,
)
from penstock.publishing.table_source import TableSource
from penstock.publishing.topic_source import TopicSource
from penstock.rows.encode.avro_schema import full_name, tree_of, unreadable
from penstock.rows.encode.framing import with_fields
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.rules import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    VALUE,
    MessagePart,
    MessageRules,
    MessageSchema,
    SchemaFormat,
    rules_to_data,
)
from penstock.sources.news_events import EVENTS, HEADERS
from penstock.spec.language.notation import BRANCH_SIGN, MAIN
from penstock.spec.publications import Publications, registry_of, schemas_of, source_name
from penstock.spec.secrets import ProcessSecrets, is_secret_name, secret_parts
from penstock.spec.settings.messages import KeySettings, ValueSettings
from penstock.spec.settings.publication import PublicationRule
from penstock.spec.settings.security import Cluster
from penstock.spec.settings.sources import (
    FilesToPublish,
    FramesToPublish,
    NewsToPublish,
    OwnToPublish,
    QuarantineToPublish,
    QueryToPublish,
    TableToPublish,
    TopicToPublish,
)

PUBLISHING_WORK = "penstock.app.assembly.publishing_worker:work"
"""The body of a publishing task; engines know it by name only."""
GAP = "gap"
_OWN = OwnToPublish | FilesToPublish | QueryToPublish | NewsToPublish
CONTENT_TYPES = {
    "json": "application/json",
    JSON_SCHEMA: "application/json",
    AVRO: "application/avro",
    PROTOBUF: "application/protobuf",
}
_FORMATS: Mapping[str, SchemaFormat] = {each: each for each in (AVRO, JSON_SCHEMA, PROTOBUF)}


def publication_of(
    spec: Publications,
    rule: PublicationRule,
    *,
    accept: Collection[str] = (),
) -> Publication:
    """Return the settings of a publication; which client writes it, its cluster may have to say."""
    transaction, exactly_once = rule.transaction, rule.exactly_once or spec.publishing.exactly_once
    producer, tasks = rule.producer or spec.publishing.producer, spec.tasks(rule)
    client = client_settings(producer, exactly_once, tasks)
    found = Publication(
        name=rule.name,
        pipeline=spec.name,
        group=spec.publishing.group,
        into=rule.into,
        offsets_topic=spec.offsets_topic(rule),
        rules_hash=_rules_hash(spec, rule),
        start=rule.from_.start,
        **_source(spec, rule),
        target={**_target(spec, rule), "compression": rule.compression, **client},
        tasks=tasks,
        messages=_messages(spec, rule),
        rejects=_rejects(rule),
        subjects={
            part: SubjectRule(each.subject_of(rule.into, part), each.register_schema)
            for part, each in schemas_of(rule).items()
        },
        registries={
            part: registry.settings()
            for part in schemas_of(rule)
            if (registry := registry_of(rule, part, spec)) is not None
        },
        new_topic=_new_topic(rule),
        polls=transaction.boundary != "interval",
        interval_seconds=transaction.interval_seconds,
        rate=UNLIMITED if rule.rate is None else Rate(rule.rate.rows, rule.rate.bytes),
        limit=EpochLimit(transaction.or_records, transaction.or_bytes),
        timeout_seconds=transaction.timeout_seconds,
        accept=frozenset(Accepted(word) for word in accept if word != GAP),
        accept_gap=GAP in accept,
    )
    return settled(found)


def open_ports(
    publication: Publication, stack: ExitStack, source: Source | None = None
) -> PublicationPorts:
    """Open what a publication reads, unless it is given, and writes; `stack` closes it again."""
    targets = stack.enter_context(closing(open_targets(publication)))
    producers = stack.enter_context(closing(open_producers(publication)))
    subjects = {part: open_subjects(each) for part, each in publication.registries.items()}
    opened = stack.enter_context(closing(source or open_source(publication)))
    return PublicationPorts(opened, targets, producers, subjects)


def open_publishing(
    spec: Publications,
    publication: Publication,
    stack: ExitStack,
    *,
    engine: Engine,
    observer: Observer,
    source: Source | None = None,
) -> PublishingEnvironment:
    """Open everything that one publication needs; `stack` closes it again."""
    store = stack.enter_context(closing(open_store(spec)))
    reads_records = topic_rows.RECORDS in publication.source
    return PublishingEnvironment(
        ports=open_ports(publication, stack, source),
        store=store,
        engine=engine,
        observer=observer,
        clock=SystemClock(),
        owner=this_owner(),
        jitter=jitter,
        token=token,
        absent_fields=partial(topic_rows.absent_fields, publication) if reads_records else None,
    )


def _source(spec: Publications, rule: PublicationRule) -> dict[str, Any]:
    """Return what a publication says of its source."""
    given = rule.from_
    if isinstance(given, TopicToPublish):
        log = _log_settings(given.kafka or spec.kafka, rule, {"from.topic": given.topic})
        return {"source": {**log, **topic_rows.settings_of(spec, rule, given)}}
    if isinstance(given, _OWN):
        transaction = rule.transaction
        largest = {UNIT_MAX: [transaction.or_records, transaction.or_bytes]}
        ends = largest if rule.ends_where_told else {}
        return {"source": {**_own_settings(rule, given), **ends}}
    if isinstance(given, FramesToPublish):
        return {"source": {"dataframe": given.dataframe}}
    return {**_table(spec, given), "changes": given.changes}


def _table(spec: Publications, given: TableToPublish | QuarantineToPublish) -> dict[str, Any]:
    """Return the table that is read, and its catalog; of a quarantine, that this spec fills it."""
    own: dict[str, Any] = {}
    if isinstance(given, TableToPublish):
        own = {"table": given.table, "ref": given.ref}
    else:
        assert spec.quarantine is not None, "what lands has one"
        own = {"table": spec.quarantine.into, "ref": MAIN, "quarantine": True}
    name, _, _ = own["table"].partition(".")
    entry = spec.catalogs[name]
    connector, _ = table_connector(entry.type)
    return {"source": {"connector": connector, **own}, "catalog": entry.settings(name)}


def open_source(publication: Publication) -> Source:
    """Open what a publication reads. Raises InvalidError (P829), UnavailableError."""
    name = publication.source_name
    if publication.reads_frames:
        return BatchSource(publication.source["dataframe"])
    if publication.reads_own:
        return _open_own(publication)
    if not publication.reads_table:
        columns = topic_rows.columns_of(publication.source)
        return TopicSource(_open_log(publication.source), name, columns)
    opening = connector_of(TableConnector, publication.source["connector"]).open_increments
    if opening is None:
        raise InvalidError(
            f"the connector {publication.source['connector']} gives no increments of {name}",
            code="P829",
            hint="publish a table of Iceberg or Delta",
        )
    _, _, table = name.partition(".")
    ref = publication.source["ref"]
    table += "" if ref == MAIN else f"{BRANCH_SIGN}{ref}"
    increments = opening(publication.catalog, ProcessSecrets(), UNHEARD, table)
    return TableSource(
        increments, name, publication.changes, SystemClock().monotonic, publication.name
    )


def _own_settings(
    rule: PublicationRule, given: OwnToPublish | FilesToPublish | QueryToPublish | NewsToPublish
) -> dict[str, Any]:
    """Return what opens a source of one's own; options are unresolved, and hold no secret."""
    options = dict(given.options)
    for each in (options, options.get("storage_options", {})):
        written = {key: value for key, value in each.items() if isinstance(value, str)}
        references(f"the publication {rule.name}", written, [*filter(is_secret_name, written)])
    if isinstance(given, QueryToPublish):
        options["batch_rows"] = rule.transaction.or_records
        _require_no_password(rule, given.database)
    if isinstance(given, NewsToPublish):
        options["content_type"] = CONTENT_TYPES[rule.value.format]
    named = {"name": given.name, "publication": rule.name}
    return {"own": given.source, **named, "options": options}


def _require_no_password(rule: PublicationRule, database: str) -> None:
    if any(secret_parts(database)):
        raise InvalidError(
            f"a password is written out in  from.database  of the publication {rule.name}",
            code="P441",
            hint="leave it out there, and write  password: ${env:NAME}  or  ${file:/path}",
        )


def _open_own(publication: Publication) -> Source:
    """Open a source of one's own.

    Raises InvalidError (P292, P850, P851), UnavailableError (P854).
    """
    readings = kept_own_source(json.dumps(publication.source))  # columns keep their order
    if readings.ends_where_told and not readings.source.boundaries:
        raise says_no_end(readings.name)
    found = PlannedSource(readings, SystemClock().monotonic, publication.interval_seconds)
    rules = publication.messages
    made = rules is not None and any(each.is_made for each in rules.schemas.values())
    if made and readings.source.columns() is None:
        fact = "a schema is made of its columns, and  columns  does not say them"
        raise wrong_shape(readings.name, fact)
    return found


def _target(spec: Publications, rule: PublicationRule) -> dict[str, Any]:
    """Return the settings of what is written: the topic of the messages first."""
    rejects = {} if rule.rejects is None else {"rejects.into": rule.rejects.into}
    return _log_settings(spec.kafka, rule, {"into": rule.into, **rejects})


def _log_settings(
    cluster: Cluster, rule: PublicationRule, topics: Mapping[str, str]
) -> dict[str, Any]:
    """Return the settings of a log of topics of a cluster, by the setting that names each."""
    named_by = {topic: f"{name} of the publication {rule.name}" for name, topic in topics.items()}
    own = {"topics": [*topics.values()], "named_by": named_by, "connector": LOG}
    return {**cluster.revealed(), **own}


def watched_settings(spec: Publications) -> dict[str, Any]:
    """Return settings of the cluster with all topics that a spec names, those that land, too."""
    topics = [*spec.kafka.revealed().get("topics", ())]
    for rule in spec.publish:
        if isinstance(rule.from_, TopicToPublish) and rule.from_.kafka is None:
            topics.append(rule.from_.topic)
        topics += [*rule.written, spec.offsets_topic(rule)]
    return {**spec.kafka.revealed(), "topics": topics, "connector": LOG}


def _open_log(settings: Any) -> Log:
    return connector_of(LogConnector, LOG).open_log(settings, ProcessSecrets())


def open_subjects(settings: Mapping[str, Any]) -> Subjects:
    """Open what schemas are registered with. Connects when first asked."""
    connector = registry_connector(settings["url"])
    assert connector.open_subjects is not None, "the connector for registries has it"
    return connector.open_subjects(settings, ProcessSecrets())


def _messages(spec: Publications, rule: PublicationRule) -> MessageRules | None:
    """Return how rows become messages; None for a mirror."""
    if rule.is_mirror:
        return None
    value, headers = rule.value, rule.headers
    rules = MessageRules(
        key=rule.key_columns,
        key_is_object=not isinstance(rule.key, str),
        form=JsonForm(value.decimals, value.times),
        bytes_of=value.column or "",
        where=rule.where or "",
        delete_when=rule.delete_when or "",
        timestamp=rule.timestamp or "",
        columns=value.columns,
        computed=rule.transform.columns if rule.transform else {},
        headers=headers if isinstance(headers, Mapping) else {},
    )
    if rule.reads_records:
        rules = topic_rows.with_defaults(rules, rule)
    if isinstance(rule.from_, NewsToPublish):
        rules = _of_news(rules)
    if isinstance(rule.from_, QuarantineToPublish):
        rules = dead_letter_rules(rules, spec.name, rule.from_.tables)
    own = {part: _schema(rule, part, each) for part, each in schemas_of(rule).items()}
    return rules.with_schemas(own)


def _of_news(rules: MessageRules) -> MessageRules:
    """Return the rules of news: key and headers are fixed, and a header that is null is none."""
    data = (name for name in EVENTS.names if name not in HEADERS)
    return replace(
        rules,
        key=("ce_subject",),
        key_is_object=False,
        headers={name: name for name in HEADERS},
        omits_headers=True,
        columns=rules.columns or (*data, *rules.computed),
    )


def _schema(
    rule: PublicationRule, part: MessagePart, settings: KeySettings | ValueSettings
) -> MessageSchema:
    """Return the schema of keys or values. Raises InvalidError (P872) for a file that is none."""
    file = settings.schema_file
    if file is None:
        is_nameless = isinstance(rule.from_, FramesToPublish | NewsToPublish)
        name = full_name(rule.name if is_nameless else source_name(rule))
        name = name if part == VALUE else f"{name}.key"
        return MessageSchema(name, format=_FORMATS[settings.format])
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise unreadable(file, f"it cannot be read ({type(error).__name__})") from error
    given = MessageSchema(Path(file).name, text, is_made=False, format=_FORMATS[settings.format])
    if given.format == PROTOBUF:
        return with_fields(given, compiled(RegisteredSchema(PROTOBUF, text)))
    tree_of(text, file)
    return given


def _rejects(rule: PublicationRule) -> Rejects | None:
    given = rule.rejects
    return None if given is None else Rejects(given.into, given.stop_above_share)


def _new_topic(rule: PublicationRule) -> NewTopic | None:
    topic = rule.topic
    return NewTopic(topic.partitions, topic.config) if topic.create else None


def _rules_hash(spec: Publications, rule: PublicationRule) -> str:
    """Identify what decides on records: where they come from, and where they go."""
    rules, data = _messages(spec, rule), {"v": 1, "from": source_name(rule), "into": rule.into}
    more = {} if rules is None else {"messages": rules_to_data(rules)}
    records = topic_rows.rules_hashed(rule)
    text = json.dumps({**data, **more, **records}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
