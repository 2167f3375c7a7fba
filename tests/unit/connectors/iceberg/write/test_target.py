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


def test_an_open_orc_file_holds_a_stripe_so_few_are_open() -> None:
    given = {"write.target-file-size-bytes": str(256 << 20), "write.format.default": "orc"}
    text = target("t", **given).replace('"sizes": [1, 1, 1]', '"sizes": [1, 1, 64]')
    usual = target_from_json(text).orc_options()
    codec = {"write.orc.compression-codec": "NONE", "write.orc.stripe-size-bytes": str(4 << 20)}
    small = target_from_json(
        target("t", **given, **codec).replace('"sizes": [1, 1, 1]', '"sizes": [1, 1, 64]')
    ).orc_options()

    assert (8, 64 << 20, "zlib") == (usual.open_writers, usual.row_group_bytes, usual.compression)
    assert (64, 4 << 20, "uncompressed") == (
        small.open_writers,
        small.row_group_bytes,
        small.compression,
    )
