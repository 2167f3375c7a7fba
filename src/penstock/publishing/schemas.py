"""The schemas of a publication's messages: found in a registry, or registered, before they serve.

Invariants:
- a driver asks the registry, before anything of a transaction is sent; workers are told ids;
- the schema that is made is that of the columns which the table has now: an epoch of rows with
  other columns is given up by its worker (P876);
- a made message of Protobuf has the numbers of the subject's newest schema;
- what a look would decide and what a run does is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.ports.registry import RegisteredSchema, SchemaConflict, Subjects
from penstock.publishing.settings import Publication, PublicationPorts, SubjectRule
from penstock.rows.encode.framing import with_texts
from penstock.rows.encode.protobuf_files import compiled_tree
from penstock.rows.encode.protobuf_schema import Tree
from penstock.rows.encode.rules import PROTOBUF, MessagePart, MessageRules

SHOWN_CHARACTERS_MAX = 2000


@dataclass(frozen=True, slots=True)
class SchemaStanding:
    """What of a message a schema is of, its subject, and its id there; None: not registered yet."""

    part: MessagePart
    subject: str
    id: int | None


def with_schemas(publication: Publication, ports: PublicationPorts) -> Publication:
    """Return a publication whose schemas are registered.

    Raises DecisionNeededError where a registry takes no such schema (P874) or nobody may register
    it (P875), InvalidError, UnavailableError.
    """
    rules = _made(publication, ports)
    if rules is None:
        return publication
    schemas = dict(rules.schemas)
    for part, own in rules.schemas.items():
        rule, registry = publication.subjects[part], ports.registries[part]
        schema = RegisteredSchema(own.format, own.text)
        number: int | SchemaConflict | None = _found(rule, registry, schema)
        if number is None:
            number = registry.register(rule.subject, schema)
        if isinstance(number, SchemaConflict):
            raise _incompatible(rule, registry, schema, number)
        schemas[part] = replace(own, id=number)
    return replace(publication, messages=rules.with_schemas(schemas))


def standing_schemas(
    publication: Publication, ports: PublicationPorts
) -> tuple[SchemaStanding, ...]:
    """Return how its schemas stand in their registries, which stay as they are.

    Raises what `with_schemas` raises.
    """
    rules = _made(publication, ports)
    return () if rules is None else _standing(rules, publication, ports)


def _standing(
    rules: MessageRules, publication: Publication, ports: PublicationPorts
) -> tuple[SchemaStanding, ...]:
    found: list[SchemaStanding] = []
    for part, own in rules.schemas.items():
        rule, registry = publication.subjects[part], ports.registries[part]
        schema = RegisteredSchema(own.format, own.text)
        number = _found(rule, registry, schema)
        if number is None and (conflict := registry.conflict(rule.subject, schema)):
            raise _incompatible(rule, registry, schema, conflict)
        found.append(SchemaStanding(part, rule.subject, number))
    return tuple(found)


def standing_rules(publication: Publication, ports: PublicationPorts) -> MessageRules | None:
    """Return the rules of the next messages; a schema that is not registered yet has no number.

    Raises what `with_schemas` raises.
    """
    rules = _made(publication, ports)
    if rules is None:
        return publication.messages
    known = {each.part: each.id for each in _standing(rules, publication, ports)}
    return rules.with_schemas(
        {part: replace(own, id=known[part] or 0) for part, own in rules.schemas.items()}
    )


def _made(publication: Publication, ports: PublicationPorts) -> MessageRules | None:
    """Return the rules with the texts of schemas; None where there are none, or no columns yet."""
    rules = publication.messages
    if rules is None or not rules.schemas:
        return None
    columns = ports.source.columns()
    if columns is None:
        return None
    numbered = [p for p, each in rules.schemas.items() if each.format == PROTOBUF and each.is_made]
    former = {
        part: tree
        for part in numbered
        if (tree := _former(publication.subjects[part].subject, ports.registries[part])) is not None
    }
    return with_texts(rules, columns, former)


def _former(subject: str, registry: Subjects) -> Tree | None:
    """Return the message whose numbers columns keep; None of a subject that has none.

    Raises InvalidError (P273).
    """
    there = registry.newest(subject)
    if there is None or there.format != PROTOBUF:
        return None
    try:
        return compiled_tree(there.descriptors, there.fault)
    except ValueError as error:
        raise InvalidError(
            f"the newest schema of the subject {subject} cannot be continued: {error}",
            code="P273",
            hint="publish under another  subject,  or with a  schema  of your own",
        ) from error


def _found(rule: SubjectRule, registry: Subjects, schema: RegisteredSchema) -> int | None:
    """Return the id of a schema, None of one that is to be registered.

    Raises DecisionNeededError (P875) where it may not be.
    """
    number = registry.lookup(rule.subject, schema)
    if number is not None or rule.register == "compatible":
        return number
    there = registry.newest(rule.subject)
    if rule.register == "missing" and there is None:
        return None
    raise DecisionNeededError(
        f"the subject {rule.subject} does not have the schema of the messages, and"
        f"  register: {rule.register}  says that it is not registered;{_both(there, schema)}",
        code="P875",
        hint="register it; or let Penstock do it, where it is compatible:  register: compatible",
    )


def _incompatible(
    rule: SubjectRule, registry: Subjects, schema: RegisteredSchema, found: SchemaConflict
) -> DecisionNeededError:
    there = registry.newest(rule.subject)
    return DecisionNeededError(
        f"the schema of the messages is not compatible with the subject {rule.subject}:"
        f" {found.reason or 'the registry gives no reason'};{_both(there, schema)}",
        code="P874",
        hint="publish with the columns as they were, under another  subject,  or with a  schema  of"
        " your own; or change the subject's compatibility",
    )


def _both(there: RegisteredSchema | None, schema: RegisteredSchema) -> str:
    """Show two schemas."""
    newest = "none" if there is None else there.text[:SHOWN_CHARACTERS_MAX]
    return (
        f" the newest there: {newest}; that of the messages: {schema.text[:SHOWN_CHARACTERS_MAX]}"
    )
