"""What a worker is told of a table, and what tables that are alike share of it."""

from __future__ import annotations

import json

from penstock.connectors.iceberg.write.target import TARGET_VERSION, target_from_json


def target(name: str, **properties: str) -> str:
    column = {"id": 1, "name": "n", "type": "long", "required": False}
    return json.dumps(
        {
            "v": TARGET_VERSION,
            "table": f"lake.{name}",
            "location": f"file:///lake/{name}",
            "schema": {"type": "struct", "fields": [column], "schema-id": 0},
            "format": 2,
            "spec": {"spec-id": 0, "fields": []},
            "order": {"order-id": 0, "fields": []},
            "properties": properties,
            "storage": {},
            "lent": {},
            "sizes": [1, 1, 1],
        }
    )


def test_a_thousand_alike_tables_have_one_shape() -> None:
    found = [target_from_json(target(f"t{number}")) for number in range(1000)]

    assert 1 == len({each.shape for each in found})
    assert ["file:///lake/t0", "file:///lake/t999"] == [found[0].location, found[-1].location]


def test_other_statistics_are_another_shape() -> None:
    fewer = {"write.metadata.metrics.default": "counts"}
    other, usual = (target_from_json(target("t", **each)).shape for each in (fewer, {}))

    assert other is not usual
    assert fewer == other.metrics
