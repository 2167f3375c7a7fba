"""Random histories in which tables are maintained, beside lives and between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from tests.simulation.histories import ACTS, FAULTS, Play
from tests.simulation.keyed_histories import KeyedPlay, PurgedPlay, RewritingPlay
from tests.story.maintenance import LONG_MS, maintained, upkept
from tests.story.world import PIPELINE, either

from penstock.core.crash_points import OF_UPKEEP, CrashPoint

POINTS = (
    CrashPoint.FILE_OPENED,
    CrashPoint.FILE_WRITTEN,
    CrashPoint.FILE_CLOSED,
    CrashPoint.FILES_REWRITTEN,
    CrashPoint.COMMIT_BEFORE,
    CrashPoint.COMMIT_AFTER,
)
ACTS_OF_UPKEEP = (
    *[("sweep",)] * 3,
    ("expire",),
    ("rearrange",),
    ("expire", "sweep"),
    ("rearrange", "expire", "sweep"),
)
WAYS = ("alone", "beside a life", "within a life", "with faults", "crash", "twice")


class MaintainedPlay(Play):
    """A history in which tables are maintained."""

    acts: ClassVar[Sequence[str]] = [*ACTS, *["maintain"] * 40]
    points: ClassVar[Sequence[CrashPoint]] = POINTS

    def maintain(self) -> None:
        """Maintain a table that has some files, in one way or another."""
        self.plain()
        self.some()
        self.live()
        chosen = self.random.choice(self.existing() or [""])
        if not chosen:
            return
        name, way = f"lake.{chosen}", self.random.choice(WAYS)
        self.reported.append(f"  {name} {way}")
        match way:
            case "beside a life":
                self.some()
                self.maintained(name, way, at=self.random.choice(POINTS), meanwhile=self.live)
            case "within a life":
                self.some()
                self.world.faults.before_commit(chosen, lambda: self.maintained(name, way))
                self.live()
            case "with faults":
                self.world.faults.queue(chosen, *self.random.choices(FAULTS, k=2))
                self.maintained(name, way)
                self.world.faults.clear()
                self.random.choice([self.world.faults.release, self.live])()
            case "crash":
                crash = f"{self.random.choice(self.points)}:{self.random.choice([1, 1, 2])}"
                self.maintained(name, way, crash=crash)
                self.maintained(name, way)
            case "twice":
                self.maintained(name, way, meanwhile=lambda: self.maintained(name, way))
            case _:
                self.maintained(name, way)

    def maintained(
        self,
        name: str,
        way: str,
        *,
        at: CrashPoint = CrashPoint.FILES_REWRITTEN,
        meanwhile: Callable[[], object] = lambda: None,
        crash: str = "",
    ) -> None:
        """Maintain a table; its ledger, and its rows if nothing else happens, stay as they were."""
        before = self.world.landed(name)
        done, error = maintained(self.world, name, at=at, meanwhile=meanwhile, crash=crash)
        self.played[f"maintain {way}: groups"] += done.groups
        self.played[f"maintain {way}: given up"] += done.given_up
        self.played[f"maintain {way}: carried"] += done.carried
        if way == "alone":
            assert before == self.world.landed(name), "a ledger was changed"
        if error is not None:
            self.reported.append(f"  ended with {error!r}")

    def end(self) -> list[str]:
        """Compare all, maintain all, and compare again."""
        found = super().end()
        for name in self.existing():
            done, error = maintained(self.world, f"lake.{name}")
            self.played["maintain in the end: groups"] += done.groups
            if error is not None and f"lake.{name}" not in self.rolled:
                found.append(f"maintenance of {name} ended with {error!r}")
        again = self.world.breaks(fitting=either)
        return [*found, *(t for t in again if not any(name in t for name in self.rolled))]


class UpkeptPlay(MaintainedPlay):
    """A history in which snapshots expire and files are swept as well, in every order."""

    acts: ClassVar[Sequence[str]] = [*ACTS, *["maintain"] * 80]
    points: ClassVar[Sequence[CrashPoint]] = (*POINTS, *sorted(OF_UPKEEP))

    def maintain(self) -> None:
        """Maintain a table that was swept before, and waited for long; no life is open then."""
        for _ in range(self.random.randrange(3)):
            self.world.ground.warehouse.waited_ms += LONG_MS
            acts = self.random.choice(ACTS_OF_UPKEEP)
            for each in self.existing():
                self.maintained(f"lake.{each}", "alone", acts=(*acts, "sweep"))
            self.some()
            self.random.choice([self.live, self.crash, self.crash, self.some])()
        super().maintain()

    def maintained(
        self,
        name: str,
        way: str,
        *,
        at: CrashPoint = CrashPoint.FILES_REWRITTEN,
        meanwhile: Callable[[], object] = lambda: None,
        crash: str = "",
        acts: Sequence[str] = (),
    ) -> None:
        """Do some of the three acts; no file goes that a snapshot or the store names."""
        acts = acts or self.random.choice(ACTS_OF_UPKEEP)
        at = self.random.choice([at, CrashPoint.NOTE_AFTER, CrashPoint.DELETE_BEFORE])
        done = upkept(self.world, name, acts=acts, at=at, meanwhile=meanwhile, crash=crash)
        self.played[f"upkeep {way}: expired"] += done.expired
        self.played[f"upkeep {way}: noted"] += done.noted
        self.played[f"upkeep {way}: deleted"] += len(done.deleted)
        if done.error is not None:
            self.reported.append(f"  ended with {done.error!r}")
        named = {path for table in self.existing() for path in self._named(table)}
        assert named.isdisjoint(done.deleted), f"deleted, and named: {named & {*done.deleted}}"

    def _named(self, name: str) -> Iterator[str]:
        stored = self.world.ground.warehouse.find(name)
        snapshots = stored.contents.snapshots.values() if stored else ()
        yield from (file.path for each in snapshots for file in each.files)
        for commit in self.world.store().pending(PIPELINE):
            yield from (file.path for file in commit.files)


class KeyedMaintainedPlay(MaintainedPlay, KeyedPlay):
    """The same of keyed tables."""

    acts: ClassVar[Sequence[str]] = [*KeyedPlay.acts, *["maintain"] * 40]


class KeyedUpkeptPlay(UpkeptPlay, KeyedMaintainedPlay):
    """The same of keyed tables."""

    acts: ClassVar[Sequence[str]] = [*KeyedPlay.acts, *["maintain"] * 80]


class PurgedMaintainedPlay(MaintainedPlay, PurgedPlay):
    """The same of keyed tables whose rows of deleted keys are purged."""

    acts: ClassVar[Sequence[str]] = [*PurgedPlay.acts, *["maintain"] * 40]


class RewritingMaintainedPlay(MaintainedPlay, RewritingPlay):
    """The same of keyed tables whose files are written again where rows go."""

    acts: ClassVar[Sequence[str]] = [*RewritingPlay.acts, *["maintain"] * 40]
