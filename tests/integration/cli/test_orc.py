"""Tables of ORC in format version 3 under the commands that read rows: audit, replay, retry, load.

PyIceberg takes the times of ORC for nanoseconds in version 3, so the columns that are read matter.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import FileFormat
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_load import lake_of, load, rows
from tests.integration.cli.within import land, within

from penstock.testing.sent import Sent

LAKE = "lake.shop.orders"
ORC = {"write.format.default": "orc"}


def become_orc(shop: Shop, name: str) -> None:
    """Upgrade a table in place, which PyIceberg refuses."""
    at = f"sqlite:///{shop.directory}/lake/catalog.db"
    location = load_catalog("lake", type="sql", uri=at).load_table(name).metadata_location
    file = Path(location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    metadata |= {"format-version": 3, "next-row-id": 0}
    metadata["properties"] |= ORC
    file.write_text(json.dumps(metadata))


def test_rows_of_orc_are_audited_replayed_retried_and_loaded_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = shop.spec["tables"][0]
    shop.spec["tables"] = [rule]
    columns = {"slot": "cast(id % 3 as bigint)", "made": "'former'"}
    created = {"create": True, "hints": {"id": "long"}}
    rule |= {
        "partition_by": ["slot"],
        "properties": {**ORC, "format-version": "3"},
        "schema": created,
    }
    rule |= {"transform": {"columns": columns}}
    red = Sent(b'{"id": 1, "colour": "red"}')
    shop.send(0, 30)
    land(shop)
    shop.cluster.send(shop.topic, 1, [red])
    land(shop)
    become_orc(shop, "ops.quarantine")
    shop.cluster.send(shop.topic, 1, [red])
    shop.send(30, 30)
    land(shop)
    shop.prove()
    counted = within("audit", shop.path, "--count", "--json").json["tables"]
    assert [(60, 2)] == [
        (each["row_count"]["rows"], each["row_count"]["quarantined"]) for each in counted
    ]

    columns["made"] = "'replayed'"
    replay = within(
        *("replay", LAKE, f"{shop.topic}:0:30-60", "--spec", shop.path, "--yes", "shop")
    )
    assert 0 == replay.code, replay.err
    columns["made"] = "'loaded'"
    loaded = load(shop, LAKE, "slot=1", "--yes", "shop")
    assert {"removed": 20, "landed": 20, "filtered": {}} == loaded.json["done"], loaded.err
    made = ["loaded" if n % 3 == 1 else "replayed" if n >= 30 else "former" for n in range(60)]
    due = [{"id": n, "slot": n % 3, "made": made[n]} for n in range(60)]
    with monkeypatch.context() as only:  # what PyIceberg reads such times with: no setting of ours
        only.setenv("PYICEBERG_DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE", "true")
        assert due == rows(shop, LAKE)

    created["columns"] = "drop_value"
    retry = ("quarantine", "retry", LAKE, "--spec", shop.path, "--yes", "shop")
    retried = within(*retry)
    assert 0 == retried.code, retried.err
    shop.prove()
    assert 0 == within("maintain", LAKE, "--spec", shop.path, "--yes", "shop").code
    shop.prove()
    table = lake_of(shop).scan(selected_fields=("id",))
    assert sorted([1, 1, *range(60)]) == sorted(table.to_arrow()["id"].to_pylist())
    files = [each.file.file_format for each in table.plan_files()]
    assert {FileFormat.ORC} == {*files}
