# ruff: noqa: ARG002, ARG005 - hooks and plants are given more than they need
"""The contracts find faults: each planted one fails the test that is there for it."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from tests.story.foreign_acts import PlayedStore, PlayedWarehouse

from penstock.connectors.memory import ledger
from penstock.connectors.memory import tables as memory
from penstock.connectors.memory.file_rows import WarehouseRows
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.tables import MemoryTable, MemoryTables
from penstock.connectors.memory.warehouse import Stored
from penstock.connectors.memory.writer import MemoryWriter
from penstock.ports.tables import Verdict
from penstock.testing.contracts.store import StoreContract, take
from penstock.testing.contracts.table import TableContract
from penstock.testing.contracts.table_fixture import foreign_row
from penstock.testing.prepared import origin


class MemoryFixture(TableContract):
    def __init__(self):
        self.warehouse = PlayedWarehouse()

    def open_catalog(self, place):
        return MemoryTables(self.warehouse)

    def open_writer(self):
        return MemoryTables(self.warehouse).open_writer

    def open_file_rows(self):
        return WarehouseRows(self.warehouse)

    def rows(self, table):
        return [dict(row) for row in self.warehouse.rows(table.name)]

    def foreign_append(self, table):
        self.warehouse.foreign_append(table.name, [foreign_row()])

    def roll_back(self, table, snapshot):
        self.warehouse.roll_back(table.name, snapshot)

    def drop(self, catalog, name):
        self.warehouse.drop(name)

    def snapshots(self, table):
        return list(self.warehouse.get(table.name).contents.snapshots)

    def remove_file(self, table, path):
        self.warehouse.remove_file(path)

    def truncate_file(self, table, path):
        self.warehouse.truncate_file(path)


def rebasing(monkeypatch):
    """As libraries' automatic retries do: the commit is put on whatever is there."""

    def apply(self, base, changed):
        now, head = self.contents, changed.snapshots[changed.head]
        files = (*now.files, *head.files[len(base.files) :])
        rebased = replace(head, parent=now.head, files=files)
        self.contents = replace(
            now.with_snapshot(rebased), ledgers=changed.ledgers, tags=changed.tags
        )

    monkeypatch.setattr(Stored, "apply", apply)


def files_without_ledger(monkeypatch):
    monkeypatch.setattr(
        memory, "with_ledger", lambda base, state, commit, snapshot: base.with_snapshot(snapshot)
    )


def blind_to_rollbacks(monkeypatch):
    monkeypatch.setattr(
        memory,
        "verdict_of",
        lambda contents, chain, landed: (Verdict.AGREED if landed else Verdict.ABSENT, ""),
    )


def blind_to_missing_files(monkeypatch):
    monkeypatch.setattr(MemoryTable, "missing_files", lambda self, files: [])


def trimming_other_writers(monkeypatch):
    monkeypatch.setattr(
        memory,
        "trimmed",
        lambda contents, retain: replace(
            contents, snapshots=dict(list(contents.snapshots.items())[-retain:])
        ),
    )


def ignoring_the_uuid(monkeypatch):
    def apply(self, base, changed):
        self.contents = changed

    original = MemoryTable.commit
    monkeypatch.setattr(Stored, "apply", apply)

    def commit(self, state, prepared, *, retain, row_deletes=()):
        uuid = self._warehouse.get(self.name).contents.uuid
        return original(
            self,
            replace(state, handle=replace(state.handle, uuid=uuid)),
            prepared,
            retain=retain,
            row_deletes=row_deletes,
        )

    monkeypatch.setattr(MemoryTable, "commit", commit)


def forgetting_generations(monkeypatch):
    original = ledger.landed_after
    monkeypatch.setattr(
        ledger,
        "landed_after",
        lambda landed, commit: replace(original(landed, commit), generation=landed.generation),
    )


def counting_rows_backwards(monkeypatch):
    original = MemoryWriter.places

    def places(self):
        file, row = original(self)
        return file, row[::-1]

    monkeypatch.setattr(MemoryWriter, "places", places)


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (rebasing, "test_one_commit_from_two_holders_of_a_state_lands_once"),
        (rebasing, "test_of_two_racing_commits_one_lands_and_the_other_conflicts"),
        (rebasing, "test_a_fence_after_a_rollback_kills_the_attempt_it_armed"),
        (files_without_ledger, "test_a_commit_lands_files_and_ledger_together"),
        (blind_to_rollbacks, "test_a_rollback_is_reported"),
        (blind_to_missing_files, "test_removed_and_truncated_files_are_missing"),
        (trimming_other_writers, "test_own_snapshots_beyond_retain_are_trimmed_and_no_others"),
        (ignoring_the_uuid, "test_a_recreated_table_is_another_and_takes_no_old_commit"),
        (forgetting_generations, "test_the_new_ledger_is_the_old_one_after_the_commit"),
        (
            counting_rows_backwards,
            "test_a_writer_knows_the_file_of_each_row_and_its_place_there",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_planted_fault_of_a_table_is_found(monkeypatch, plant, test):
    play(MemoryFixture(), test)
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        play(MemoryFixture(), test)


def play(bench, test):
    catalog = bench.open_catalog(Path())
    method = getattr(bench, test)
    asked = inspect.signature(method).parameters
    given = {"catalog": lambda: catalog, "place": Path}
    given["table"] = lambda: bench.create(catalog, origin(bench.chain, {0: 0, 1: 0}))
    method(**{name: given[name]() for name in asked})


class Shop(StoreContract):
    def __init__(self):
        self.store = PlayedStore()

    def open_store(self, place):
        return self.store

    def lose(self, place):
        self.store.lose()


def unguarded(monkeypatch):
    monkeypatch.setattr(
        MemoryStore, "_check", lambda self, pipeline, claim: self.holdings.get(pipeline)
    )


def forgetting_settled(monkeypatch):
    def prune(self, pipeline, chain):
        self.entries = [each for each in self.entries if each.state == "PENDING"]

    monkeypatch.setattr(MemoryStore, "_prune", prune)


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (unguarded, "test_every_write_of_a_fenced_owner_is_refused"),
        (unguarded, "test_a_lost_store_ends_the_run_and_no_write_passes"),
        (forgetting_settled, "test_settled_rows_older_than_the_newest_of_a_chain_are_pruned"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_planted_fault_of_a_store_is_found(monkeypatch, plant, test):
    for planted in (False, True):
        shop = Shop()
        store = shop.open_store(Path())
        given = {"store": lambda: store, "place": Path, "held": lambda: take(store)}  # noqa: B023
        method = getattr(shop, test)
        asked = {name: given[name]() for name in inspect.signature(method).parameters}
        if not planted:
            method(**asked)
            plant(monkeypatch)
            continue
        with pytest.raises((AssertionError, AttributeError, pytest.fail.Exception)):
            method(**asked)
