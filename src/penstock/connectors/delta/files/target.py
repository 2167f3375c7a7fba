"""The part of a table that a worker needs, as versioned JSON: no log, no secret.

Invariant: reading back what was written returns an equal value; a newer version is rejected.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.delta.files.statistics import Indexed
from penstock.connectors.delta.schema.column_mapping import Stored
from penstock.core.schema import Schema, schema_from_json, type_to_json
from penstock.core.table_errors import no_target, require_target_version
from penstock.files import FileOptions

TARGET_VERSION = 3


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how files of a table are written.

    Rows come with the columns of `schema`; files hold those of `stored`, and so do the names in
    `partition_by` and `indexed`.
    """

    table: str
    location: str
    schema: Schema
    stored: Stored
    partition_by: tuple[str, ...]
    indexed: Indexed = field(default_factory=Indexed)
    options: FileOptions = field(default_factory=FileOptions)
    storage: Mapping[str, str] = field(default_factory=dict)


def target_to_json(target: Target) -> str:
    """Write a target."""
    indexed = target.indexed
    data = {
        "v": TARGET_VERSION,
        "table": target.table,
        "location": target.location,
        "schema": type_to_json(target.schema),
        "stored": [type_to_json(target.stored.schema), list(target.stored.ids)],
        "partition_by": list(target.partition_by),
        "indexed": [indexed.count, list(indexed.names), list(indexed.clustering)],
        "sizes": target.options.sizes,
        "storage": dict(target.storage),
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


@functools.lru_cache(maxsize=64)
def target_from_json(text: str) -> Target:
    """Read a target. Raises InvalidError (P190) for a newer version, BugError (P702) for no target.

    Kept for the texts seen last: a worker gets the same one with every task.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        require_target_version(data["v"], TARGET_VERSION)
        count, names, *clustering = data["indexed"]
        schema = schema_from_json(data["schema"])
        stored, ids = data.get("stored", (data["schema"], ()))
        return Target(
            table=data["table"],
            location=data["location"],
            schema=schema,
            stored=Stored(schema_from_json(stored), tuple(ids)),
            partition_by=tuple(data["partition_by"]),
            indexed=Indexed(count, tuple(names), *map(tuple, clustering)),
            options=FileOptions.of_sizes(data["sizes"]),
            storage=data["storage"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise no_target("Delta", error) from error
