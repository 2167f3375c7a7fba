"""Stand by for a pipeline, warm, and run it in turn (docs/design/0325).

Invariants:
- a stand-by reads, and writes nothing but its own sign of life;
- what it looked at to be ready is thrown away: a turn begins with a claim, and reads anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Protocol, TypeVar

from penstock.app.assembly import assembly
from penstock.app.assembly.connectors import store_of
from penstock.core.errors import FencedError, InvalidError, PenstockError
from penstock.core.leadership import Member, Reason, Role
from penstock.core.store_errors import ALIVE
from penstock.core.version import __version__
from penstock.landing.settings import Environment
from penstock.ownership.membership import Membership, await_turn
from penstock.ports.leadership import Leadership
from penstock.ports.runtime import Engine
from penstock.ports.store import Owner, PendingStore
from penstock.publishing.settings import PublishingEnvironment
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets

CHECK_SECONDS = 20.0
"""PySpark ends a worker that idles for a minute."""
WARMING = "warming up"

BY_FORCE = frozenset({Reason.DIED, Reason.SILENT})
"""Reasons for which another's claim is taken over though it said that it would live longer."""


Result_co = TypeVar("Result_co", covariant=True)


class Run(Protocol[Result_co]):
    """Runs what was claimed until an event is set."""

    def __call__(self, ends: threading.Event, *, takeover: bool) -> Result_co:
        """Run it, and take over from an owner that seems to be alive, or not."""


def open_leadership(spec: Pipeline | Publications, claimed_as: str) -> Leadership | None:
    """Open the leadership of what is claimed by a name; None for a store that has none."""
    connector, address = store_of(spec)
    opening = connector.open_leadership
    return None if opening is None else opening(address, ProcessSecrets(), claimed_as)


def required_leadership(spec: Pipeline | Publications, claimed_as: str) -> Leadership:
    """Open the leadership of what is claimed by a name. Raises InvalidError (P521)."""
    found = open_leadership(spec, claimed_as)
    if found is None:
        raise InvalidError(
            "a pending store in a file has no stand-bys: its lock does not end with another host",
            code="P521",
            hint="keep it in PostgreSQL:  pending: { store: 'postgresql://…' }",
        )
    return found


def leadership_of_run(
    spec: Pipeline | Publications, claimed_as: str, *, standby: bool, takeover: bool
) -> Leadership | None:
    """Open the leadership for a run; None where its store has none, and it does not stand by.

    Raises InvalidError: P521, and P526 for a run that would both wait and take over.
    """
    if not standby:
        return open_leadership(spec, claimed_as)
    if takeover:
        raise waits_or_takes_over("--standby")
    return required_leadership(spec, claimed_as)


def waits_or_takes_over(option: str) -> InvalidError:
    """Return the error of a run that would both wait for its turn, by an option, and take over."""
    return InvalidError(
        f"{option} waits for its turn, --takeover does not",
        code="P526",
        hint="give one of them; to let a stand-by take over:  penstock handover",
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """What this process could own: by which name it is claimed, and run by which rules.

    `probe` raises what a run would meet.
    """

    claimed_as: str
    rules: str
    probe: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that came, before it is claimed: whose, and whether a living claim is no hindrance.

    `engine` is warm.
    """

    membership: Membership
    owner: Owner
    by_force: bool
    engine: Engine


def run_led(
    candidate: Candidate,
    leadership: Leadership | None,
    environment: Environment | PublishingEnvironment,
    stop: threading.Event,
    run: Run[Result_co],
    *,
    standby: bool,
    takeover: bool,
) -> Result_co | None:
    """Run at once, or with `standby` whenever it is the turn of this process.

    Return None where it did not end by itself: it gave way, or was asked to stop as a stand-by.
    """
    if leadership is None:
        return run(stop, takeover=takeover)
    me = member_of(environment.owner, candidate.rules)
    readiness = Readiness(environment.engine, candidate.probe)
    observer, clock = environment.observer, environment.clock
    with closing(
        Membership(candidate.claimed_as, leadership, me, readiness, observer, clock)
    ) as membership:
        if standby:
            return run_in_turn(membership, readiness, environment.store, stop, run)
        return take_turn(membership, stop, run, takeover=takeover)


def member_of(owner: Owner, rules: str) -> Member:
    """Return what a process says of itself as a member: it takes its role when it acts."""
    return Member(owner.id, owner.host, owner.pid, Role.OWNER, "", __version__, rules)


class TurnEnd(threading.Event):
    """Set when a turn is to end: because somebody asked for it, or with the process's own event."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        """Return whether the turn is to end."""
        return super().is_set() or self._stop.is_set()


def take_turn(
    membership: Membership, stop: threading.Event, run: Run[Result_co], *, takeover: bool
) -> Result_co | None:
    """Run, and give way where somebody asks for it, or where a stand-by is there at the end.

    Return None where it gave way because somebody asked.
    """
    turn = TurnEnd(stop)
    with membership.owning(turn.set):
        ended = run(turn, takeover=takeover)
        if stop.is_set() and membership.is_followed():
            membership.offer()
    return ended if stop.is_set() or not turn.is_set() else None


def run_in_turn(
    membership: Membership,
    readiness: Readiness,
    store: PendingStore,
    stop: threading.Event,
    run: Run[Result_co],
) -> Result_co | None:
    """Stand by, and run whenever it is our turn, until asked to stop or a run ends by itself.

    Return None where it was asked to stop as a stand-by. One that is fenced by an owner of its own
    line stands by again; by another line it raises.
    """
    while True:
        with readiness.kept():
            taken = await_turn([membership], membership.clock, stop)
        if taken is None:
            return None
        readiness()  # its engine may have ended just now
        try:
            ended = take_turn(membership, stop, run, takeover=taken[1] in BY_FORCE)
        except PenstockError as error:
            if not is_overtaken(membership.pipeline, store, error):
                raise
        else:
            if ended is not None:
                return ended


def is_owned(error: PenstockError) -> bool:
    """Return whether another process has the claim: it fenced us, or was quicker."""
    return isinstance(error, FencedError) or error.code == ALIVE


def is_overtaken(pipeline: str, store: PendingStore, error: PenstockError) -> bool:
    """Return whether another process has the claim, and our own store knows it: we stand by again.

    An owner that it does not know is of another line.
    """
    if not isinstance(error, FencedError):
        return is_owned(error)
    held = store.holding(pipeline)
    return held is not None and (error.by is None or error.by.line == held.claim.line)


class Readiness:
    """Whether this process could own a pipeline now: looked at again and again beside all else.

    `probe` raises what would be in the way. Call it for that, with the code in front; "" for
    nothing. Raises what the engine ended with, which does not come back in this process, and what
    is no error of ours.
    """

    def __init__(self, engine: Engine, probe: Callable[[], None]) -> None:
        self._engine, self._probe = engine, probe
        self._trouble = WARMING
        self._ended: BaseException | None = None
        self._in_engine = threading.Lock()

    def __call__(self) -> str:
        """Return what is in the way, or raise what looking ended with."""
        if self._ended is not None:
            raise self._ended
        return self._trouble

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Look inside a `with` block: at once, and every so many seconds.

        At its end a tiny job is awaited, for it closes an engine that fails; a probe is not, and
        comes to nothing: a turn is not kept waiting by a catalog that does not answer.
        """
        self._trouble, over = WARMING, threading.Event()
        threading.Thread(target=self._keep, args=(over,), name="readiness", daemon=True).start()
        try:
            yield
        finally:
            over.set()
            if self._trouble != WARMING:  # else the engine has yet to start
                with self._in_engine:
                    pass

    def _keep(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                with self._in_engine:
                    if not over.is_set():
                        self._engine.warm()
                found = self._probed()
            except BaseException as error:  # noqa: BLE001  raised where it is asked for
                self._ended = error
                return
            if not over.is_set():
                self._trouble = found
            over.wait(CHECK_SECONDS)

    def _probed(self) -> str:
        """Return what is in the way; "" for nothing."""
        try:
            self._probe()
        except PenstockError as error:
            return error.line
        return ""


class LandingProbe:
    """Asks the brokers of a pipeline, and each catalog for the next of its tables."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        names = [rule.table for rule in pipeline.tables if "{" not in rule.table]
        places = [assembly.place_of(pipeline, each) for each in (*names, pipeline.quarantine.into)]
        self._tables = {
            name: cycle([each.name for each in places if each.catalog == name])
            for name in {each.catalog for each in places}
        }

    def __call__(self) -> None:
        """Ask once, with connections of its own. Raises what a run would meet."""
        with closing(assembly.open_log(self._pipeline)) as log:
            log.partitions()
        with ExitStack() as stack:
            catalogs = assembly.open_catalogs(self._pipeline, stack, read_only=True)
            for catalog, tables in self._tables.items():
                catalogs[catalog].load(next(tables))
