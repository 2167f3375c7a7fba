"""Where things are: relative paths of a spec become absolute, starting at the spec's directory.

Invariants:
- catalogs, `kafka.security` and `pending.store` keep the form in which references are unresolved;
  what is resolved here to find out a path is escaped again, so it is not resolved twice;
- an address with a scheme, an absolute path, and a path that begins with a reference stay;
- `located` of something located is the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from penstock.core.errors import InvalidError
from penstock.spec.language.notation import MalformedError
from penstock.spec.model import Pipeline
from penstock.spec.problems import KeyPath, Problem, SpecError
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets, escaped, references
from penstock.spec.settings.catalogs import Catalog, DeltaCatalog, HiveCatalog, SqlCatalog
from penstock.spec.settings.messages import SchemaSettings
from penstock.spec.settings.publication import PublicationRule
from penstock.spec.settings.records import Records, RegistrySettings, registry_address
from penstock.spec.settings.security import Security
from penstock.spec.settings.sources import (
    FilesToPublish,
    NewsToPublish,
    QueryToPublish,
    TopicToPublish,
)
from penstock.spec.settings.table import Table

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+[a-z0-9]+)?:///)(?P<path>[^?]+)(?P<query>\?.*)?")
_MOCK = "mock://"
_LATER_OF_RULES = {
    ("key", "registry"),
    ("value", "registry"),
    ("from", "options"),
    ("from", "storage_options"),
    ("from", "password"),
}
_LATER_OF_TOPICS = {("from", "kafka", "security"), ("from", "records", "registry")}
_FILES = ("ca", "certificate", "key", "token_ca", "kerberos_keytab")

Block = TypeVar("Block", Security, RegistrySettings)


def is_resolved_later(path: KeyPath) -> bool:
    """Return whether the references of a setting stay for the process that uses them."""
    return (
        path[:1] == ("catalogs",)
        or path[:2] in (("kafka", "security"), ("pending", "store"), ("records", "registry"))
        or (path[:1] == ("tables",) and path[2:4] == ("records", "registry"))
        or path[:2] == ("publishing", "registry")
        or (path[:1] == ("publish",) and path[2:4] in _LATER_OF_RULES)
        or (path[:1] == ("publish",) and path[2:5] in _LATER_OF_TOPICS)
    )


def with_leaves(data: Any, change: Callable[[Any, KeyPath], Any], path: KeyPath = ()) -> Any:
    """Return plain data with all that is no mapping and no list changed, by its path."""
    match data:
        case dict():
            return {key: with_leaves(each, change, (*path, key)) for key, each in data.items()}
        case list():
            return [with_leaves(each, change, (*path, at)) for at, each in enumerate(data)]
        case _:
            return change(data, path)


def located(pipeline: Pipeline, base: Path, secrets: ProcessSecrets | None = None) -> Pipeline:
    """Return the pipeline with absolute paths. Raises SpecError when a path is not known."""
    finding = _Finding(base.absolute(), secrets or ProcessSecrets())
    kafka, pending = pipeline.kafka, pipeline.pending
    store = pending.store
    if pipeline.shards == 1:  # else each shard puts its own name there
        store = store.replace("{name}", pipeline.name)
    update: dict[str, object] = {
        "catalogs": {name: finding.catalog(name, each) for name, each in pipeline.catalogs.items()},
        "kafka": kafka.model_copy(update={"security": finding.certified(kafka.security)}),
        "pending": pending.model_copy(update={"store": finding.store(store)}),
        "records": finding.records(pipeline.records, ("records",)),
        "tables": tuple(finding.table(*each) for each in enumerate(pipeline.tables)),
    }
    if finding.problems:
        raise SpecError(finding.problems, name=f"pipeline '{pipeline.name}'")
    return pipeline.model_copy(update=update)


def located_publications(
    found: Publications, base: Path, secrets: ProcessSecrets | None = None, *, name: str
) -> Publications:
    """Return publications with absolute paths, of the spec that has a name.

    Raises SpecError when a path is not known.
    """
    finding = _Finding(base.absolute(), secrets or ProcessSecrets(), Path(name).name)
    kafka, pending = found.kafka, found.pending
    store = finding.store(pending.store.replace("{name}", found.name))
    update: dict[str, object] = {
        "catalogs": {name: finding.catalog(name, each) for name, each in found.catalogs.items()},
        "kafka": kafka.model_copy(update={"security": finding.certified(kafka.security)}),
        "pending": pending.model_copy(update={"store": store}),
        "publish": tuple(finding.rule(*each) for each in enumerate(found.publish)),
    }
    shared = found.publishing.registry
    if shared is not None:
        own = finding.registry(shared, ("publishing",))
        update["publishing"] = found.publishing.model_copy(update={"registry": own})
    if finding.problems:
        raise SpecError(finding.problems, name=f"publications of '{found.name}'")
    return found.model_copy(update=update)


class _Finding:
    def __init__(self, base: Path, secrets: ProcessSecrets, name: str = "") -> None:
        self.base, self.name = base, name
        self.secrets = secrets
        self.problems: list[Problem] = []

    def catalog(self, name: str, catalog: Catalog) -> Catalog:
        at: KeyPath = ("catalogs", name)
        match catalog:
            case DeltaCatalog():
                root = self.resolved(catalog.root, (*at, "root"))
                place = root if _SCHEME.match(root) else self.absolute(root)
                return catalog.model_copy(update={"root": escaped(place)})
            case SqlCatalog():
                found = {
                    "uri": self.address(catalog.uri),
                    "warehouse": self.warehouse(catalog.warehouse, at),
                }
                return catalog.model_copy(update=found)
            case HiveCatalog(warehouse=str() as text):
                return catalog.model_copy(update={"warehouse": self.warehouse(text, at)})
            case _:  # a server knows its places
                return catalog

    def warehouse(self, text: str, at: KeyPath) -> str:
        place = self.resolved(text, (*at, "warehouse"))
        return escaped(place if _SCHEME.match(place) else f"file://{self.absolute(place)}")

    def certified(self, block: Block) -> Block:
        """Locate certificates, keys and key tables; one that begins with a reference stays."""
        found = {name: getattr(block, name, None) for name in _FILES}
        base = escaped(str(self.base))
        located = {
            name: value if value.startswith(("${", "/")) else f"{base}/{value}"
            for name, value in found.items()
            if value is not None
        }
        return block.model_copy(update=located)

    def records(self, records: Records, at: KeyPath) -> Records:
        if records.registry is None:
            return records
        registry = self.registry(records.registry, at)
        return records.model_copy(update={"registry": registry})

    def rule(self, index: int, rule: PublicationRule) -> PublicationRule:
        """Locate the schemas of a rule, and certificates of registries and of another cluster."""
        parts = {"key": rule.key, "value": rule.value}
        update: dict[str, object] = {
            name: self.schema(own, ("publish", index, name))
            for name, own in parts.items()
            if isinstance(own, SchemaSettings)
        }
        if isinstance(rule.from_, TopicToPublish):
            update["from_"] = self.topic(rule.from_, ("publish", index, "from"))
        if isinstance(rule.from_, QueryToPublish):
            place = {"database": self.sqlite(rule.from_.database)}
            update["from_"] = rule.from_.model_copy(update=place)
        if isinstance(rule.from_, FilesToPublish) and not _SCHEME.match(rule.from_.files):
            files = self.absolute(rule.from_.files) + "/" * rule.from_.files.endswith("/")
            update["from_"] = rule.from_.model_copy(update={"files": files})
        if isinstance(rule.from_, NewsToPublish):
            of = self.absolute(rule.from_.of or self.name)
            update["from_"] = rule.from_.model_copy(update={"of": of})
        return rule.model_copy(update=update)

    def topic(self, source: TopicToPublish, at: KeyPath) -> TopicToPublish:
        update: dict[str, object] = {}
        if source.kafka is not None:
            security = self.certified(source.kafka.security)
            update["kafka"] = source.kafka.model_copy(update={"security": security})
        if source.records is not None:
            update["records"] = self.records(source.records, (*at, "records"))
        return source.model_copy(update=update)

    def schema(self, own: SchemaSettings, at: KeyPath) -> SchemaSettings:
        update: dict[str, object] = {}
        if own.registry is not None:
            update["registry"] = self.registry(own.registry, at)
        if own.schema_file is not None:
            update["schema_file"] = self.absolute(own.schema_file)
        return own.model_copy(update=update)

    def registry(self, registry: RegistrySettings, at: KeyPath) -> RegistrySettings:
        place = (*at, "registry", "url")
        url = self.resolved(registry.url, place)
        if url != registry.url:
            try:
                registry_address(url)
            except MalformedError as error:  # the fact may hold the value of the reference
                fact = "the value of the reference is no address without a user"
                self.problems.append(Problem(place, error.code, fact, error.hint))
        if url.startswith(_MOCK):
            url = f"{_MOCK}{self.absolute(url.removeprefix(_MOCK))}"
        return self.certified(registry).model_copy(update={"url": escaped(url)})

    def table(self, index: int, table: Table) -> Table:
        if table.records is None:
            return table
        records = self.records(table.records, ("tables", index, "records"))
        return table.model_copy(update={"records": records})

    def store(self, text: str) -> str:
        if text.startswith("postgresql:"):  # it may hold a secret: resolved where it is opened
            return text
        return escaped(self.sqlite(self.resolved(text, ("pending", "store"))))

    def address(self, uri: str) -> str:
        """Locate an SQLite file; other addresses may hold secrets and stay as they are."""
        try:
            known = self.secrets.resolve(uri) if "${file:" not in uri else ""
        except InvalidError:  # the process that opens the catalog reports it
            return uri
        return escaped(self.sqlite(known)) if known.startswith("sqlite") else uri

    def resolved(self, text: str, path: KeyPath) -> str:
        if any(reference["file"] for reference in references(text)):
            fact = "a place cannot be read from a file"
            self.problems.append(Problem(path, "P122", fact, "write ${env:NAME}"))
            return text
        try:
            return self.secrets.resolve(text)
        except InvalidError as error:
            self.problems.append(Problem(path, error.code, error.message, error.hint))
            return text

    def sqlite(self, address: str) -> str:
        found = _SQLITE.fullmatch(address)
        if found is None or found["path"].startswith((":memory:", "file:")):
            return address
        return f"{found['scheme']}{self.absolute(found['path'])}{found['query'] or ''}"

    def absolute(self, text: str) -> str:
        """Join a path to the base, without links being followed."""
        return os.path.normpath(self.base / text)
