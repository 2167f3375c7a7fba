"""A pending store in memory: the same promises as the SQLite store, for as long as it lives.

Invariants (protocol.md 6, I10):
- each call holds the store's lock; a write asserts under it that the claim is the newest;
- a commit goes PENDING to COMMITTED or ABORTED, once;
- commits are kept as their JSON, so that what cannot cross a process cannot pass here either.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core.claims import Claim, Generation
from penstock.core.commits import Chain, Committable
from penstock.core.errors import UnavailableError
from penstock.core.serialization import committable_from_json, committable_to_json
from penstock.core.store_errors import fenced, settled_otherwise
from penstock.ports.store import ClaimRecord, Examined, Owner, Pause


@dataclass(slots=True, eq=False)
class _Entry:
    pipeline: str
    commit: Committable
    body: str
    state: str = "PENDING"
    reason: str = ""


class MemoryStore:
    """Keep prepared commits, in the order they were prepared."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.holdings: dict[str, ClaimRecord] = {}
        self.entries: list[_Entry] = []
        self.noted: dict[str, dict[str, Examined]] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.paused: dict[tuple[str, str], Pause] = {}

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
        with self.guard:
            held = self.holdings.get(pipeline)
            if not takeover:
                self.require_free(pipeline, owner, now_ms=now_ms)
            stored = 0 if held is None else held.claim.generation
            claim = Claim(Generation(max(stored, above) + 1), owner.id)
            self.holdings[pipeline] = ClaimRecord(claim, owner, alive_until_ms)
            return claim

    def require_free(self, pipeline: str, owner: Owner, *, now_ms: int) -> None:
        """Raise UnavailableError (P510) while another owner is alive."""
        held = self.holding(pipeline)
        if held is None or held.alive_until_ms <= now_ms or held.owner.id == owner.id:
            return
        raise UnavailableError(
            f"pipeline {pipeline} is run on host {held.owner.host}, pid {held.owner.pid}; "
            f"its heartbeat is valid until {held.alive_until_ms}",
            code="P510",
            hint="stop it there, or take over:  penstock run --takeover",
        )

    def heartbeat(self, pipeline: str, claim: Claim, *, alive_until_ms: int) -> Sequence[Pause]:
        """Record that the owner is alive; return the pauses of its pipeline."""
        with self.guard:
            held = self._check(pipeline, claim)
            self.holdings[pipeline] = replace(held, alive_until_ms=alive_until_ms)
            return self.pauses(pipeline)

    def release(self, pipeline: str, claim: Claim) -> None:
        """Record that the owner has ended; a no-op when fenced, and when the store is lost."""
        with self.guard:
            held = self.holdings.get(pipeline)
            if held is not None and held.claim == claim:
                self.holdings[pipeline] = replace(held, alive_until_ms=0)

    def holding(self, pipeline: str) -> ClaimRecord | None:
        """Return the owner of the pipeline, dead or alive."""
        with self.guard:
            return self.holdings.get(pipeline)

    def prepare(
        self,
        pipeline: str,
        claim: Claim,
        commits: Sequence[Committable],
        examined: Mapping[str, Examined],
    ) -> None:
        """Insert commits as PENDING and replace `examined` of the tables given, all or nothing."""
        with self.guard:
            self._check(pipeline, claim)
            added: list[_Entry] = []
            for commit in commits:
                body = committable_to_json(commit)
                entry = self._find(pipeline, commit)
                if entry is None:
                    added.append(_Entry(pipeline, commit, body))
                elif (entry.state, entry.body) != ("PENDING", body):
                    raise settled_otherwise(commit, entry.state, "PENDING")
            self.entries += added
            self.noted.setdefault(pipeline, {}).update(examined)

    def pending(self, pipeline: str) -> Sequence[Committable]:
        """List PENDING commits, oldest epoch first, in the order they were prepared."""
        with self.guard:
            waiting = [
                entry
                for entry in self.entries
                if entry.pipeline == pipeline and entry.state == "PENDING"
            ]
        waiting.sort(key=lambda entry: entry.commit.epoch)
        return [committable_from_json(entry.body) for entry in waiting]

    def settle(
        self, pipeline: str, claim: Claim, commit: Committable, *, landed: bool, reason: str
    ) -> None:
        """Move one commit to COMMITTED or ABORTED; older settled rows of its chain are pruned."""
        wanted = "COMMITTED" if landed else "ABORTED"
        with self.guard:
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
        with self.guard:
            found = self.noted.get(pipeline, {})
            return {name: noted for name, noted in found.items() if name in (tables or found)}

    def keep_rules(self, pipeline: str, rules_hash: str, text: str) -> None:
        """Keep the text of a spec by its hash."""
        with self.guard:
            self.texts[pipeline, rules_hash] = text

    def rules(self, pipeline: str, rules_hash: str) -> str | None:
        """Return the text of a spec kept before."""
        with self.guard:
            return self.texts.get((pipeline, rules_hash))

    def pause(self, pipeline: str, pause: Pause) -> None:
        """Pause a table, in place of a pause it has."""
        with self.guard:
            self.paused[pipeline, pause.table] = pause

    def resume(self, pipeline: str, table: str) -> bool:
        """End the pause of a table; return whether it had one."""
        with self.guard:
            return self.paused.pop((pipeline, table), None) is not None

    def pauses(self, pipeline: str) -> Sequence[Pause]:
        """List the pauses by table, also those that are over by their time."""
        with self.guard:
            return [self.paused[key] for key in sorted(self.paused) if key[0] == pipeline]

    def confirm_pause(self, pipeline: str, claim: Claim, pause: Pause) -> None:
        """Record that the owner makes no attempt on a table while this very pause lasts."""
        with self.guard:
            self._check(pipeline, claim)
            key = pipeline, pause.table
            held = self.paused.get(key)
            if held is not None and replace(held, seen_by=pause.seen_by) == pause:
                self.paused[key] = replace(held, seen_by=claim.generation)

    def close(self) -> None:
        """Let go of nothing."""

    def _check(self, pipeline: str, claim: Claim) -> ClaimRecord:
        held = self.holdings.get(pipeline)
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
        for each in self.entries:
            held = each.commit
            if wanted == (each.pipeline, held.chain, held.commit_id, held.attempt):
                return each
        return None

    def _prune(self, pipeline: str, chain: Chain) -> None:
        settled = [
            entry
            for entry in self.entries
            if (entry.pipeline, entry.commit.chain) == (pipeline, chain)
            and entry.state != "PENDING"
        ]
        self.entries = [each for each in self.entries if each not in settled[:-1]]
