"""Stories of a pipeline: send, live, crash, meddle, and see whether every record is once.

    world = World(MemoryGround())
    world.send("orders", 3)
    world.life(crash="commit.after").run()        # it lands, and dies before it says so
    world.life().run()                            # the next life finds out

    assert [] == world.breaks()

What lives is the real coordinator, workers and rooms below; only the ground may be in memory.

Invariants:
- lives share nothing but the ground; each opens store, catalog and log afresh, as a process does;
- time moves only by waits and listings; each life begins when the former's heartbeat is old;
- `breaks` asks the cluster, the tables and the stores, never a coordinator.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.story.backend import CATALOG, Backend, Ending, Held, catalog_name, numbered
from tests.story.clock import ManualClock
from tests.story.faulty_catalog import FaultPlan
from tests.story.run import Life
from tests.story.single_thread import OneThread

from penstock.core.audit import chain_breaks, doubled_commits, doubled_files, newest_segment
from penstock.core.commits import Chain, Committable, Landed
from penstock.core.resolutions import records_only
from penstock.core.serialization import progress_from_json
from penstock.landing.settings import (
    CommitExecutor,
    CommitsAtOnce,
    Consent,
    HealthOf,
    Routes,
    Settings,
    TableLocation,
    TableTarget,
    commit_threads,
)
from penstock.ownership.claim import Heartbeat
from penstock.ports.store import PendingStore
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.rows.options import RowOptions
from penstock.rows.quarantine.rows import QUARANTINE_SCHEMA
from penstock.rows.quarantine.status import READ, status_of
from penstock.rows.route.filters import RecordFilter
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.sent import Sent

Coordinate = tuple[str, int, int]

PIPELINE = "shop"
ORDERS = f"{CATALOG}.bronze.orders"
QUARANTINE = f"{CATALOG}.ops.quarantine"
RULES = "rules-1"
SOURCE = {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
ASLEEP_SECONDS = 60.0


def _to_all(table: str, held: Held) -> bool:
    del table, held
    return True


class World:
    """One pipeline's world: topics by short names, tables by their names in the spec.

    `routes` gives the tables of topics, `gates` what records must pass before a table, and
    `belongs` the same in plain words: whether a record is a table's. `layout` says how tables
    are made and written, by fields of `TableTarget`; `changes` are settings of all lives.
    """

    def __init__(
        self,
        ground: Backend,
        *,
        routes: Mapping[str, Sequence[str]] | None = None,
        partitions: int = 1,
        gates: Mapping[str, RecordFilter] | None = None,
        belongs: Callable[[str, Held], bool] = _to_all,
        layout: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.ground = ground
        self.gates = dict(gates or {})
        self.belongs = belongs
        self.layout = dict(layout or {})
        self.clock = ManualClock()
        self.faults = FaultPlan()
        self.routes = {name: tuple(tables) for name, tables in (routes or _ONE).items()}
        self.rulebook: dict[str, dict[str, Any]] = {RULES: {}}
        self._routes_then = {RULES: self.routes}
        self.rules = RULES
        self.changes = changes
        self.hosts = {"here"}
        self.hands: Callable[[CommitsAtOnce], CommitExecutor] = commit_threads
        self.beats: Callable[[Callable[[], bool], float], Heartbeat] = Heartbeat
        self.health: HealthOf = dict
        self._lives = itertools.count(1)
        self._next_value = itertools.count(1)
        self._gone: list[tuple[str, Held]] = []
        self._lost: set[Coordinate] = set()
        for name in self.routes:
            ground.create(ground.topic(name), partitions)

    # What producers and operators do.

    def alone(self, seed: int = 1) -> None:
        """Let lives have one thread, and wait in this world's time alone."""
        thread = OneThread(seed)
        self.hands, self.beats = thread.hands, thread.beats

    def send(self, topic: str, count: int = 1, *, partition: int = 0, **fields: Any) -> None:
        """Send records that fit, numbered on; `fields` are in each."""
        first = [next(self._next_value) for _ in range(count)]
        self.ground.send(self.ground.topic(topic), partition, numbered(first, fields))

    def send_raw(self, topic: str, *values: bytes | None, partition: int = 0) -> None:
        """Send values as they are: what is no JSON object belongs in quarantine."""
        self.ground.send(self.ground.topic(topic), partition, [Sent(each) for each in values])

    def begin(self, topic: str, count: int, *, partition: int = 0) -> Ending:
        """Send records in a transaction and leave it open."""
        first = [next(self._next_value) for _ in range(count)]
        return self.ground.begin(self.ground.topic(topic), partition, numbered(first, {}))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; what it held is remembered for `breaks`."""
        full = self.ground.topic(topic)
        self._gone += [(full, held) for held in self.ground.held(full)]
        self.ground.delete(full)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete records as retention does; they are remembered for `breaks`."""
        full = self.ground.topic(topic)
        self._gone += [
            (full, held)
            for held in self.ground.held(full)
            if held.partition == partition and held.offset < offset
        ]
        self.ground.delete_before(full, partition, offset)

    def give_up(self, topic: str, partition: int, offsets: Iterable[int]) -> None:
        """Note that some records need not be anywhere: a person consented."""
        self._lost |= {(self.ground.topic(topic), partition, offset) for offset in offsets}

    def change_rules(self, rules: str, **options: Any) -> None:
        """Let later lives check records by other options; the routes of now are these rules's."""
        self._routes_then[rules] = self.routes
        self.rulebook[rules] = options
        self.rules = rules

    # Lives.

    def life(
        self,
        *,
        crash: str = "",
        host: str = "here",
        accept: Iterable[Consent] = (),
        **changes: Any,
    ) -> Life:
        """Begin a life of a coordinator. `crash` is a plan as `RecordingObserver` takes it."""
        self.hosts.add(host)
        settings = self.settings(self.rules, accept=frozenset(accept), **changes)
        return Life(self, next(self._lives), host, settings, crash)

    def run(self, **given: Any) -> Life:
        """Live until caught up."""
        return self.life(**given).run()

    def crash_at(self, plan: str, **given: Any) -> Life:
        """Live until the crash that is planned. Raises AssertionError when it did not come."""
        life = self.life(crash=plan, **given).run()
        assert life.crashed, f"{plan} was not reached; passed were {sorted(set(life.points))}"
        return life

    def sleep(self, seconds: float = ASLEEP_SECONDS) -> None:
        """Let time pass until every heartbeat is old."""
        self.clock.advance(seconds)

    def settings(self, rules: str, **changes: Any) -> Settings:
        """Return a life's settings under some rules; the rules' text is their name."""
        routes = self._targets(rules)
        settings = Settings(
            pipeline=PIPELINE,
            rules_hash=rules,
            rules_text=rules,
            routes=lambda topics: {name: routes[name] for name in topics},
            former_routes=self._former_routes,
            quarantine=self._place(QUARANTINE),
            quarantine_schema=QUARANTINE_SCHEMA,
            start="earliest",
            log=self.ground.log_settings(self.topics_of(rules)),
        )
        return replace(settings, **{**self.changes, **changes})

    def _targets(self, rules: str) -> dict[str, tuple[TableTarget, ...]]:
        options = RowOptions(source_columns=SOURCE, **self.rulebook[rules])
        return {
            self.ground.topic(name): tuple(self._target(name, table, options) for table in tables)
            for name, tables in self._routes_of(rules).items()
        }

    def _former_routes(self, rules: str) -> Routes:
        read = self._targets(rules)
        return lambda topics: {name: read[name] for name in topics if name in read}

    @property
    def topics(self) -> list[str]:
        """Name the topics as the cluster does."""
        return self.topics_of(self.rules)

    def topics_of(self, rules: str) -> list[str]:
        """Name the topics that rules read."""
        return [self.ground.topic(name) for name in self._routes_of(rules)]

    def _routes_of(self, rules: str) -> Mapping[str, tuple[str, ...]]:
        return self.routes if rules == self.rules else self._routes_then[rules]

    def _place(self, table: str) -> TableLocation:
        return TableLocation(table, CATALOG, catalog_name(table), self.ground.connector)

    def _target(self, topic: str, table: str, options: RowOptions) -> TableTarget:
        gates = {self.ground.topic(topic): self.gates[table]} if table in self.gates else {}
        place = self._place(table)
        return TableTarget(place, options, create=True, filters=gates, **self.layout)

    # What is so.

    @property
    def tables(self) -> list[str]:
        """Name the target tables, those of routes included."""
        found = {table for tables in self.routes.values() for table in tables}
        if any(gate.route for gate in self.gates.values()):
            names = self.catalog().names("bronze")
            found |= {f"{CATALOG}.{name}" for name in names}
        return sorted(found)

    def catalog(self) -> TableFormat:
        """Open the catalog without faults."""
        return self.ground.open_catalog(Quiet())

    def table(self, name: str = ORDERS) -> Table:
        """Open a table that is there."""
        table = self.catalog().load(catalog_name(name))
        assert table is not None, f"{name} is not there"
        return table

    def store(self, host: str = "here") -> PendingStore:
        """Open a host's store."""
        return self.ground.open_store(host)

    def pending(self, host: str = "here") -> list[Committable]:
        """List what is prepared and not settled."""
        store = self.store(host)
        try:
            return list(store.pending(PIPELINE))
        finally:
            store.close()

    def landed(self, name: str = ORDERS) -> Landed:
        """Read a table's ledger."""
        landed = self.table(name).state(Chain(PIPELINE, name)).landed
        assert landed is not None, f"{name} has no ledger"
        return landed

    def offsets(self, name: str = ORDERS) -> dict[int, int]:
        """Return the positions of a table's ledger, by partition; for tables of one topic."""
        return {
            at.partition: int(offset)
            for at, offset in sorted(records_only(self.landed(name).offsets).items())
        }

    def rows(self, name: str = ORDERS) -> list[Coordinate]:
        """List the coordinates of a table's own rows, duplicates kept; none when it is away."""
        table = self.catalog().load(catalog_name(name))
        if table is None:
            return []
        found = table.row_coordinates(SOURCE).to_pylist()
        return sorted(
            (row["topic"], row["partition"], row["offset"]) for row in found if row["topic"]
        )

    def rejects(self, name: str = ORDERS) -> list[Coordinate]:
        """List the coordinates in quarantine for a table, but for what landed since."""
        quarantine = self.catalog().load(catalog_name(QUARANTINE))
        if quarantine is None:
            return []
        chain = _rejects_chain(name)
        if quarantine.state(chain).landed is None:
            return []
        refused = [*quarantine.read_quarantine(chain, READ)]
        fates = status_of(refused).to_pylist() if refused else []
        return sorted(
            (each["topic"], each["partition"], each["offset"])
            for each in fates
            if each["status"] != "retried"
        )

    def expected(self, name: str = ORDERS) -> list[tuple[Coordinate, Held]]:
        """List the records that should be in a table or its quarantine, by the cluster's word."""
        fixed = any(name in tables for tables in self.routes.values())
        topics = {
            self.ground.topic(topic)
            for topic, tables in self.routes.items()
            if name in tables or (not fixed and any("{" in table for table in tables))
        }
        now = [(topic, held) for topic in sorted(topics) for held in self.ground.held(topic)]
        found = [
            ((topic, held.partition, held.offset), held)
            for topic, held in (*self._gone, *now)
            if topic in topics and held.value is not None and self.belongs(name, held)
        ]
        return [each for each in found if each[0] not in self._lost]

    def breaks(self, *, fitting: Callable[[Held], bool] | None = None) -> list[str]:
        """Return all that is wrong: records not exactly once, broken chains, commits left pending.

        `fitting` says whether a record fits; by default every JSON object does. Where rules differ
        over a story, pass `either`.
        """
        fits = fitting or is_object
        found = [text for name in self.tables for text in self._misplaced(name, fits)]
        found += [text for name in self.tables for text in self._broken(name)]
        for host in sorted(self.hosts):
            found += [f"pending on {host}: {each.chain}" for each in self.pending(host)]
        return found

    def _misplaced(self, name: str, fits: Callable[[Held], bool]) -> list[str]:
        expected = self.expected(name)
        rows, rejects = Counter(self.rows(name)), Counter(self.rejects(name))
        wanted, got = Counter(at for at, _ in expected), rows + rejects
        found = [f"{name} {at}: {count} times too few" for at, count in (wanted - got).items()]
        found += [f"{name} {at}: {count} times too many" for at, count in (got - wanted).items()]
        if fits is not either:
            bad = Counter(at for at, held in expected if not fits(held))
            found += [f"{name} {at}: should be refused" for at in sorted(bad - rejects)]
            found += [f"{name} {at}: should not be refused" for at in sorted(rejects - bad)]
        return found

    def _broken(self, name: str) -> list[str]:
        found = []
        for table, chain in ((name, Chain(PIPELINE, name)), (QUARANTINE, _rejects_chain(name))):
            opened = self.catalog().load(catalog_name(table))
            if opened is None:
                continue
            state, history = opened.state(chain), opened.history(chain)
            if state.verdict not in (Verdict.AGREED, Verdict.ABSENT):
                found.append(f"{chain}: {state.verdict}, {state.evidence}")
            reported = newest_segment(history.commits)
            commits = [progress_from_json([*map(list, each.progress)]) for each in reported]
            breaks = [*doubled_commits(each.commit_id for each in history.commits)]
            breaks += chain_breaks(state.landed, commits) if state.landed else []
            breaks += doubled_files(history.paths)
            found += [f"{chain}: {each.message}" for each in breaks]
        return found


def is_object(held: Held) -> bool:
    """Return whether a record is a JSON object."""
    try:
        return isinstance(json.loads(held.value or b""), dict)
    except ValueError:
        return False


def either(held: Held) -> bool:
    """Allows records that may be in the table or in quarantine, as long as it is once."""
    del held
    return True


def tables_named(*names: str) -> dict[str, tuple[str, ...]]:
    """Route each topic to the table of its name."""
    return {name: (f"{CATALOG}.bronze.{name}",) for name in names}


def _rejects_chain(name: str) -> Chain:
    return Chain(f"{PIPELINE}/{name}", QUARANTINE)


_ONE = {"orders": (ORDERS,)}
