# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The part of the stores' contract about pauses of tables; `StoreContract` has it all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.core.claims import Claim, Generation
from penstock.ports.store import Owner, Pause, PendingStore

NOW_MS = 1_700_000_000_000


class StorePauses:
    """Pauses are kept by pipeline and table; who holds the pipeline confirms them."""

    def open_store(self, place: Path) -> PendingStore:
        """Open the store of a directory."""
        raise NotImplementedError

    def test_pauses_are_kept_by_table_and_returned_by_a_heartbeat(
        self, store: PendingStore, held: Claim
    ) -> None:
        first, other = Pause("b", NOW_MS, NOW_MS + 1), Pause("a", NOW_MS, NOW_MS + 2)
        again = Pause("b", NOW_MS + 5, NOW_MS + 9)
        for each in (first, other, again):
            store.pause("shop", each)
        store.pause("another", first)

        assert [other, again] == list(store.pauses("shop"))
        assert [other, again] == list(store.heartbeat("shop", held, alive_until_ms=NOW_MS))

    def test_a_pause_ends_once(self, store: PendingStore) -> None:
        store.pause("shop", Pause("t", NOW_MS, NOW_MS + 1))

        assert [False, True] == [store.resume("another", "t"), store.resume("shop", "t")]
        assert not store.resume("shop", "t")
        assert [] == list(store.pauses("shop"))

    def test_only_the_very_pause_is_confirmed(self, store: PendingStore, held: Claim) -> None:
        former, now = Pause("t", NOW_MS, NOW_MS + 1), Pause("t", NOW_MS, NOW_MS + 9)
        store.pause("shop", former)
        store.pause("shop", now)
        store.confirm_pause("shop", held, former)
        assert [now] == list(store.pauses("shop"))

        store.confirm_pause("shop", held, now)
        assert [replace(now, seen_by=held.generation)] == list(store.pauses("shop"))
        store.pause("shop", now)
        assert [now] == list(store.pauses("shop")), "a pause that begins is not confirmed"

    def test_a_pause_needs_neither_a_claim_nor_a_store(
        self, store: PendingStore, place: Path
    ) -> None:
        assert [] == list(store.pauses("shop"))
        store.pause("shop", Pause("t", NOW_MS, NOW_MS + 1))
        other = self.open_store(place)

        assert [Pause("t", NOW_MS, NOW_MS + 1)] == list(other.pauses("shop"))
        other.claim(
            "shop",
            Owner("late", "elsewhere", 12),
            above=Generation(0),
            now_ms=NOW_MS,
            alive_until_ms=NOW_MS + 1,
            takeover=True,
        )
        assert [Pause("t", NOW_MS, NOW_MS + 1)] == list(store.pauses("shop"))
        if other is not store:
            other.close()
