"""Whether tables are as fresh as the spec promises, by what a status read of them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.freshness import Promise, judged
from penstock.observe.snapshot import TableStatus
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import promised_seconds


def promises_of(
    pipeline: Pipeline, tables: Mapping[str, TableStatus], now_ms: int
) -> dict[str, Promise]:
    """Judge the tables that something is promised of."""
    found = {name: promised_seconds(pipeline, name) for name in tables}
    return {
        name: judged(
            round(promised * 1000), tables[name].valid_through_ms, tables[name].lag_records, now_ms
        )
        for name, promised in found.items()
        if promised is not None
    }
