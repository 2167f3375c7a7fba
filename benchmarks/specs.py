"""The specs that are run: one topic into one table, what a figure needs and defaults elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks import records

Format = Literal["iceberg", "delta"]
FORMATS: tuple[Format, ...] = ("iceberg", "delta")
PIPELINE = "bench"
TABLE = "bench.events"
_CATALOGS: dict[str, str] = {"iceberg": "lake", "delta": "delta"}


def table_name(table_format: Format) -> str:
    """Return the table's full name."""
    return f"{_CATALOGS[table_format]}.{TABLE}"


def write(
    folder: Path,
    brokers: str,
    topic: str,
    *,
    table_format: Format = "iceberg",
    every: str = "30s",
    or_records: int = 10_000_000,
    partition_by: Sequence[str] = (),
    source_columns: Sequence[str] | None = None,
    reader: str = "columnar",
    policy: str = "quarantine",
    rule: Mapping[str, Any] | None = None,
    maintain: Mapping[str, Any] | None = None,
    store: str = "",
) -> Path:
    """Write a spec whose tables and store are below its folder; JSON is YAML.

    `rule` is more of the table's own settings, `store` the address of a store elsewhere.
    """
    table: dict[str, Any] = {
        "from": topic,
        "into": table_name(table_format),
        "partition_by": list(partition_by),
        "schema": {
            "create": True,
            "hints": records.HINTS,
            "columns": policy,
            "types": policy,
        },
        **(rule or {}),
    }
    if source_columns is not None:
        table["source_columns"] = list(source_columns)
    spec = {
        "name": PIPELINE,
        "kafka": {"brokers": brokers, "topics": [topic], "reader": reader},
        "catalogs": {
            "lake": {
                "type": "sql",
                "uri": f"sqlite:///{folder}/catalog.db",
                "warehouse": str(folder / "lake"),
            },
            "delta": {"type": "delta", "root": str(folder / "delta")},
        },
        "tables": [table],
        "commit": {"every": every, "or_records": or_records, "or_bytes": "4GB"},
        "quarantine": {"into": f"{_CATALOGS[table_format]}.ops.quarantine"},
        "pending": {"store": store or f"sqlite:///{folder}/state/bench.db"},
    }
    if maintain:
        spec["maintain"] = dict(maintain)
    path = folder / "penstock.yaml"
    path.write_text(json.dumps(spec, indent=2))
    return path
