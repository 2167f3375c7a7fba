"""A pending store in memory: the same promises as the SQLite store, for as long as the shelf lives.

Invariants (protocol.md 6, I10):
- each call holds the shelf's lock; a write asserts under it that the claim is the newest;
- a commit goes PENDING to COMMITTED or ABORTED, once;
- commits are kept as their JSON, so that what cannot cross a process cannot pass here either.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.core.claims import Claim, Generation
from penstock.core.commits import Chain, Committable
from penstock.core.errors import UnavailableError
from penstock.core.serialization import committable_from_json, committable_to_json
from penstock.core.store_errors import fenced, settled_otherwise
from penstock.ports.store import ClaimRecord, Examined, Owner


@dataclass(slots=True)
class _Entry:
    """One prepared commit and what became of it."""

    number: int
    pipeline: str
    commit: Committable
    body: str
    state: str = "PENDING"
    reason: str = ""


@dataclass(slots=True)
class Shelf:
    """What a store holds; several stores may be opened over one shelf."""

    guard: threading.RLock = field(default_factory=threading.RLock)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    holdings: dict[str, ClaimRecord] = field(default_factory=dict)
    entries: list[_Entry] = field(default_factory=list)
    examined: dict[str, dict[str, Examined]] = field(default_factory=dict)
    rules: dict[tuple[str, str], str] = field(default_factory=dict)


class MemoryStore:
    """Keep prepared commits on a shelf."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = shelf or Shelf()

    def claim(
        self,
        pipeline: str,
        owner: Owner,
        *,
        above: Generation,
        now_ms: int,
        alive_until_ms: int,
        takeover: bool,
    ) -> Claim:
        """Claim `max(stored, above) + 1`."""
        with self._shelf.guard:
            held = self._shelf.holdings.get(pipeline)
            if not takeover:
                self.require_free(pipeline, owner, now_ms=now_ms)
            stored = 0 if held is None else held.claim.generation
            claim = Claim(Generation(max(stored, above) + 1), owner.id)
            self._shelf.holdings[pipeline] = ClaimRecord(claim, owner, alive_until_ms)
            return claim

    def require_free(self, pipeline: str, owner: Owner, *, now_ms: int) -> None:
        """Raise UnavailableError (P510) while another owner is alive."""
        held = self.holding(pipeline)
        if held is None or held.alive_until_ms <= now_ms or held.owner.id == owner.id:
            return
        raise UnavailableError(
            f"pipeline {pipeline} is run on host {held.owner.host}, pid {held.owner.pid}, "
            f"whose heartbeat is valid until {held.alive_until_ms}",
            code="P510",
            hint="stop it there, or take over:  penstock run --takeover",
        )

    def heartbeat(self, pipeline: str, claim: Claim, *, alive_until_ms: int) -> None:
        """Record that the owner is alive."""
        with self._shelf.guard:
            held = self._check(pipeline, claim)
            self._shelf.holdings[pipeline] = replace(held, alive_until_ms=alive_until_ms)

    def release(self, pipeline: str, claim: Claim) -> None:
        """Record that the owner has ended; a no-op when fenced, and when the store is lost."""
        with self._shelf.guard:
            held = self._shelf.holdings.get(pipeline)
            if held is not None and held.claim == claim:
                self._shelf.holdings[pipeline] = replace(held, alive_until_ms=0)

    def holding(self, pipeline: str) -> ClaimRecord | None:
        """Return the owner of the pipeline, dead or alive."""
        with self._shelf.guard:
            return self._shelf.holdings.get(pipeline)

    def prepare(
        self,
        pipeline: str,
        claim: Claim,
        commits: Sequence[Committable],
        examined: Mapping[str, Examined],
    ) -> None:
        """Insert commits as PENDING and replace `examined` of the tables given, all or nothing."""
        with self._shelf.guard:
            self._check(pipeline, claim)
            added: list[_Entry] = []
            for commit in commits:
                body = committable_to_json(commit)
                entry = self._find(pipeline, commit)
                if entry is None:
                    number = next(self._shelf.numbers)
                    added.append(_Entry(number, pipeline, commit, body))
                elif (entry.state, entry.body) != ("PENDING", body):
                    raise settled_otherwise(commit, entry.state, "PENDING")
            self._shelf.entries += added
            self._shelf.examined.setdefault(pipeline, {}).update(examined)

    def pending(self, pipeline: str) -> Sequence[Committable]:
        """List PENDING commits, oldest epoch first, in the order they were prepared."""
        with self._shelf.guard:
            waiting = [
                entry
                for entry in self._shelf.entries
                if entry.pipeline == pipeline and entry.state == "PENDING"
            ]
        waiting.sort(key=lambda entry: (entry.commit.epoch, entry.number))
        return [committable_from_json(entry.body) for entry in waiting]

    def settle(
        self, pipeline: str, claim: Claim, commit: Committable, *, landed: bool, reason: str
    ) -> None:
        """Move one commit to COMMITTED or ABORTED; older settled rows of its chain are pruned."""
        wanted = "COMMITTED" if landed else "ABORTED"
        with self._shelf.guard:
            self._check(pipeline, claim)
            entry = self._find(pipeline, commit)
            if entry is None or entry.state == wanted:
                return
            if entry.state != "PENDING":
                raise settled_otherwise(commit, entry.state, wanted)
            entry.state, entry.reason = wanted, reason
            self._prune(pipeline, commit.chain)

    def examined(self, pipeline: str, *tables: str) -> Mapping[str, Examined]:
        """Return the offsets examined by table, of all or of those named. Advisory."""
        with self._shelf.guard:
            found = self._shelf.examined.get(pipeline, {})
            return {name: noted for name, noted in found.items() if name in (tables or found)}

    def keep_rules(self, pipeline: str, rules_hash: str, text: str) -> None:
        """Keep the text of a spec by its hash."""
        with self._shelf.guard:
            self._shelf.rules[pipeline, rules_hash] = text

    def rules(self, pipeline: str, rules_hash: str) -> str | None:
        """Return the text of a spec kept before."""
        with self._shelf.guard:
            return self._shelf.rules.get((pipeline, rules_hash))

    def close(self) -> None:
        """Let go of nothing."""

    def _check(self, pipeline: str, claim: Claim) -> ClaimRecord:
        held = self._shelf.holdings.get(pipeline)
        if held is None or held.claim.generation < claim.generation:
            raise UnavailableError(
                "the pending store was lost: it was deleted, replaced or restored",
                code="P502",
                hint="start `penstock run` again: the tables know where to continue",
            )
        if held.claim != claim:
            raise fenced(pipeline, held.claim.generation, held.owner.host, held.owner.pid)
        return held

    def _find(self, pipeline: str, commit: Committable) -> _Entry | None:
        wanted = (pipeline, commit.chain, commit.commit_id, commit.attempt)
        for each in self._shelf.entries:
            held = each.commit
            if wanted == (each.pipeline, held.chain, held.commit_id, held.attempt):
                return each
        return None

    def _prune(self, pipeline: str, chain: Chain) -> None:
        settled = [
            entry.number
            for entry in self._shelf.entries
            if (entry.pipeline, entry.commit.chain) == (pipeline, chain)
            and entry.state != "PENDING"
        ]
        gone = {*settled} - {max(settled)}
        self._shelf.entries = [each for each in self._shelf.entries if each.number not in gone]
