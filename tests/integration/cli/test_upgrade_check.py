"""`penstock upgrade-check` says what a new release meets where an older one has run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import fingerprint, land, within

from penstock.core import serialization

Checks = dict[tuple[str, str], dict[str, str]]
STORE = ("store", "pending store of shop")


def checked(shop: Shop, *words: str) -> tuple[int, Checks]:
    """Check, and prove that nothing in the shop's directory was written."""
    shop.path.stat()
    before = fingerprint(shop.directory)
    done = within("upgrade-check", shop.path, "--json", *words)
    assert before == fingerprint(shop.directory)
    return done.code, {(each["check"], each["subject"]): each for each in done.json["checks"]}


def store_of(shop: Shop) -> Path:
    (path,) = (each for each in shop.directory.rglob("*.db") if "state" in each.parts)
    return path


def make_older(path: Path) -> None:
    """Take away what came later, as the first release's store has it."""
    with closing(sqlite3.connect(path)) as store, store:
        for name in ("pauses", "members", "servers"):
            store.execute(f"DROP TABLE {name}")


def test_a_release_that_changes_nothing_says_so(shop: Shop) -> None:
    shop.send(0, 10)
    land(shop)
    code, found = checked(shop, "--exit-code")

    assert (0, []) == (code, [each for each in found.values() if each["status"] != "ok"])
    assert "stays as it is" == found[STORE]["message"]
    assert "1 ledger" in found["table", "lake.shop.orders"]["message"]
    assert ("table", "delta.shop.orders") in found


def test_a_store_of_an_older_layout_is_told_and_left_as_it_is(shop: Shop) -> None:
    shop.send(0, 10)
    land(shop)
    make_older(store_of(shop))
    code, found = checked(shop)
    asked, _ = checked(shop, "--exit-code")
    land(shop)
    after, _ = checked(shop, "--exit-code")

    assert "warning" == found[STORE]["status"]
    assert "the first run adds 3 tables: pauses, members, servers" == found[STORE]["message"]
    assert (0, 10, 0) == (code, asked, after)
    shop.prove()


def test_what_a_newer_release_wrote_is_refused_before_anything_is_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.send(0, 10)
    land(shop)
    with closing(sqlite3.connect(store_of(shop))) as store, store:
        store.execute("PRAGMA user_version = 2")
    monkeypatch.setattr(serialization, "LEDGER_VERSION", 0)
    code, found = checked(shop)

    assert 2 == code
    assert ("failed", "P505") == (found[STORE]["status"], found[STORE]["code"])
    assert "P190" == found["table", "lake.shop.orders"]["code"]
    assert "P190" == found["table", "delta.shop.orders"]["code"]


def test_words_that_are_gone_and_rules_that_changed_are_named(shop: Shop) -> None:
    shop.send(0, 10)
    land(shop)
    shop.spec["tables"][0]["tombstones"] = "skip"
    _, found = checked(shop)
    shop.spec["commit"]["evry"] = "1s"
    gone = within("upgrade-check", shop.path)

    assert "other rules" in found["table", "lake.shop.orders"]["message"]
    assert 2 == gone.code
    assert "evry" in gone.err
