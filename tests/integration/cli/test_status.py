"""`penstock status` says what tables hold, also when no run is next to it."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, within

from penstock.app.inspect import status
from penstock.testing.sent import Sent

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"


def test_after_a_run_it_shows_rows_landed_offsets_and_lag(shop: Shop) -> None:
    shop.send(0, 5)
    shop.send(5, 2, partition=1)
    land(shop)
    land(shop)  # which lands nothing: what is reported is no total of the last run
    shop.send(7, 4)

    reported = within("status", shop.path, "--json").json["tables"]
    offsets = {f"{shop.topic}:0": 5, f"{shop.topic}:1": 2}
    for name in (LAKE, DELTA):
        table = reported[name]
        assert (7, offsets, 4) == (table["table_rows"], table["offsets"], table["lag_records"])

    people = within("status", shop.path).out
    assert "in table" in people
    assert f"{LAKE} has landed {shop.topic}:0 to 5, {shop.topic}:1 to 2" in people


def test_rows_are_counted_as_the_table_has_them_whichever_process_changed_it(shop: Shop) -> None:
    shop.send(0, 5)
    shop.cluster.send(shop.topic, 0, [Sent(b"no json")])
    land(shop)
    DeltaTable(str(shop.directory / "delta" / "shop" / "orders")).delete("id < 2")

    reported = within("status", shop.path, "--json").json["tables"]

    assert (5, 3) == (reported[LAKE]["table_rows"], reported[DELTA]["table_rows"])
    for table in (reported[LAKE], reported[DELTA]):
        health = table["health"]
        assert (1, 1, 0) == (table["table_files"], health["files"], health["groups"])
        assert table["table_rows"] == health["rows"]
    assert 6 == reported[LAKE]["offsets"][f"{shop.topic}:0"]


def test_files_are_counted_and_not_looked_at_where_they_are_too_many_or_do_not_tell(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.spec["tables"][0]["properties"] = {"format-version": "1"}
    shop.send(0, 5)
    land(shop)

    looked_at = within("status", shop.path, "--json").json["tables"]
    monkeypatch.setattr(status, "LOOKED_AT_MAX", 0)
    too_many = within("status", shop.path, "--json").json["tables"]

    assert (None, 1) == (looked_at[LAKE]["health"], looked_at[DELTA]["health"]["files"])
    for table in (too_many[LAKE], too_many[DELTA]):
        assert (1, None) == (table["table_files"], table["health"])


def test_a_table_that_is_not_there_yet_holds_nothing(shop: Shop) -> None:
    shop.send(0, 5)

    reported = within("status", shop.path, "--json")

    table = reported.json["tables"][LAKE]
    assert 0 == reported.code
    assert (None, {}, 5) == (table["table_rows"], table["offsets"], table["lag_records"])


def test_a_table_that_cannot_be_read_is_reported_with_what_to_do(shop: Shop) -> None:
    shop.spec["quarantine"] = {"into": "delta.ops.quarantine"}
    shop.send(0, 5)
    land(shop)
    shop.spec["catalogs"]["lake"]["password"] = "${env:PENSTOCK_IS_NOT_SET}"

    reported = within("status", shop.path)

    assert 2 == reported.code
    assert "P123" in reported.out
    assert "→ export PENSTOCK_IS_NOT_SET" in reported.out
    assert f"{DELTA} has landed" in reported.out
