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
from typing import Any

from penstock.core.errors import InvalidError
from penstock.spec.language.notation import MalformedError
from penstock.spec.model import Pipeline
from penstock.spec.problems import KeyPath, Problem, SpecError
from penstock.spec.secrets import ProcessSecrets, escaped, references
from penstock.spec.settings.catalogs import Catalog, DeltaCatalog, HiveCatalog, SqlCatalog
from penstock.spec.settings.records import Records, RegistrySettings, registry_address
from penstock.spec.settings.sections import Security

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+[a-z0-9]+)?:///)(?P<path>[^?]+)(?P<query>\?.*)?")
_MOCK = "mock://"
_SECURITY_PATHS = ("ca", "certificate", "key")


def is_resolved_later(path: KeyPath) -> bool:
    """Return whether the references of a setting stay for the process that uses them."""
    return (
        path[:1] == ("catalogs",)
        or path[:2] in (("kafka", "security"), ("pending", "store"), ("records", "registry"))
        or (path[:1] == ("tables",) and path[2:4] == ("records", "registry"))
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
    """Return the pipeline with absolute paths. Raises SpecError when a path cannot be told."""
    finding = _Finding(base.absolute(), secrets or ProcessSecrets())
    catalogs = {name: finding.catalog(name, each) for name, each in pipeline.catalogs.items()}
    security = finding.security(pipeline.kafka.security)
    pending = pipeline.pending
    store = finding.store(pending.store.replace("{name}", pipeline.name))
    records = finding.records(pipeline.records, ("records",))
    tables = tuple(
        table
        if table.records is None
        else table.model_copy(
            update={"records": finding.records(table.records, ("tables", index, "records"))}
        )
        for index, table in enumerate(pipeline.tables)
    )
    if finding.problems:
        raise SpecError(finding.problems, name=f"pipeline '{pipeline.name}'")
    return pipeline.model_copy(
        update={
            "catalogs": catalogs,
            "records": records,
            "tables": tables,
            "kafka": pipeline.kafka.model_copy(update={"security": security}),
            "pending": pending.model_copy(update={"store": store}),
        }
    )


class _Finding:
    """Turns the paths of one spec into absolute ones, and keeps what went wrong."""

    def __init__(self, base: Path, secrets: ProcessSecrets) -> None:
        self.base = base
        self.secrets = secrets
        self.problems: list[Problem] = []

    def catalog(self, name: str, catalog: Catalog) -> Catalog:
        """Locate a catalog's address and the place of its tables."""
        at: KeyPath = ("catalogs", name)
        match catalog:
            case DeltaCatalog():
                root = self.resolved(catalog.root, (*at, "root"))
                return catalog.model_copy(update={"root": escaped(self.place(root))})
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
        """Locate the place of a catalog's tables."""
        place = self.resolved(text, (*at, "warehouse"))
        return escaped(place if _SCHEME.match(place) else f"file://{self.absolute(place)}")

    def security(self, security: Security) -> Security:
        """Locate certificates and keys."""
        return security.model_copy(update=self.certificates(security))

    def certificates(self, block: Security | RegistrySettings) -> dict[str, str]:
        """Locate certificates and keys; one that begins with a reference stays."""
        found = {name: getattr(block, name) for name in _SECURITY_PATHS}
        return {
            name: value if value.startswith("${") else self.within_base(value)
            for name, value in found.items()
            if value is not None
        }

    def records(self, records: Records, at: KeyPath) -> Records:
        """Locate a directory of schemas, and what a registry is asked with."""
        registry = records.registry
        if registry is None:
            return records
        place = (*at, "registry", "url")
        url = self.resolved(registry.url, place)
        if url != registry.url:
            try:
                registry_address(url)
            except MalformedError as error:  # the fact may hold what the reference stands for
                fact = "what the reference stands for is no address without a user"
                self.problems.append(Problem(place, error.code, fact, error.hint))
        if url.startswith(_MOCK):
            url = f"{_MOCK}{self.absolute(url.removeprefix(_MOCK))}"
        update = {**self.certificates(registry), "url": escaped(url)}
        return records.model_copy(update={"registry": registry.model_copy(update=update)})

    def store(self, text: str) -> str:
        """Locate the pending store."""
        if text.startswith("postgresql:"):  # it may hold a secret: resolved where it is opened
            return text
        return escaped(self.sqlite(self.resolved(text, ("pending", "store"))))

    def address(self, uri: str) -> str:
        """Locate an SQLite file; other addresses may hold secrets and stay as they are."""
        try:
            known = self.secrets.resolve(uri) if "${file:" not in uri else ""
        except InvalidError:  # who opens the catalog reports it, in the process that does
            return uri
        return escaped(self.sqlite(known)) if known.startswith("sqlite") else uri

    def resolved(self, text: str, path: KeyPath) -> str:
        """Resolve the references of a place, which is no secret."""
        if any(reference.kind == "file" for reference in references(text)):
            fact = "a place cannot be read from a file"
            self.problems.append(Problem(path, "P122", fact, "write ${env:NAME}"))
            return text
        try:
            return self.secrets.resolve(text)
        except InvalidError as error:
            self.problems.append(Problem(path, error.code, error.message, error.hint))
            return text

    def sqlite(self, address: str) -> str:
        """Make the path of an SQLite address absolute; one in memory stays."""
        found = _SQLITE.fullmatch(address)
        if found is None or found["path"].startswith((":memory:", "file:")):
            return address
        return f"{found['scheme']}{self.absolute(found['path'])}{found['query'] or ''}"

    def place(self, text: str) -> str:
        """Make a path absolute; an address with a scheme stays."""
        return text if _SCHEME.match(text) else self.absolute(text)

    def within_base(self, text: str) -> str:
        """Make a path absolute whose references stay unresolved."""
        return text if text.startswith("/") else f"{escaped(str(self.base))}/{text}"

    def absolute(self, text: str) -> str:
        """Join a path to the base, without links being followed."""
        return os.path.normpath(self.base / text)
