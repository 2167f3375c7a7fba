"""The integration scenarios of two peers, with our expected results. Names are those of our tests.

Iceberg's sink for Kafka Connect (its integration tests):

| scenario | test |
|---|---|
| append, partitioned and not | test_rows_land_in_tables_with_and_without_partitions |
| append, with evolution of the schema | test_tables_grow_with_their_records_and_every_reader_reads_old_and_new_rows |
| tables made by themselves | test_the_whole_way_of_a_user_from_validate_to_audit |
| static fan-out by conditions | test_records_go_to_the_first_rule_that_takes_them_and_to_tables_of_their_own |
| dynamic fan-out by a field | test_a_table_is_created_for_the_first_record_that_asks_for_it |
| renamed topics | test_topics_with_hostile_names_get_tables_with_plain_names |
| change events | test_debezium_text_and_compressed_records_share_a_pipeline |
| restart: no record twice, none missing | test_a_signal_ends_a_run_cleanly_with_all_tables_level |

kafka-delta-ingest (its tests):

| scenario | test |
|---|---|
| explicit offsets, offset 0 among them | test_a_start_is_where_the_spec_says |
| earliest, latest | test_a_start_is_where_the_spec_says |
| latest, before anything was sent | test_from_latest_only_what_comes_later_lands |
| flush by size | test_once_lands_one_epoch |
| flush by latency | test_what_is_there_lands_after_a_while_however_little_it_is |
| schema changed by others meanwhile | test_a_column_that_another_adds_meanwhile_with_another_type_is_his |
| null in a column to partition by | test_rows_land_in_tables_with_and_without_partitions |
| empty text in a column to partition by | test_a_record_with_an_empty_partition_value_is_quarantined_and_the_others_land |
| dead letters: bytes that are no JSON, values that do not fit | test_every_kind_of_bad_record_is_quarantined_with_its_code_and_counted |
| ends at latest offsets | test_a_start_is_where_the_spec_says |
| buffered or flushed, then killed | test_whatever_happens_every_record_ends_in_one_place |
| tombstones | test_tombstones_are_left_out_where_the_spec_says_so_and_counted |
"""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.cli.shop import Shop

import penstock
from penstock.testing.sent import Sent


def land(shop: Shop) -> None:
    """Land all there is, in this process: it is quicker."""
    assert {} == dict(penstock.open(shop.path).run().parked)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [0, 1, 2, 3, 4, 5]),
        ("latest", []),
        ({0: 0, 1: 0}, [0, 1, 2, 3, 4, 5]),
        ({0: 2, 1: 3}, [2]),
        ({0: 1}, [1, 2, 3, 4, 5]),
    ],
)
def test_a_start_is_where_the_spec_says(shop: Shop, start: Any, expected: list[int]) -> None:
    shop.spec["kafka"]["start"] = start if isinstance(start, str) else {shop.topic: start}
    if start == "latest":
        for table in shop.spec["tables"]:
            table["schema"]["hints"] = {"id": "long"}
    shop.send(0, 3, partition=0)
    shop.send(3, 3, partition=1)

    land(shop)

    if expected:
        assert (expected, expected) == shop.ids()
    else:
        shop.send(6, 1)
        land(shop)
        assert ([6], [6]) == shop.ids()


def test_from_latest_only_what_comes_later_lands(shop: Shop) -> None:
    shop.spec["kafka"]["start"] = "latest"
    land(shop)
    shop.send(0, 2)

    land(shop)

    assert ([0, 1], [0, 1]) == shop.ids()


def test_rows_land_in_tables_with_and_without_partitions(shop: Shop) -> None:
    """And null is a partition of its own."""
    fields = {"hints": {"at": "timestamptz"}}
    for table, partition_by in zip(
        shop.spec["tables"], (["day(at)", "city"], ["city"]), strict=True
    ):
        table["partition_by"] = partition_by
        table["schema"] |= fields
    plain = {"from": shop.topic, "into": "lake.shop.plain", "continue": True}
    shop.spec["tables"].insert(0, {**plain, "schema": {"create": True, **fields}})
    stamps = ["2026-11-20T23:59:59Z", "2026-11-21T00:00:00Z", None]
    orders = [
        {"id": n, "at": stamps[n % 3], "city": [None, "Rome"][n % 2], "n": n} for n in range(12)
    ]
    shop.cluster.send(shop.topic, 0, [Sent(json.dumps(order).encode()) for order in orders])

    land(shop)

    for rows in (shop.lake("shop.plain"), shop.lake(), shop.delta()):
        reported = sorted((r["id"], str(r["at"])[:10], r["city"]) for r in rows)
        assert [(o["id"], str(o["at"])[:10], o["city"]) for o in orders] == reported
    found = DeltaTable(shop.directory / "delta/shop/orders").partitions()
    assert {None, "Rome"} == {each["city"] for each in found}
    shop.prove()


def test_what_is_there_lands_after_a_while_however_little_it_is(shop: Shop) -> None:
    shop.spec["commit"] |= {"every": "300ms", "or_records": 1_000_000}
    shop.send(0, 1)
    pipeline = penstock.open(shop.path)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pipeline.run, until="stopped")
        deadline = time.monotonic() + 30
        try:
            while not _landed(shop, 1) and time.monotonic() < deadline:
                time.sleep(0.05)
            shop.send(1, 1)
            while not _landed(shop, 2) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert _landed(shop, 2), "the second record lands while the pipeline runs"
        finally:
            pipeline.stop()
            running.result()
    assert ([0, 1], [0, 1]) == shop.ids()


def _landed(shop: Shop, count: int) -> bool:
    log = shop.directory / "delta/shop/orders/_delta_log"
    return log.is_dir() and len(shop.ids_of_delta()) >= count


def test_every_scenario_has_a_test() -> None:
    names = set(re.findall(r"\| (test_\w+) \|", __doc__ or ""))
    texts = [path.read_text("utf-8") for path in Path(__file__).parents[2].rglob("*.py")]
    found = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}

    assert 15 <= len(names)
    assert set() == names - found
