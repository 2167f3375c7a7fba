"""Shards of a pipeline for real: processes that share tables, and commands about one or all."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack

import duckdb
import pytest
from deltalake import DeltaTable
from tests.integration.cli.shop import Shop, problem
from tests.integration.cli.test_news import News
from tests.processes.process import Driver

SHARDS = 3


@pytest.fixture
def sharded(shop: Shop) -> Shop:
    shop.spec["shards"] = SHARDS
    shop.cluster.grow(shop.topic, 6)
    return shop


def send(shop: Shop, first: int, count: int) -> int:
    """Send to all partitions; return what comes next."""
    for partition in range(6):
        shop.send(first + partition * count, count, partition=partition)
    return first + 6 * count


def in_order(shop: Shop) -> list[list[int]]:
    """Return the offsets of each partition as they lie in the Delta table: by commits, files and
    rows, as DuckDB reads the files that deltalake names.
    """
    table = DeltaTable(shop.directory / "delta/shop/orders")
    logs = sorted((shop.directory / "delta/shop/orders/_delta_log").glob("*.json"))
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    paths = [each["add"]["path"] for each in entries if "add" in each]
    files = sorted(
        table.file_uris(), key=lambda uri: [uri.endswith(each) for each in paths].index(True)
    )
    query = "select _kafka_partition, _kafka_offset from read_parquet(?) order by file_row_number"
    found: list[list[int]] = [[] for _ in range(6)]
    with duckdb.connect() as database:
        for each in files:
            for partition, offset in database.execute(query, [each]).fetchall():
                found[partition].append(offset)
    return found


def test_shards_land_one_pipeline_and_commands_are_about_one_of_them_or_all(sharded: Shop) -> None:
    shop = sharded
    following = send(shop, 0, 10)
    for shard in range(SHARDS):
        ran = shop.run("--shard", str(shard))
        assert 0 == ran.code, ran.err
    following = send(shop, following, 5)
    for shard in reversed(range(SHARDS)):
        assert 0 == shop.run(PENSTOCK_SHARD=str(shard)).code

    assert ([*range(following)], [*range(following)]) == shop.ids()
    assert [[*range(15)]] * 6 == in_order(shop)
    audit = shop.call("audit", "--count", "--shard", "all")
    assert 0 == audit.code, audit.out + audit.err
    of_all = shop.call("status", "--json", "--shard", "all").json
    assert [f"shop+{shard}" for shard in range(SHARDS)] == [*of_all["shards"]] == of_all["unowned"]
    through = [
        each["tables"]["lake.shop.orders"]["valid_through_ms"] for each in of_all["shards"].values()
    ]
    assert min(through) == of_all["valid_through_ms"]["lake.shop.orders"]
    assert "shop+2: no process lands it" in shop.call("status", "--shard", "all").out
    require_news(shop)
    for table in ("lake.shop.orders", "delta.shop.orders"):
        assert "P276" == problem(shop.call("load", table, "--replace", "--json"))[0]
    for command, *words in (("plan", "--shard", "1"), ("doctor", "--shard", "all"), ("validate",)):
        assert 0 == shop.call(command, *words).code, command


def require_news(shop: Shop) -> None:
    """Require that news tell each commit of each shard once, and of a table once that it is."""
    news = News(shop)
    assert 0 == news.publish().code
    news.require_exact()
    told = news.told()
    chains = {each.chain for each in told if each.type == "commit.landed"}
    for table in ("lake.shop.orders", "delta.shop.orders"):
        assert {(table, f"shop+{shard}") for shard in range(SHARDS)} <= chains
    assert 2 == [each.type for each in told].count("table.created")
    assert {"shop"} == {each.data["pipeline"] for each in told}
    [through] = [e.data["valid_through_ms"] for e in told if e.type == "through.advanced"]
    of_all = shop.call("status", "--json", "--shard", "all").json
    assert through == min(of_all["valid_through_ms"].values())
    del shop.spec["publish"]


def test_what_a_command_cannot_do_with_shards_is_refused_by_name(sharded: Shop) -> None:
    shop = sharded
    assert "P528" == problem(shop.run())[0]
    assert "P528" == problem(shop.run("--shard", "3"))[0]
    assert "P529" == problem(shop.run("--shard", "all"))[0]
    send(shop, 0, 2)
    assert 0 == shop.run("--shard", "1").code
    shop.spec["shards"] = 4
    again = shop.run("--shard", "1").json
    assert {"P527"} == {each["code"] for each in again["parked"].values()}
    assert (
        "was begun by 3 shards, and the spec says 4 shards"
        in again["parked"]["delta.shop.orders"]["message"]
    )
    assert f"P527  publication {shop.name}: " in News(shop).publish().err
    del shop.spec["shards"]
    assert f"P527  publication {shop.name}: " in News(shop).publish().err
    del shop.spec["publish"]
    assert "P527" == problem(shop.run())[0]
    assert "P528" == problem(shop.run("--shard", "1"))[0]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_co_g1_shards_that_are_killed_one_after_the_other_land_each_record_once(
    sharded: Shop,
) -> None:
    """Each is killed while it lands and started again, while the others go on."""
    shop = sharded
    following = send(shop, 0, 10)
    with ExitStack() as stack:

        def started(shard: int) -> Driver:
            return stack.enter_context(shop.driver("--shard", str(shard)))

        shards = [started(shard) for shard in range(SHARDS)]
        for each in shards:
            each.wait_for("TableCommitted")
        for shard in (1, 0, 2, 1):
            following = send(shop, following, 20)
            shards[shard].kill()
            shards[shard] = started(shard)
            following = send(shop, following, 20)
            shards[shard].wait_for("TableCommitted")
        for each in shards:
            each.send(signal.SIGTERM)
            assert 0 == each.end().code
    for shard in range(SHARDS):
        assert 0 == shop.run("--shard", str(shard)).code

    assert ([*range(following)], [*range(following)]) == shop.ids()
    assert [[*range(170)]] * 6 == in_order(shop)
    assert 0 == shop.call("audit", "--count", "--shard", "all").code
