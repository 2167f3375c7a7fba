"""Which places of a spec workers on other hosts cannot write to.

Invariants: pure; a place that holds a reference is judged once it is resolved; a catalog that a
server places tables for (`rest`) is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.spec.problems import Problem

if TYPE_CHECKING:
    from penstock.spec.settings.catalogs import Catalog
    from penstock.spec.settings.sections import SparkSettings

_HERE = ("local", "inline", "existing")
_PLACES = {"delta": "root", "rest": None}


def is_remote(master: str) -> bool:
    """Return whether a master surely starts workers on other hosts; a lent session may, too."""
    return "${" not in master and master.partition("[")[0] not in _HERE


def unreachable(spark: SparkSettings, catalogs: Mapping[str, Catalog | None]) -> Iterator[Problem]:
    """Find directories of this machine that hold tables, unless they are declared shared."""
    if spark.shared_directories:
        return
    for name, catalog in catalogs.items():
        setting = None if catalog is None else _PLACES.get(catalog.type, "warehouse")
        place = None if setting is None else getattr(catalog, setting)
        if place is not None and _is_directory(place):
            yield Problem(
                ("catalogs", name, str(setting)),
                "P128",
                "workers on other hosts cannot write to a directory of this one",
                "such as s3://lake/warehouse; where all hosts mount it, add to spark:"
                "  shared_directories: true",
            )


def _is_directory(place: str) -> bool:
    scheme, mark, _ = place.partition("://")
    return not place.startswith("${") and (not mark or scheme == "file")
