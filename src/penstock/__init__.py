"""Penstock lands Kafka topics in Iceberg and Delta Lake tables, exactly once.

`penstock.open`, `penstock.Pipeline` and `penstock.Table` are the Python API; they are imported when
first used, so that `import penstock` stays light in every worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.version import __version__

if TYPE_CHECKING:
    from penstock.app.api import OpenPipeline
    from penstock.app.api import open_pipeline as open  # noqa: A004  penstock.open(…) reads well
    from penstock.app.frames import publish_once, publisher
    from penstock.ports.own_sources import Batch, OwnSource, PositionGoneError, source
    from penstock.ports.sources import BadRow
    from penstock.spec.model import Pipeline
    from penstock.spec.settings.table import Table


__all__ = [
    "BadRow",
    "Batch",
    "OpenPipeline",
    "OwnSource",
    "Pipeline",
    "PositionGoneError",
    "Table",
    "__version__",
    "open",
    "publish_once",
    "publisher",
    "source",
]

_HOMES = {
    "BadRow": ("penstock.ports.sources", "BadRow"),
    "Batch": ("penstock.ports.own_sources", "Batch"),
    "OwnSource": ("penstock.ports.own_sources", "OwnSource"),
    "PositionGoneError": ("penstock.ports.own_sources", "PositionGoneError"),
    "source": ("penstock.ports.own_sources", "source"),
    "open": ("penstock.app.api", "open_pipeline"),
    "OpenPipeline": ("penstock.app.api", "OpenPipeline"),
    "Pipeline": ("penstock.spec.model", "Pipeline"),
    "publish_once": ("penstock.app.frames", "publish_once"),
    "publisher": ("penstock.app.frames", "publisher"),
    "Table": ("penstock.spec.settings.table", "Table"),
}


def __getattr__(name: str) -> Any:
    """Import a name of the Python API when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  only when asked

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
