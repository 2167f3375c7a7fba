"""The pending store: prepared commits between the two phases. Never the truth (protocol.md 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.claims import Claim, Generation
from penstock.core.commits import Committable
from penstock.core.offsets import Positions


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a pipeline: `id` is unique for each run.

    `started_ms` is when the process began, by the machine's own books: in milliseconds since its
    boot, which no clock moves, or since the epoch; 0 when unknown. With it a store on the same host
    distinguishes a living owner from another process with its pid.
    """

    id: str
    host: str
    pid: int
    started_ms: int = 0


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """The newest claim of a pipeline and how long its owner said it would be alive.

    It was made `elsewhere` where another server, or a replica that was promoted since, has the
    store now: what was written to the former one last may be missing (docs/design/0327).
    """

    claim: Claim
    owner: Owner
    alive_until_ms: int
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """The examined state of one table, valid only for the positions it was noted with.

    `basis` is what the table was to have landed then, `rejects` the same of its quarantine chain.
    `rules_hash` names the rules that decided on the records; "" where nothing was noted, and where
    it is not known.
    """

    basis: Positions
    rejects: Positions
    reached: Positions
    rules_hash: str = ""


NOBODY = Generation(0)


@dataclass(frozen=True, slots=True)
class Pause:
    """A table that gets no commit for a while, so that another writer has it to itself.

    `seen_by` is the generation whose owner said that it makes no attempt on the table meanwhile,
    `NOBODY` at first; table and times are what identifies a pause.
    """

    table: str
    begun_ms: int
    until_ms: int
    seen_by: Generation = NOBODY


@dataclass(frozen=True, slots=True)
class StoreAsFound:
    """A store that is only looked at: what is read of it leaves it as an older release wrote it.

    `adds` names what the next run of this release adds to it.
    """

    store: PendingStore
    adds: tuple[str, ...] = ()


class PendingStore(Protocol):
    """Keeps prepared commits durably, guarded by the generation.

    Every write raises FencedError when the claim is no longer the newest, and UnavailableError when
    the store cannot be reached or its disk is full.
    """

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
        """Claim `max(stored, above) + 1` by compare-and-swap.

        Raises UnavailableError (P510) while another owner's heartbeat is alive, unless `takeover`.
        """

    def require_free(self, pipeline: str, owner: Owner, *, now_ms: int) -> None:
        """Raise UnavailableError (P510) where `claim` would refuse this owner now."""

    def heartbeat(self, pipeline: str, claim: Claim, *, alive_until_ms: int) -> Sequence[Pause]:
        """Record that the owner is alive; return the pauses of its pipeline."""

    def release(self, pipeline: str, claim: Claim) -> None:
        """Record that the owner has ended; a no-op when fenced."""

    def holding(self, pipeline: str) -> ClaimRecord | None:
        """Return the owner of the pipeline, dead or alive."""

    def prepare(
        self,
        pipeline: str,
        claim: Claim,
        commits: Sequence[Committable],
        examined: Mapping[str, Examined],
    ) -> None:
        """Insert commits as PENDING and replace `examined` (by table) in one transaction."""

    def pending(self, pipeline: str) -> Sequence[Committable]:
        """List PENDING commits, oldest epoch first, in the order they were prepared."""

    def settle(
        self, pipeline: str, claim: Claim, commit: Committable, *, landed: bool, reason: str
    ) -> None:
        """Move one commit to COMMITTED or ABORTED; older settled rows are pruned."""

    def examined(self, pipeline: str, *tables: str) -> Mapping[str, Examined]:
        """Return the offsets examined by table, as of the last prepare. Advisory.

        Of all tables, or of those named: a run with a thousand opens them one by one.
        """

    def keep_rules(self, pipeline: str, rules_hash: str, text: str) -> None:
        """Keep the text of a spec by its hash."""

    def rules(self, pipeline: str, rules_hash: str) -> str | None:
        """Return the text of a spec kept before."""

    def pause(self, pipeline: str, pause: Pause) -> None:
        """Pause a table, in place of a pause it has. Anybody may: there is no claim to it."""

    def resume(self, pipeline: str, table: str) -> bool:
        """End the pause of a table; return whether it had one."""

    def pauses(self, pipeline: str) -> Sequence[Pause]:
        """List the pauses by table, also those that are over by their time."""

    def confirm_pause(self, pipeline: str, claim: Claim, pause: Pause) -> None:
        """Record that the owner makes no attempt on a table while this very pause lasts."""

    def close(self) -> None:
        """Let go of the store."""
