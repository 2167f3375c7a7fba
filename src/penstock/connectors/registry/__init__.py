"""Schema registries: Confluent's protocol over HTTP, and `mock://` directories."""

from __future__ import annotations

from penstock.ports.connectors import PORTS_VERSION, RegistryConnector, Settings
from penstock.ports.registry import Registry, Subjects
from penstock.ports.runtime import Secrets


def open_registry(settings: Settings, secrets: Secrets) -> Registry:
    """Open the registry of a spec; it connects when first asked. Raises InvalidError (P670)."""
    from penstock.connectors.registry.directory import SCHEME, DirectoryRegistry
    from penstock.connectors.registry.http import HttpRegistry

    if str(settings["url"]).startswith(SCHEME):
        return DirectoryRegistry(str(settings["url"]))
    return HttpRegistry(settings, secrets)


def open_subjects(settings: Settings, secrets: Secrets) -> Subjects:
    """Open the subjects of a registry. Raises InvalidError (P670, P672)."""
    from penstock.connectors.registry.http import HttpRegistry
    from penstock.connectors.registry.subjects import HttpSubjects

    return HttpSubjects(HttpRegistry(settings, secrets))


connector = RegistryConnector(
    PORTS_VERSION, frozenset({"http", "https", "mock"}), open_registry, open_subjects
)
