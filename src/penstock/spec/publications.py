"""The publishing part of a spec as data, read from the same file as the part that lands.

A spec holds `tables`, `publish`, or both. Each part is a model of its own, and what both have is
read by both: the name, the cluster, Spark, the pending store.

Invariants: that of `model.Pipeline`: what exists has no contradictions, and is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from penstock.spec.checks.agreement import check_undecided
from penstock.spec.checks.connections import check_registry, check_security
from penstock.spec.checks.literals import Block, of_connections
from penstock.spec.checks.news import check_news
from penstock.spec.checks.published_tables import (
    check_catalogs,
    check_dead_letters,
)
from penstock.spec.checks.topic_rows import check_topic_rows
from penstock.spec.language.notation import PLACEHOLDER
from penstock.spec.model import UNCHECKED, Pipeline
from penstock.spec.problems import Problem, SpecError, shown
from penstock.spec.routing.landed import check_rejecting_tables, landed_topics
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.fields import AtLeastOne, CatalogName, PipelineName, Setting, Several
from penstock.spec.settings.messages import (
    OF_SCHEMAS,
    REGISTERED,
    WITH_FILES,
    KeySettings,
    SchemaSettings,
    ValueSettings,
)
from penstock.spec.settings.publication import OF_ROWS, PublicationRule, PublishingSettings
from penstock.spec.settings.records import RegistrySettings
from penstock.spec.settings.sections import (
    PendingSettings,
    QuarantineSettings,
    SparkSettings,
    Undecided,
)
from penstock.spec.settings.security import Cluster
from penstock.spec.settings.sources import (
    FilesToPublish,
    FramesToPublish,
    NewsToPublish,
    OwnToPublish,
    QuarantineToPublish,
    TableToPublish,
    TopicToPublish,
)

OF_PUBLISHING = frozenset({"publish", "publishing"})
"""The blocks of a spec that are about publishing alone."""
_OTHER_SECURITY = ("from", "kafka", "security")
MessagePart = Literal["key", "value"]
_OF_ONE_TASK = TableToPublish | FramesToPublish | NewsToPublish | QuarantineToPublish


class Publications(Setting):
    """The publishing part of a spec. Raises SpecError when its blocks contradict each other."""

    name: PipelineName = Field(description="Name of the pipeline.", examples=["shop"])
    undecided: Several[Undecided] = Field(
        (),
        description="What you must decide before anything runs, written by `penstock init"
        " --from-config`: while there is an entry, the spec is refused (P175).",
        examples=["[{ option: table.types, decide: 'name tables in publish[].from.query' }]"],
    )
    kafka: Cluster = Field(
        description="The cluster that is read and written.",
        examples=["{ brokers: localhost:9092 }"],
    )
    catalogs: Mapping[CatalogName, Catalog] = Field(
        default_factory=dict,
        max_length=100,
        description="Where tables are, by the first part of their full names.",
        examples=["{ delta: { type: delta, root: ./delta } }"],
    )
    publish: AtLeastOne[PublicationRule] = Field(
        description="Rules from sources to topics.",
        examples=["[{ name: orders, from: { topic: raw.orders }, into: orders }]"],
    )
    publishing: PublishingSettings = Field(
        default_factory=PublishingSettings, description="What all publications share."
    )
    quarantine: QuarantineSettings | None = Field(
        None, description="Where the same spec puts what it rejects: dead letters are read there."
    )
    pending: PendingSettings = Field(
        default_factory=PendingSettings, description="Where claims are kept."
    )
    spark: SparkSettings = Field(
        default_factory=SparkSettings, description="The engine that runs the workers."
    )

    @model_validator(mode="after")
    def _agree(self, info: ValidationInfo) -> Self:
        if info.context is not UNCHECKED:
            found = check_publications(self)
            if found:
                raise SpecError(found, name=f"publications of '{self.name}'")
        return self

    def offsets_topic(self, rule: PublicationRule) -> str:
        """Return the topic that holds a publication's positions."""
        return rule.offsets or default_offsets_topic(rule, self.publishing)

    def tasks(self, rule: PublicationRule) -> int:
        """Return how many tasks a publication has."""
        return rule.tasks or self.publishing.tasks


def default_offsets_topic(rule: PublicationRule, publishing: PublishingSettings) -> str:
    """Return the name that an offsets topic has if the rule gives none."""
    return f"{publishing.group}-{rule.name}-offsets"


def check_publications(found: Publications, landing: Pipeline | None = None) -> list[Problem]:
    """Find rules that contradict each other, and loops; `landing` is what the same spec lands."""
    topics = [rule.into for rule in found.publish]
    landed = {} if landing is None else landed_topics(landing, topics)
    return [
        *check_undecided(found.undecided),
        *check_security(found.kafka.security),
        *_check_names(found.publish),
        *_check_topics(found),
        *check_catalogs(found.publish, found.catalogs),
        *(check_rejecting_tables(found.publish, landing) if landing is not None else ()),
        *_check_loops(found, landed),
        *(
            each
            for index, rule in enumerate(found.publish)
            for each in (
                *_check_cluster(index, rule),
                *_check_messages(index, rule),
                *check_topic_rows(("publish", index), rule, found.publishing.registry),
                *_check_boundary(index, rule),
                *_check_files(index, rule),
                *check_news(index, rule),
                *check_dead_letters(("publish", index), rule, found.quarantine),
                *_check_schemas(index, rule, found),
                *_check_tasks(index, rule, found),
            )
        ),
        *(
            check_registry(found.publishing.registry, ("publishing", "registry"))
            if found.publishing.registry is not None
            else ()
        ),
    ]


def secrets_of_rules(found: Publications) -> Iterator[Block]:
    """Yield the blocks that may hold secrets, and that publishing alone has."""
    if found.publishing.registry is not None:
        yield ("publishing", "registry"), found.publishing.registry.revealed()
    for index, rule in enumerate(found.publish):
        if (other := _other_cluster(rule)) is not None:
            yield ("publish", index, *_OTHER_SECURITY), other.security.revealed()
        records = rule.from_.records if isinstance(rule.from_, TopicToPublish) else None
        if records is not None and records.registry is not None:
            yield ("publish", index, "from", "records", "registry"), records.registry.revealed()
        for part, own in (("key", rule.key), ("value", rule.value)):
            registry = _registry(own)
            if registry is not None:
                yield ("publish", index, part, "registry"), registry.revealed()


def secrets_of_all(found: Publications) -> Iterator[Block]:
    """Yield the blocks that may hold secrets, those that landing has, too."""
    yield from of_connections(found.kafka, found.catalogs, found.spark, found.pending)
    yield from secrets_of_rules(found)


def _check_cluster(index: int, rule: PublicationRule) -> Iterator[Problem]:
    """Find security of another cluster that contradicts itself."""
    if (other := _other_cluster(rule)) is not None:
        yield from check_security(other.security, ("publish", index, *_OTHER_SECURITY))


def _other_cluster(rule: PublicationRule) -> Cluster | None:
    return rule.from_.kafka if isinstance(rule.from_, TopicToPublish) else None


def _check_names(rules: Sequence[PublicationRule]) -> Iterator[Problem]:
    names = [rule.name for rule in rules]
    for index, name in enumerate(names):
        if name in names[:index]:
            fact = f"two publications have the name {shown(name)}: they would fence each other"
            yield Problem(("publish", index, "name"), "P820", fact, "give each its own")


def _check_topics(found: Publications) -> Iterator[Problem]:
    for index, rule in enumerate(found.publish):
        offsets = found.offsets_topic(rule)
        if len({*rule.written}) < len(rule.written):
            fact = f"{shown(rule.into)} is for messages: what is none goes into another topic"
            yield Problem(("publish", index, "rejects", "into"), "P861", fact, "name another one")
        if offsets in (_source_of(rule, found.kafka), *rule.written):
            fact = f"{shown(offsets)} holds the positions of this publication: it is no other topic"
            yield Problem(("publish", index), "P821", fact, "name another topic under offsets")


def _check_tasks(index: int, rule: PublicationRule, found: Publications) -> Iterator[Problem]:
    """Find a client that cannot do what is asked of it."""
    shared, place = found.publishing, ("publish", index)
    tasks, producer = found.tasks(rule), rule.producer or shared.producer
    if tasks > 1 and isinstance(rule.from_, _OF_ONE_TASK):
        fact = "rows, unlike records of a topic, are read and encoded by one task"
        at = (*place, "tasks") if rule.tasks is not None else ("publishing", "tasks")
        yield Problem(at, "P880", fact, "leave tasks out")
    if producer == "own" and tasks > 1:
        fact = f"tasks: {tasks}  are several producers, and the own one is a single term"
        yield Problem((*place, "tasks"), "P879", fact, "producer: librdkafka")
    if producer == "own" and (rule.exactly_once or shared.exactly_once) == "off":
        fact = "the own producer sends in transactions alone"
        yield Problem((*place, "exactly_once"), "P881", fact, "producer: librdkafka")


def _check_messages(index: int, rule: PublicationRule) -> Iterator[Problem]:
    """Find settings of messages that contradict each other, or the source."""
    place = ("publish", index)
    if rule.is_mirror:
        for name in sorted(OF_ROWS & rule.model_fields_set):
            fact = f"a mirror publishes records as they are:  {name}  is for rows"
            hint = "read them as rows:  from: { topic: …, records: { format: json }, columns: … }"
            yield Problem((*place, name), "P837", fact, hint, on_key=True)
    if rule.delete_when and not rule.key and not rule.keeps_key:
        fact = "delete_when  needs a  key:  a message without a value deletes the key that it has"
        yield Problem((*place, "delete_when"), "P836", fact, "such as  key: id")
    is_bytes, one, several = rule.value.format == "bytes", rule.value.column, rule.value.columns
    if is_bytes != (one is not None) or (is_bytes and several):
        fact = "a value of bytes is that of one  column,  and any other value has several"
        hint = "such as  value: { format: bytes, column: payload }"
        yield Problem((*place, "value"), "P842", fact, hint)


def _check_boundary(index: int, rule: PublicationRule) -> Iterator[Problem]:
    """Find a source that cannot say where a transaction ends."""
    if rule.ends_where_told and not isinstance(rule.from_, OwnToPublish):
        place = ("publish", index, "transaction", "boundary")
        fact = "only a source of your own says where a transaction ends"
        yield Problem(place, "P292", fact, "boundary: interval,  or  poll")


def _check_files(index: int, rule: PublicationRule) -> Iterator[Problem]:
    """Find settings of files that their format does not have."""
    given, place = rule.from_, ("publish", index, "from")
    if not isinstance(given, FilesToPublish):
        return
    typed = given.format in {"json", "csv"}
    if typed != bool(given.columns):
        fact = f"format {given.format} has its own columns"
        if typed:
            fact = f"format {given.format} needs  columns:  which are read, and with which types"
        hint = "such as  columns: { id: long, at: timestamptz }" if typed else "leave it out"
        yield Problem((*place, "columns"), "P859", fact, hint)
    if given.format != "csv" and "delimiter" in given.model_fields_set:
        fact = f"delimiter  is for csv, and the format is {given.format}"
        yield Problem((*place, "delimiter"), "P859", fact, "leave it out")
    if given.format == "parquet" and given.grows:
        fact = "no lines are added to files of Parquet"
        yield Problem((*place, "grows"), "P859", fact, "leave it out")


def registry_of(
    rule: PublicationRule, part: MessagePart, found: Publications
) -> RegistrySettings | None:
    """Return the schema registry of a rule's keys or values."""
    own = rule.key if part == "key" else rule.value
    return _registry(own) or rule.value.registry or found.publishing.registry


def schemas_of(rule: PublicationRule) -> dict[MessagePart, KeySettings | ValueSettings]:
    """Return the settings of the schemas that a rule's keys and values have in a registry."""
    parts: dict[MessagePart, Any] = {"key": rule.key, "value": rule.value}
    return {
        part: each
        for part, each in parts.items()
        if isinstance(each, KeySettings | ValueSettings) and each.format in REGISTERED
    }


def _check_schemas(index: int, rule: PublicationRule, found: Publications) -> Iterator[Problem]:
    """Find settings of schemas that contradict each other, and what lacks a registry."""
    parts: dict[MessagePart, Any] = {"key": rule.key, "value": rule.value}
    registered = schemas_of(rule)
    for part, own in parts.items():
        place = ("publish", index, part)
        if isinstance(own, SchemaSettings) and part not in registered:
            for name in sorted(OF_SCHEMAS & own.model_fields_set - _shared(part, registered)):
                word = SchemaSettings.model_fields[name].alias or name
                fact = f"'{word}' is for schemas in a registry, and this {part} has none"
                yield Problem((*place, word), "P873", fact, "write  format: avro,  or remove it")
        if part not in registered:
            continue
        registry = registry_of(rule, part, found)
        if registry is None:
            fact = f"format {own.format} needs a 'registry' for the schema of its {part}"
            hint = "such as  publishing: { registry: https://registry:8081 }"
            yield Problem((*place, "format"), "P873", fact, hint)
        elif registry.url.startswith("mock:"):
            fact = "a directory of schemas has no subjects: nothing can be registered there"
            hint = "name a registry, such as  registry: https://registry:8081"
            yield Problem((*place, "format"), "P873", fact, hint)
        if own.schema_file is not None and own.format not in WITH_FILES:
            fact = f"with format {own.format} the schema is always made of columns"
            yield Problem((*place, "schema"), "P873", fact, "leave it out, or write  format: avro")
        if own.registry is not None:
            yield from check_registry(own.registry, (*place, "registry"))


def _shared(part: MessagePart, registered: Mapping[MessagePart, SchemaSettings]) -> frozenset[str]:
    """Return what a value may say for the key: their registry."""
    return frozenset({"registry"}) if part == "value" and "key" in registered else frozenset()


def _registry(own: Any) -> RegistrySettings | None:
    return own.registry if isinstance(own, SchemaSettings) else None


def source_name(rule: PublicationRule) -> str:
    """Return the name of what a rule publishes: a topic's, a table's, or none that those have."""
    match rule.from_:
        case TopicToPublish():
            return rule.from_.topic
        case TableToPublish():
            return rule.from_.table
        case FramesToPublish():
            return "(DataFrames)"
        case named:
            return named.name


def _source_of(rule: PublicationRule, ours: Cluster) -> str:
    """Return the name of what a rule publishes, which tells topics of other clusters apart."""
    other, name = _other_cluster(rule), source_name(rule)
    if other is None or other.brokers == ours.brokers:
        return name
    return f"{name} on {other.brokers}"


def _check_loops(found: Publications, landed: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Find rules whose records come back to their own source, through tables as well."""
    rules = [(_source_of(rule, found.kafka), rule.written) for rule in found.publish]
    into = [(source, topic) for source, written in rules for topic in written]
    into += [
        (topic, source)
        for topic, tables in landed.items()
        for source, _ in into
        if any(_is_made(source, each) for each in tables)
    ]
    places = (("into",), ("rejects", "into"))
    for index, (source, written) in enumerate(rules):
        for place, topic in zip(places, written, strict=False):
            if source in _reached(topic, into):
                fact = f"what is published into {shown(topic)} comes back to {shown(source)}"
                hint = "publish into a topic that leads nowhere here"
                yield Problem(("publish", index, *place), "P822", fact, hint)


def _reached(topic: str, into: Collection[tuple[str, str]]) -> set[str]:
    """Return where records of a topic get to, by pairs of what is read and what is written."""
    reached, before = {topic}, set[str]()
    while reached != before:
        before = reached
        reached = reached | {to for since, to in into if since in reached}
    return reached


def _is_made(table: str, template: str) -> bool:
    """Return whether placeholders of a template can be filled so that it names a table."""
    parts = (re.escape(each) for each in PLACEHOLDER.split(template)[::2])
    return re.fullmatch("[^.]*".join(parts), table) is not None
