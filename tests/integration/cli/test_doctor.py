"""`penstock doctor` checks all that a spec names, and leaves no files."""

from __future__ import annotations

from deltalake import DeltaTable
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import fingerprint, land, within


def examined(shop: Shop, *words: str) -> tuple[int, dict[tuple[str, str], dict[str, str]]]:
    done = within("doctor", shop.path, "--json", *words)
    return done.code, {(each["check"], each["subject"]): each for each in done.json["checks"]}


def test_a_healthy_pipeline_passes_and_keeps_no_trace_of_the_check(shop: Shop) -> None:
    shop.send(0, 10)
    land(shop)
    code, found = examined(shop)

    assert 0 == code
    assert [] == [each for each in found.values() if each["status"] != "ok"]
    assert "Kafka 4" in found["release", shop.cluster.bootstrap]["message"]
    assert "1 topic" in found["permissions", shop.cluster.bootstrap]["message"]
    for name in ("lake", "delta"):
        assert "the second was refused" in found["compare-and-set", name]["message"]
    assert "format version 2" in found["table", "lake.shop.orders"]["message"]
    assert "1 snapshots" in found["snapshots", "lake.shop.orders"]["message"]
    assert [] == [*shop.directory.rglob("*penstock_scratch*")]
    shop.prove()


def test_with_read_only_nothing_is_written(shop: Shop) -> None:
    shop.path.stat()
    before = fingerprint(shop.directory)
    code, found = examined(shop, "--read-only")

    assert (0, before) == (code, fingerprint(shop.directory))
    assert "unknown" == found["compare-and-set", "lake"]["status"]


def test_what_is_wrong_is_reported_all_at_once_with_the_worst_exit_code(shop: Shop) -> None:
    shop.spec["kafka"]["topics"] = [shop.topic, "no.such.topic"]
    shop.spec["catalogs"]["delta"]["root"] = "./penstock.yaml"
    code, found = examined(shop)

    assert 2 == code
    assert "P205" == found["permissions", "topic no.such.topic"]["code"]
    assert "1 topic" in found["permissions", shop.cluster.bootstrap]["message"]
    assert "P431" == found["compare-and-set", "delta"]["code"]
    reported = within("doctor", shop.path)
    assert "→ create it, or correct its name" in reported.out


def test_rows_that_deltalake_doubled_are_named_with_versions_and_files(shop: Shop) -> None:
    """Its `compact` takes what was compacted since it read the table for what it read."""
    shop.spec["maintain"] = {"every": "6h", "only": ["rearrange"]}
    for first in range(0, 9, 3):
        shop.send(first, 3)
        land(shop)
    stale = DeltaTable(shop.directory / "delta" / "shop" / "orders")
    table = "delta.shop.orders"
    assert 0 == within("maintain", shop.path, table, "--yes", "shop").code
    stale.optimize.compact()
    _, found = examined(shop)
    status, audited = within("status", shop.path), within("audit", shop.path)

    told = "(OPTIMIZE, delta-rs:"
    assert {"warning"} == {found[check, table]["status"] for check in ("rows", "compaction")}
    assert told in found["rows", table]["message"]
    assert "only: [sweep]" in found["compaction", table]["hint"]
    assert f"{table} has rows that may be there twice (version" in " ".join(status.out.split())
    assert 4 == audited.code
    assert "RESTORE to the version before" in " ".join(audited.out.split())
    stale.update_incremental()
    stale.restore(stale.version() - 1)
    _, found = examined(shop)
    assert "P455" == found["table", table]["code"], "a rollback, which a person settles"
    assert 0 == within("seek", shop.path, table, "--yes", "shop").code
    land(shop)
    assert 0 == within("audit", shop.path, "--count").code
