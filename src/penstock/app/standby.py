"""Stand by for a pipeline, warm, and run it in turn (docs/design/0325).

Invariants:
- a stand-by reads, and writes nothing but its own sign of life;
- what it looked at to be ready is thrown away: a turn begins with a claim, and reads anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from typing import Protocol

from penstock.app.assembly import assembly
from penstock.app.assembly.connectors import store_connector
from penstock.core.errors import FencedError, InvalidError, PenstockError, UnavailableError
from penstock.core.leadership import Member, Reason, Role
from penstock.core.version import __version__
from penstock.landing.coordinator import RunResult
from penstock.landing.settings import Environment
from penstock.observe.periodic import periodic
from penstock.ownership.membership import Membership
from penstock.ports.leadership import Leadership
from penstock.ports.runtime import Engine
from penstock.ports.store import PendingStore
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications
from penstock.spec.rules import rules_hash
from penstock.spec.secrets import ProcessSecrets

CHECK_SECONDS = 20.0
"""PySpark ends a worker that idles for a minute."""
OWNED = "P510"
ASKED = "asked to stop"
GAVE_WAY = "handed over"
WARMING = "warming up"

BY_FORCE = frozenset({Reason.DIED, Reason.SILENT})
"""Reasons for which another's claim is taken over though it said that it would live longer."""


class Landing(Protocol):
    """Runs a pipeline until an event is set."""

    def __call__(self, ends: threading.Event, *, takeover: bool) -> RunResult:
        """Run it, and take over from an owner that seems to be alive, or not."""


def open_leadership(spec: Pipeline | Publications) -> Leadership | None:
    """Open the leadership beside a spec's store; None for a store that has none."""
    address = spec.pending.store.replace("{name}", spec.name)
    opening = store_connector(address).open_leadership
    return None if opening is None else opening(address, ProcessSecrets(), spec.name)


def required_leadership(spec: Pipeline | Publications) -> Leadership:
    """Open the leadership beside a spec's store. Raises InvalidError (P521)."""
    found = open_leadership(spec)
    if found is None:
        raise InvalidError(
            "a pending store in a file has no stand-bys: its lock does not end with another host",
            code="P521",
            hint="keep it in PostgreSQL:  pending: { store: 'postgresql://…' }",
        )
    return found


class TurnEnd(threading.Event):
    """Set when a turn is to end: because somebody asked for it, or with the process's own event."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        """Return whether the turn is to end."""
        return super().is_set() or self._stop.is_set()


@contextmanager
def membership_of(
    pipeline: Pipeline, environment: Environment, leadership: Leadership, trouble: Callable[[], str]
) -> Iterator[Membership]:
    """Return this process's membership of a pipeline, inside a `with` block."""
    owner = environment.owner
    me = Member(
        owner.id,
        owner.host,
        owner.pid,
        Role.OWNER,
        version=__version__,
        rules=rules_hash(pipeline),
    )
    membership = Membership(
        pipeline.name, leadership, me, trouble, environment.observer, environment.clock
    )
    with closing(membership):
        yield membership


def take_turn(
    membership: Membership, stop: threading.Event, land: Landing, *, takeover: bool
) -> RunResult | None:
    """Run a pipeline, and give way where somebody asks for it, or a stand-by is there at the end.

    Return None where it gave way because somebody asked.
    """
    turn = TurnEnd(stop)
    with membership.owning(turn.set):
        ended = land(turn, takeover=takeover)
        if stop.is_set() and membership.is_followed():
            membership.offer()
    return ended if stop.is_set() or not turn.is_set() else None


def run_in_turn(
    membership: Membership,
    readiness: Readiness,
    store: PendingStore,
    stop: threading.Event,
    land: Landing,
) -> RunResult:
    """Stand by, and run whenever it is our turn, until asked to stop or a run ends by itself.

    One that is fenced by an owner of its own line stands by again; by another line it raises.
    """
    while True:
        with readiness.kept():
            reason = membership.await_turn(stop)
        if reason is None:
            return RunResult({}, ASKED)
        try:
            ended = take_turn(membership, stop, land, takeover=reason in BY_FORCE)
        except FencedError as error:
            if not _is_followed_in_line(membership.pipeline, store, error):
                raise
        except UnavailableError as error:
            if error.code != OWNED:  # another one was quicker
                raise
        else:
            if ended is not None:
                return ended


def _is_followed_in_line(pipeline: str, store: PendingStore, error: FencedError) -> bool:
    """Return whether our own store knows who fenced us."""
    held = store.holding(pipeline)
    return held is not None and (error.by is None or error.by.line == held.claim.line)


class Readiness:
    """Whether this process could own a pipeline now: looked at again and again beside all else.

    Call it for what is in the way, with the code in front; "" for nothing. Raises what the engine
    ended with: it does not come back in this process.
    """

    def __init__(self, pipeline: Pipeline, engine: Engine) -> None:
        self._pipeline, self._engine = pipeline, engine
        self._trouble = WARMING
        self._ended: PenstockError | None = None
        names = [rule.table for rule in pipeline.tables if "{" not in rule.table]
        places = [assembly.place_of(pipeline, each) for each in (*names, pipeline.quarantine.into)]
        self._tables = {
            name: cycle([each.name for each in places if each.catalog == name])
            for name in {each.catalog for each in places}
        }

    def __call__(self) -> str:
        """Return what is in the way, or raise what the engine ended with."""
        if self._ended is not None:
            raise self._ended
        return self._trouble

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Look inside a `with` block: at once, and every so many seconds."""
        self._trouble = WARMING
        first = threading.Thread(target=self.look, name="readiness-first", daemon=True)
        first.start()
        with periodic(self.look, every_seconds=CHECK_SECONDS, name="readiness"):
            yield

    def look(self) -> None:
        """Run a tiny job; ask the brokers, and each catalog for the next of its tables."""
        try:
            self._engine.warm()
        except PenstockError as error:
            self._ended = error
            return
        try:
            with closing(assembly.open_log(self._pipeline)) as log:
                log.partitions()
            with ExitStack() as stack:
                catalogs = assembly.open_catalogs(self._pipeline, stack, read_only=True)
                for catalog, tables in self._tables.items():
                    catalogs[catalog].load(next(tables))
        except PenstockError as error:
            self._trouble = f"{error.code}  {error.message}"
        else:
            self._trouble = ""
