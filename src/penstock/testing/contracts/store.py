# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The contract of `ports/store.py`, as tests that any pending store must pass.

How to use: subclass `StoreContract` in a test module, give `open_store` (opened twice in one place,
both see the same rows) and `lose` (make the store's contents vanish), and run pytest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.claims import Claim, Generation
from penstock.core.commits import Chain, Committable, DataFile
from penstock.core.errors import BugError, FencedError, UnavailableError
from penstock.ports.store import ClaimRecord, Examined, Owner, Pause, PendingStore
from penstock.testing.contracts.store_pauses import StorePauses
from penstock.testing.prepared import claim, positions, prepared, progress

NOW_MS = 1_700_000_000_000
ORDERS = Chain("shop", "lake.bronze.orders")
QUARANTINE = Chain("shop/lake.bronze.orders", "lake.ops.quarantine")
FILE = DataFile("a.parquet", 3, 1000, progress({0: (0, 3)}), detail='{"v":1}')


def owner(name: str, *, host: str = "elsewhere", pid: int = 12) -> Owner:
    """Name an owner; on another host by default, so that no pid is checked here."""
    return Owner(name, host, pid)


def take(store: PendingStore, name: str = "a", *, pipeline: str = "shop", **given: Any) -> Claim:
    """Claim a pipeline for a minute, taking over by default."""
    asked: dict[str, Any] = {
        "above": Generation(0),
        "now_ms": NOW_MS,
        "alive_until_ms": NOW_MS + 60_000,
        "takeover": True,
    }
    return store.claim(pipeline, given.pop("by", owner(name)), **{**asked, **given})


def commit_of(
    start: int, *, chain: Chain = ORDERS, epoch: int = 1, attempt: str = "a1"
) -> Committable:
    """Prepare the commit of three offsets."""
    return prepared(
        chain, {0: (start, start + 3)}, files=[FILE], epoch=epoch, attempt=attempt, held=claim()
    )


def noted(offsets: Mapping[int, int]) -> Examined:
    """Note that a table was examined from 0 up to some offsets."""
    basis = positions(dict.fromkeys(offsets, 0))
    return Examined(basis=basis, rejects=basis, reached=positions(offsets), rules_hash="r1")


class StoreContract(StorePauses):
    """Check one pending store against the promises of its port."""

    def lose(self, place: Path) -> None:
        """Make the store's contents vanish under those that have it open."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Return the directory the store lives in."""
        return tmp_path

    @pytest.fixture
    def store(self, place: Path) -> Iterator[PendingStore]:
        """Open a fresh store."""
        opened = self.open_store(place)
        yield opened
        opened.close()

    @pytest.fixture
    def held(self, store: PendingStore) -> Claim:
        """Claim the pipeline as the owner `a`."""
        return take(store)

    # Claims.

    def test_a_store_nobody_used_is_empty(self, store: PendingStore) -> None:
        assert store.holding("shop") is None
        assert [] == list(store.pending("shop"))
        assert {} == store.examined("shop")
        assert store.rules("shop", "r1") is None

    def test_the_first_claim_is_above_what_the_tables_say(self, store: PendingStore) -> None:
        assert Claim(Generation(1), "a") == take(store, "a")
        assert Claim(Generation(8), "b") == take(store, "b", above=Generation(7))
        assert Claim(Generation(9), "c") == take(store, "c", above=Generation(3))

    def test_the_holder_is_reported(self, store: PendingStore, held: Claim) -> None:

        assert ClaimRecord(held, owner("a"), NOW_MS + 60_000) == store.holding("shop")

    def test_a_claim_is_refused_while_another_owner_is_alive(
        self, store: PendingStore, held: Claim
    ) -> None:
        with pytest.raises(UnavailableError) as refused:
            take(store, "b", takeover=False)

        assert "P510" == refused.value.code
        assert "elsewhere" in refused.value.message
        assert "12" in refused.value.message
        assert "penstock run --takeover" in refused.value.hint
        store.heartbeat("shop", held, alive_until_ms=NOW_MS + 1)

    def test_whether_a_claim_would_be_refused_is_reported_without_one(
        self, store: PendingStore
    ) -> None:
        store.require_free("shop", owner("b"), now_ms=NOW_MS)
        held = take(store, "a")
        store.require_free("shop", owner("a"), now_ms=NOW_MS)
        with pytest.raises(UnavailableError) as refused:
            store.require_free("shop", owner("b"), now_ms=NOW_MS)
        store.heartbeat("shop", held, alive_until_ms=NOW_MS - 1)
        store.require_free("shop", owner("b"), now_ms=NOW_MS)

        holding = store.holding("shop")
        assert ("P510", held) == (refused.value.code, holding.claim if holding else None)

    def test_a_claim_succeeds_when_the_heartbeat_has_run_out(self, store: PendingStore) -> None:
        take(store, "a")

        assert Claim(Generation(2), "b") == take(store, "b", takeover=False, now_ms=NOW_MS + 60_000)

    def test_a_claim_succeeds_after_a_release(self, store: PendingStore) -> None:
        store.release("shop", take(store, "a"))

        assert Claim(Generation(2), "b") == take(store, "b", takeover=False)

    def test_an_owner_may_claim_again(self, store: PendingStore) -> None:
        take(store, "a")

        assert Claim(Generation(6), "a") == take(store, "a", takeover=False, above=Generation(5))

    def test_a_heartbeat_keeps_others_out(self, store: PendingStore) -> None:
        held = take(store, "a", alive_until_ms=NOW_MS + 10)
        store.heartbeat("shop", held, alive_until_ms=NOW_MS + 5_000)
        with pytest.raises(UnavailableError):
            take(store, "b", takeover=False, now_ms=NOW_MS + 4_999)

    def test_pipelines_do_not_disturb_each_other(self, store: PendingStore) -> None:
        shop, bank = take(store, "a"), take(store, "b", pipeline="bank", takeover=False)
        store.prepare("shop", shop, [commit_of(0)], {"t": noted({0: 1})})
        store.prepare("bank", bank, [commit_of(3)], {})
        store.keep_rules("bank", "r1", "bank's")

        assert [commit_of(0)] == list(store.pending("shop"))
        assert [commit_of(3)] == list(store.pending("bank"))
        assert {} == store.examined("bank")
        assert store.rules("shop", "r1") is None

    def test_of_claims_at_once_each_gets_a_generation_of_its_own(self, place: Path) -> None:
        stores = [self.open_store(place) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            claims = list(pool.map(lambda n: take(stores[n % 4], f"owner-{n}"), range(12)))
        for each in stores:
            each.close()

        assert list(range(1, 13)) == sorted(held.generation for held in claims)

    # Guards.

    def test_every_write_of_a_fenced_owner_is_refused(self, store: PendingStore) -> None:
        old = take(store, "a")
        store.prepare("shop", old, [commit_of(0)], {})
        new = take(store, "b")
        before = store.holding("shop")
        with pytest.raises(FencedError):
            store.prepare("shop", old, [commit_of(3)], {"t": noted({0: 9})})
        with pytest.raises(FencedError):
            store.settle("shop", old, commit_of(0), landed=True, reason="")
        with pytest.raises(FencedError):
            store.heartbeat("shop", old, alive_until_ms=NOW_MS * 2)
        with pytest.raises(FencedError):
            store.confirm_pause("shop", old, Pause("t", 1, 2))
        store.release("shop", old)

        assert [commit_of(0)] == list(store.pending("shop"))
        assert {} == store.examined("shop")
        assert before == store.holding("shop")
        store.settle("shop", new, commit_of(0), landed=True, reason="")

    def test_an_equal_generation_of_another_owner_is_refused(
        self, store: PendingStore, held: Claim
    ) -> None:
        with pytest.raises(FencedError):
            store.prepare("shop", replace(held, owner="b"), [commit_of(0)], {})

    def test_a_lost_store_ends_the_run_and_no_write_passes(
        self, store: PendingStore, held: Claim, place: Path
    ) -> None:
        store.prepare("shop", held, [commit_of(0)], {})
        self.lose(place)
        with pytest.raises(UnavailableError, match="lost"):
            store.prepare("shop", held, [commit_of(3)], {})
        with pytest.raises(UnavailableError, match="lost"):
            store.settle("shop", held, commit_of(0), landed=True, reason="")
        with pytest.raises(UnavailableError, match="lost"):
            store.heartbeat("shop", held, alive_until_ms=NOW_MS)
        store.release("shop", held)

    def test_a_lost_store_begins_anew_above_the_tables(
        self, store: PendingStore, place: Path
    ) -> None:
        take(store, "a")
        self.lose(place)
        held = take(store, "b", takeover=False, above=Generation(1))
        store.prepare("shop", held, [commit_of(3)], {})

        assert Claim(Generation(2), "b") == held
        assert [commit_of(3)] == list(store.pending("shop"))

    # The two phases.

    def test_what_was_prepared_comes_back_equal_also_for_another(
        self, store: PendingStore, held: Claim, place: Path
    ) -> None:
        full = replace(
            commit_of(0), origins=positions({4: 7}), valid_through_ms=NOW_MS, rules_hash="é\n'\""
        )
        store.prepare("shop", held, [full], {})
        other = self.open_store(place)

        assert [full] == list(store.pending("shop")) == list(other.pending("shop"))
        other.close()

    def test_pending_is_in_order_of_epochs_and_then_as_prepared(
        self, store: PendingStore, held: Claim
    ) -> None:
        late = commit_of(9, epoch=3)
        first, second = commit_of(0, chain=QUARANTINE, epoch=2), commit_of(0, epoch=2)
        store.prepare("shop", held, [late], {})
        store.prepare("shop", held, [first, second], {})

        assert [first, second, late] == list(store.pending("shop"))

    def test_preparing_is_all_or_nothing(self, store: PendingStore, held: Claim) -> None:
        store.prepare("shop", held, [commit_of(0)], {})
        store.settle("shop", held, commit_of(0), landed=True, reason="")
        with pytest.raises(BugError) as raised:
            store.prepare("shop", held, [commit_of(3), commit_of(0)], {"t": noted({0: 1})})

        assert "P750" == raised.value.code
        assert [] == list(store.pending("shop"))
        assert {} == store.examined("shop")

    def test_preparing_the_same_again_changes_nothing(
        self, store: PendingStore, held: Claim
    ) -> None:
        store.prepare("shop", held, [commit_of(0)], {})
        store.prepare("shop", held, [commit_of(0)], {})

        assert [commit_of(0)] == list(store.pending("shop"))

    def test_one_commit_prepared_twice_with_other_files_is_two_attempts(
        self, store: PendingStore, held: Claim
    ) -> None:
        attempts = [commit_of(0, attempt=name) for name in ("a1", "a2")]
        store.prepare("shop", held, attempts, {})
        store.settle("shop", held, attempts[0], landed=False, reason="its files are missing")

        assert [attempts[1]] == list(store.pending("shop"))

    @pytest.mark.parametrize("landed", [True, False], ids=["committed", "aborted"])
    def test_a_settled_commit_is_not_pending_and_stays_as_it_is(
        self, store: PendingStore, held: Claim, *, landed: bool
    ) -> None:
        store.prepare("shop", held, [commit_of(0), commit_of(3)], {})
        store.settle("shop", held, commit_of(0), landed=landed, reason="first")
        store.settle("shop", held, commit_of(0), landed=landed, reason="again")
        with pytest.raises(BugError) as raised:
            store.settle("shop", held, commit_of(0), landed=not landed, reason="")
        assert "P750" == raised.value.code
        with pytest.raises(BugError):
            store.prepare("shop", held, [commit_of(0)], {})

        assert [commit_of(3)] == list(store.pending("shop"))

    def test_settling_what_is_not_there_changes_nothing(
        self, store: PendingStore, held: Claim
    ) -> None:
        store.settle("shop", held, commit_of(0), landed=True, reason="")

        assert [] == list(store.pending("shop"))

    def test_settled_rows_older_than_the_newest_of_a_chain_are_pruned(
        self, store: PendingStore, held: Claim
    ) -> None:
        mine = [commit_of(start) for start in (0, 3, 6)]
        other = commit_of(0, chain=QUARANTINE)
        store.prepare("shop", held, [other, *mine], {})
        for commit in (other, mine[0], mine[1]):
            store.settle("shop", held, commit, landed=True, reason="")

        assert [True, False, True, True] == [
            self.is_kept(store, held, commit) for commit in (other, mine[0], mine[1], mine[2])
        ]

    def is_kept(self, store: PendingStore, held: Claim, commit: Committable) -> bool:
        """Return whether a row is still there: it then refuses to be prepared with another body."""
        try:
            store.prepare("shop", held, [replace(commit, rules_hash="other")], {})
        except BugError:
            return True
        return False

    # What else is kept.

    def test_examined_is_replaced_table_by_table(self, store: PendingStore, held: Claim) -> None:
        store.prepare("shop", held, [], {"a": noted({0: 1, 1: 1}), "b": noted({0: 1})})
        store.prepare("shop", held, [], {"a": noted({0: 5})})

        assert {"a": noted({0: 5}), "b": noted({0: 1})} == store.examined("shop")
        assert {"a": noted({0: 5})} == store.examined("shop", "a", "unknown")
        assert {} == store.examined("shop", "unknown")

    def test_rules_are_kept_by_hash(self, store: PendingStore) -> None:
        store.keep_rules("shop", "r1", "name: shop\n# ünïcode")
        store.keep_rules("shop", "r2", "other")
        store.keep_rules("shop", "r1", "name: shop\n# ünïcode")

        assert "name: shop\n# ünïcode" == store.rules("shop", "r1")
        assert "other" == store.rules("shop", "r2")

    def test_everything_is_there_after_opening_again(
        self, store: PendingStore, held: Claim, place: Path
    ) -> None:
        store.prepare("shop", held, [commit_of(0)], {"t": noted({0: 4})})
        store.keep_rules("shop", "r1", "text")
        store.close()
        again = self.open_store(place)
        again.heartbeat("shop", held, alive_until_ms=NOW_MS)

        assert [commit_of(0)] == list(again.pending("shop"))
        assert {"t": noted({0: 4})} == again.examined("shop")
        assert "text" == again.rules("shop", "r1")
        again.close()

    def test_a_store_is_used_by_many_threads_at_once(
        self, store: PendingStore, held: Claim
    ) -> None:
        all_commits = [commit_of(start * 3, epoch=start + 1) for start in range(40)]

        def both_phases(commit: Committable) -> None:
            store.prepare("shop", held, [commit], {"t": noted({0: commit.epoch})})
            if commit.epoch % 2:
                store.settle("shop", held, commit, landed=True, reason="")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(both_phases, all_commits))

        assert all_commits[1::2] == list(store.pending("shop"))

    def test_of_commits_settled_at_once_each_meets_its_own_error(
        self, store: PendingStore, held: Claim
    ) -> None:
        all_commits = [commit_of(start * 3, epoch=start + 1) for start in range(16)]
        store.prepare("shop", held, all_commits, {})
        store.settle("shop", held, all_commits[-1], landed=False, reason="gone")

        def refused(commit: Committable) -> bool:
            try:
                store.settle("shop", held, commit, landed=True, reason="")
            except BugError:
                return True
            return False

        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(refused, all_commits))

        assert [False] * 15 + [True] == found
        assert [] == list(store.pending("shop"))
