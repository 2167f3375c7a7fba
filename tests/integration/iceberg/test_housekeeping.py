"""What nothing names goes without a listing; a listing is rare, and finds what else is old."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest

from penstock.connectors.iceberg.commit.metadata_cleanup import MetadataCleanup

HOUR, DAY = 3600.0, 86_400.0
PLANTED = "00000-00000000-0000-0000-0000-{:012}.metadata.json"


class Shop:
    """A table that names three versions before the current one, an hour's horizon, and a clock."""

    def __init__(self, lake) -> None:
        self.lake = lake
        self.table = lake.create(properties={"write.metadata.previous-versions-max": "3"})
        self.now = 0.0
        self.landed = 0
        self.housekeeping = self.began()

    def began(self) -> MetadataCleanup:
        return MetadataCleanup(HOUR, lambda: self.now)

    def commit(self, times: int) -> None:
        for _ in range(times):
            self.housekeeping.note(self.lake.foreign())
            self.lake.land(self.table, {0: (self.landed, self.landed + 1)})
            self.landed += 1
        self.housekeeping.note(self.lake.foreign())

    def draw(self, monkeypatch, one_in: int = 1) -> None:
        """Let one in so many versions, each of them, count as a listing."""
        monkeypatch.setattr(
            "penstock.connectors.iceberg.commit.metadata_cleanup._LISTING_ONE_IN", one_in
        )

    def plant(self, number: int, age_seconds: float, name: str = PLANTED, text: str = "") -> Path:
        """Leave a metadata file that the table never named."""
        planted = self.place / name.format(number)
        planted.write_text(text or Path(self.current.removeprefix("file://")).read_text())
        written = time.time() - age_seconds
        os.utime(planted, (written, written))
        return planted

    def tidy(self) -> int:
        return self.housekeeping.remove_old_metadata(self.lake.foreign())

    @property
    def current(self) -> str:
        return self.lake.foreign().metadata_location

    @property
    def place(self) -> Path:
        return self.lake.place / "warehouse" / "bronze" / "orders" / "metadata"

    def versions(self) -> list[int]:
        return sorted(int(each.name[:5]) for each in self.place.glob("*.metadata.json"))


@pytest.fixture
def shop(lake, monkeypatch):
    """Give a shop in which no version draws a listing, until a test lets it draw."""
    opened = Shop(lake)
    opened.draw(monkeypatch, one_in=2**32)
    return opened


def test_what_is_named_no_more_goes_an_hour_later_and_nothing_is_listed(shop):
    never_named = shop.plant(1, 2 * HOUR)
    shop.commit(6)
    shop.now = HOUR / 2
    young = shop.tidy()
    shop.now = HOUR
    removed = shop.tidy()

    assert (0, 3) == (young, removed)
    assert [0, 3, 4, 5, 6] == shop.versions()
    assert never_named.exists()
    assert list(range(6)) == shop.lake.ids()


def test_the_hour_begins_when_a_file_was_last_seen_named(shop):
    shop.commit(4)
    shop.now = HOUR
    shop.commit(1)
    removed = shop.tidy()
    shop.now = 2 * HOUR
    later = shop.tidy()

    assert (1, 1) == (removed, later), "version 1 was named until the last commit"
    assert [2, 3, 4, 5] == shop.versions()


def test_what_others_removed_meanwhile_is_no_error_and_forgotten(shop):
    shop.commit(5)
    shop.now = HOUR
    (theirs,) = shop.place.glob("00000-*.metadata.json")
    theirs.unlink()

    assert 1 == shop.tidy()
    assert 0 == shop.tidy()
    assert [2, 3, 4, 5] == shop.versions()


def test_a_stale_table_noted_late_costs_no_referenced_file(shop):
    stale = shop.lake.foreign()
    shop.commit(5)
    shop.now = HOUR
    shop.housekeeping.note(stale)
    shop.tidy()

    assert [0, 2, 3, 4, 5] == shop.versions()


def test_what_was_named_and_is_newer_than_the_table_stays(shop):
    """A catalog that was restored may be given back what it named before."""
    before = shop.lake.foreign()
    shop.commit(3)
    shop.now = 2 * HOUR

    assert 0 == shop.housekeeping.remove_old_metadata(before)
    assert [0, 1, 2, 3] == shop.versions()


def test_files_in_another_directory_stay(shop):
    shop.commit(5)
    with shop.lake.foreign().transaction() as change:
        change.set_properties({"write.metadata.path": f"file://{shop.lake.place}/elsewhere"})
    shop.commit(5)
    shop.now = HOUR
    there = shop.versions()

    assert [0, 1, 3, 4, 5] == there, "PyIceberg's own change removed one"
    assert 2 == shop.tidy(), "of the versions 6 to 11, four are named"
    assert there == shop.versions()


def test_a_listing_finds_what_was_never_named_and_is_old(shop, monkeypatch):
    kinds = (PLANTED, PLANTED.replace("00000-", "00099-", 1), "{:05}-mine.metadata.json")
    old, ahead, unknown = (shop.plant(1, 2 * HOUR, name) for name in kinds)
    young = shop.plant(2, HOUR / 2)
    torn = shop.plant(3, 2 * HOUR, text='{"format-version": 2,')
    packed = shop.plant(4, 2 * HOUR, PLANTED.replace(".meta", ".gz.meta"))
    packed.write_bytes(gzip.compress(packed.read_bytes()))
    os.utime(packed, (time.time() - 2 * HOUR,) * 2)
    shop.draw(monkeypatch)
    shop.commit(5)
    shop.tidy()

    assert not old.exists()
    assert not packed.exists()
    assert all(each.exists() for each in (ahead, unknown, young, torn))


@pytest.mark.parametrize("remembered", [True, False])
def test_the_files_of_a_renamed_table_in_the_same_directory_stay(shop, monkeypatch, remembered):
    catalog = shop.lake.foreign().catalog
    shop.commit(2)
    catalog.rename_table("bronze.orders", "bronze.orders_before")
    current = Path(catalog.load_table("bronze.orders_before").metadata_location[7:])
    shop.table = shop.lake.create(properties={"write.metadata.previous-versions-max": "3"})
    shop.landed = 0
    if not remembered:
        shop.housekeeping = shop.began()
    shop.commit(9)
    os.utime(current, (time.time() - 2 * HOUR,) * 2)
    shop.now = HOUR
    shop.draw(monkeypatch)
    shop.tidy()

    assert current.parent == shop.place
    assert "bronze.orders_before" == ".".join(catalog.load_table("bronze.orders_before").name())
    assert current.exists()


def test_a_listing_is_drawn_and_waits_for_a_day(shop, monkeypatch):
    shop.commit(4)
    first = shop.plant(1, 2 * HOUR)
    shop.draw(monkeypatch, one_in=2**33)
    shop.tidy()
    assert first.exists(), "it was not drawn"

    shop.draw(monkeypatch)
    shop.tidy()
    assert not first.exists()

    second = shop.plant(2, 2 * HOUR)
    shop.now = DAY - 1
    shop.tidy()
    assert second.exists(), "the day is not over"

    shop.now = DAY
    shop.tidy()
    assert not second.exists()


@pytest.mark.parametrize("commits", [1, 2, 5])
def test_some_of_many_short_runs_list_whatever_they_commit(shop, monkeypatch, commits):
    shop.draw(monkeypatch, one_in=2)
    shop.commit(4)
    for run in range(40):
        shop.housekeeping = shop.began()
        planted = shop.plant(run, 2 * HOUR)
        shop.commit(1)
        shop.tidy()  # after the first of its commits, and not again for ten minutes
        if not planted.exists():
            break
        shop.commit(commits - 1)

    assert not planted.exists(), "40 runs of which each second lists: a chance of 1e-12"


def test_a_table_that_keeps_its_metadata_is_not_remembered(shop):
    with shop.lake.foreign().transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    shop.housekeeping = shop.began()
    shop.commit(5)
    with shop.lake.foreign().transaction() as change:
        change.set_properties({"gc.enabled": "true"})
    shop.now = HOUR

    assert 0 == shop.tidy()


def test_what_is_remembered_is_bounded(shop, monkeypatch):
    monkeypatch.setattr("penstock.connectors.iceberg.commit.metadata_cleanup._REMEMBERED_MAX", 6)
    shop.commit(8)
    shop.now = HOUR
    shop.tidy()

    assert [0, 1, 2, 5, 6, 7, 8] == shop.versions()
