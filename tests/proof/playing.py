"""Play a counterexample of TLC in the simulator: the real coordinators, by its schedule.

    Play(model.constants, read_trace(name)).run()    # [] when every record is there once in the end

- Each life is a thread of its own, held at every crash point, before every listing, and when it has
  opened its tables; the schedule lets one go on at a time, so a trace is one story however threads are scheduled.
- A step of the model is an act of the simulator: `Start` goes on to the claim, `Open` until tables are opened, `Epoch` until the
  epoch is prepared, `Attempt` to the request or to the settling, `Arrives` lets the request through.
- With its defence in place the code leaves the trace where the defence acts; the rest is played as
  far as it can be. What counts is the end: lives are killed, all is healed, and the oracle checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.proof.actors import (
    LISTING,
    LISTINGS_MAX,
    STARTED,
    Actor,
    CappedGround,
    DirectedCommits,
)
from tests.proof.steps import Step
from tests.story.backend import catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.observer import Crash
from tests.story.run import Life
from tests.story.world import ORDERS, QUARANTINE, World, either

from penstock.core.commits import Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.core.offsets import Offset, span
from penstock.core.planning import Bounds
from penstock.core.schema import Field, Kind, Struct
from penstock.core.serialization import ledger_from_json
from penstock.landing.repair import replay as replaying
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.selection import Selection
from penstock.ports.tables import TableDefinition

TOPIC = "orders"
REQUESTS = {CrashPoint.COMMIT_BEFORE, CrashPoint.QUARANTINE_BEFORE, CrashPoint.ANCHOR_BEFORE}


class Play:
    """One world, and the lives of a trace in it."""

    def __init__(self, constants: Mapping[str, Any], steps: Sequence[Step]) -> None:
        self.constants, self.steps = constants, steps
        self.ground = CappedGround()
        self.tables = [ORDERS, "lake.bronze.items"][: constants["Many"]]
        self.partitions = len(constants["First"])
        start = "latest" if constants["Latest"] else "earliest"
        self.world = World(
            self.ground,
            routes={TOPIC: self.tables},
            partitions=self.partitions,
            start=start,
            max_epochs=constants["MaxWaiting"],
        )
        self.actors: dict[int, Actor] = {}
        self.number = 0
        self.seen: set[str] = set()
        self.ledgers: dict[str, Landed] = {}
        self.late: dict[tuple[int, int], list[Callable[[], str]]] = {}
        self._create()
        for partition in range(self.partitions):
            self._send(partition, range(constants["N"]))

    def run(self, *, forgetful: bool = False) -> list[str]:
        """Play all steps, then end all lives and heal; return what is wrong in the end.

        `forgetful`: all pending stores are lost before it is healed, as they may be at any time.
        """
        for number, step in enumerate(self.steps):
            self.number = number
            try:
                getattr(self, f"_{step.action.lower()}")(step)
            except AssertionError as error:
                self.seen.add(f"the code asserts otherwise: {error}")
            self._watch()
        for actor in self.actors.values():
            actor.kill()
        for host in sorted(self.world.hosts) if forgetful else ():
            self.ground.lose_store(host)
        try:
            return [*sorted(self.seen), *self._end()]
        except (PenstockError, AssertionError) as error:
            return [*sorted(self.seen), f"healing raised {error!r}"]

    def _watch(self) -> None:
        """Look for what the end would not show: ledgers that went back, files that are not there,
        commits that the store reports wrongly.
        """
        for name in [catalog_name(each) for each in (*self.tables, QUARANTINE)]:
            stored = self.ground.warehouse.find(name)
            if stored is None:
                continue
            contents = stored.contents
            live = {file.path for file in contents.files}
            if any(self.ground.warehouse.file_size(path) is None for path in live):
                self.seen.add(f"I6: {name} names a file that is gone")
            for chain, text in contents.ledgers.items():
                self._compare(f"{contents.uuid} {chain}", ledger_from_json(text))
            for host in sorted(self.world.hosts):
                for entry in self.ground.store(host).entries:
                    files = {file.path for file in entry.commit.files}
                    if entry.state == "ABORTED" and files & live:
                        self.seen.add(f"I10: a commit of {name} was given up, and is there")

    def _compare(self, chain: str, landed: Landed) -> None:
        before = self.ledgers.get(chain)
        self.ledgers[chain] = landed
        if before is None:
            return
        if landed.generation < before.generation:
            self.seen.add(f"I4: {chain} went from {before.generation} to {landed.generation}")
        moved = any(landed.offsets.get(at, 0) < offset for at, offset in before.offsets.items())
        if moved and landed.segment == before.segment:
            self.seen.add(f"I3: {chain} went back")

    def _create(self) -> None:
        fields = [Field("n", Kind.LONG), Field("extra", Kind.STRING)]
        fields += [Field("_kafka_topic", Kind.STRING), Field("_kafka_partition", Kind.INT)]
        fields += [Field("_kafka_offset", Kind.LONG)]
        for name in self.tables:
            definition = TableDefinition(Struct(tuple(fields)))
            self.world.catalog().create(catalog_name(name), definition, [])

    def _send(self, partition: int, offsets: range) -> None:
        """Send what the model's shape has at an offset; "none" is not distinguished from a row."""
        shape = self.constants["Shape"]
        bad = {"mixed": {0}, "narrow": {1}}.get(shape, set())
        widen, narrow = {"widen": {0}, "later": {0, 1}}.get(shape, set()), shape == "narrow"
        for offset in offsets:
            if offset in bad:
                self.world.send_raw(TOPIC, b"bad", partition=partition)
            elif offset in widen:
                self.world.send(TOPIC, 1, partition=partition, later="x")
            else:
                extra = {"extra": "x"} if narrow and not offset else {}
                self.world.send(TOPIC, 1, partition=partition, **extra)

    # Lives.

    def _warm(self, step: Step) -> None:
        if step.life not in self.actors:
            self._arrive(step).until({CrashPoint.CLAIM_BEFORE})

    def _start(self, step: Step) -> None:
        is_warm = step.life in self.actors and self._actor(step).at == CrashPoint.CLAIM_BEFORE
        actor = self._actor(step) if is_warm else self._arrive(step)
        actor.until({CrashPoint.CLAIM_AFTER if self._opens(step.life) else STARTED})

    def _opens(self, life: int) -> bool:
        """Return whether a life opens tables before all else that it does."""
        ahead = (each.action for each in self.steps[self.number + 1 :] if each.life == life)
        return next(ahead, "") == "Open"

    def _arrive(self, step: Step) -> Actor:
        host = "there" if step.life in self.constants["Elsewhere"] else "here"
        accept = ["gap", "topic", "rules"]
        life = self.world.life(host=host, accept=accept, every_seconds=0.0)
        actor = Actor(life, lambda: life.run("stopped", takeover=True))
        self._enter(step.life, actor)
        return actor

    def _enter(self, number: int, actor: Actor) -> None:
        if number in self.actors:
            self.actors[number].kill()
        self.actors[number] = actor
        self.ground.cap = lambda: actor.cap
        self.world.hands = lambda _: DirectedCommits(lambda: self._due(number))

    def _due(self, life: int) -> bool:
        """Return whether the next step of a life is a commit's."""
        ahead = (each.action for each in self.steps[self.number :] if each.life == life)
        return next(ahead, "Turn") != "Epoch"

    def _actor(self, step: Step) -> Actor:
        return self.actors[step.life]

    def _open(self, step: Step) -> None:
        if self._actor(step).at == CrashPoint.CLAIM_AFTER:
            self._actor(step).until({STARTED})
        if step.tables:  # a foreign claim fences
            self._actor(step).until({CrashPoint.FENCE_AFTER, CrashPoint.ANCHOR_AFTER, LISTING})

    def _begin(self, step: Step) -> None:
        actor = self._actor(step)
        actor.cap = step.end
        actor.until({CrashPoint.ANCHOR_AFTER, CrashPoint.FENCE_AFTER})
        actor.cap = 0

    def _epoch(self, step: Step) -> None:
        actor = self._actor(step)
        actor.cap = step.end
        actor.until({CrashPoint.PREPARE_AFTER})

    def _turn(self, step: Step) -> None:
        actor = self._actor(step) if step.life in self.actors else None
        if actor is None:
            return
        if step.request:
            if actor.at not in REQUESTS:
                actor.until(REQUESTS)
            if self._arrivals(step) != 1 or self._goes_on(step):
                self._late(step, actor)
        elif step.settled:
            actor.until({CrashPoint.SETTLE_AFTER})
        elif step.tables:
            actor.until({CrashPoint.FENCE_AFTER})
        else:
            actor.until({LISTING, CrashPoint.CLAIM_AFTER})

    def _goes_on(self, step: Step) -> bool:
        """Return whether a life takes a step of its own before its request arrives."""
        for each in self.steps[self.number + 1 :]:
            if each.action == "Arrives" and each.request == step.request:
                return False
            if each.life == step.life:
                return True
        return False

    def _arrivals(self, step: Step) -> int:
        ahead = self.steps[self.number + 1 :]
        return sum(each.action == "Arrives" and each.request == step.request for each in ahead)

    def _late(self, step: Step, actor: Actor) -> None:
        """Send a request on its way; its sender hears nothing of it, and goes on."""
        if not self._arrivals(step) and not self._goes_on(step):
            return
        self.world.faults.queue(self._table(step.chain), Fault.DELAY)
        actor.move()
        self.world.faults.clear()
        self.late[step.request] = self.world.faults.take_delayed()

    def _arrives(self, step: Step) -> None:
        life, _ = step.request
        actor = self.actors.get(life)
        if step.request in self.late:
            for apply in self.late[step.request]:
                self.world.faults.delay(apply)
            self.world.faults.release()
        elif actor is not None and actor.at in REQUESTS:
            actor.move()

    def _anchor(self, step: Step) -> None:
        self._actor(step).until({CrashPoint.PREPARE_AFTER})

    def _consent(self, step: Step) -> None:
        """Lives consent beforehand."""

    # By hand.

    def _by_hand(self, step: Step, act: Callable[[Life], object], until: set[Any]) -> None:
        life = self.world.life(accept=["gap", "topic", "rules"])
        actor = Actor(life, lambda: act(life))
        actor.cap = 9
        self._enter(step.life, actor)
        actor.until(until)

    def _replay(self, step: Step) -> None:
        act = replay(*step.offsets)
        self._by_hand(step, lambda life: life.change(act), {CrashPoint.COMMIT_BEFORE})

    def _seek(self, step: Step) -> None:
        self._by_hand(step, lambda life: life.change(seek), {CrashPoint.COMMIT_BEFORE})

    def _sought(self, step: Step) -> None:
        self._actor(step).until({CrashPoint.RELEASE_AFTER})

    def _close(self, step: Step) -> None:
        act = self._retry
        self._by_hand(step, act, {CrashPoint.PREPARE_AFTER})

    @staticmethod
    def _retry(life: Life) -> object:
        return life.close(lambda closer: closer.retry(Selection()), ORDERS)

    def _follow(self, step: Step) -> None:
        if step.life not in self.actors or self._actor(step).ended:
            self._by_hand(step, self._retry, {CrashPoint.PREPARE_AFTER, CrashPoint.FENCE_AFTER})
        else:
            self._actor(step).until({CrashPoint.PREPARE_AFTER, CrashPoint.ANCHOR_AFTER})

    # Other writers.

    def _table(self, chain: int) -> str:
        return self._place(chain if chain <= len(self.tables) else len(self.tables) + 1)

    def _place(self, table: int) -> str:
        return catalog_name([*self.tables, QUARANTINE][table - 1])

    def _touched(self, step: Step) -> str:
        [table] = step.tables
        return self._place(table)

    def _produce(self, step: Step) -> None:
        """Everything is sent; lives are shown it when the schedule has it."""

    def _foreign(self, step: Step) -> None:
        self.ground.append(self._touched(step))

    def _expire(self, step: Step) -> None:
        self.ground.expire(self._touched(step))

    def _rollback(self, step: Step) -> None:
        name = self._touched(step)
        contents = self.ground.warehouse.get(name).contents
        older = list(contents.ancestry())[1:]
        fitting = [e for e in older if sum(file.record_count for file in e.files) == step.rows]
        if fitting:
            self.ground.roll_back(name, fitting[0].id)

    def _recreate(self, step: Step) -> None:
        self.ground.drop(self._touched(step))
        self._create()

    def _alter(self, step: Step) -> None:
        name = self._touched(step)
        if self.constants["Shape"] == "narrow":
            self.ground.change_columns(name)
        elif self.ground.warehouse.get(name).contents.schema.field("later") is None:
            self.ground.widen(name)

    def _leave(self, step: Step) -> None:
        for table in step.leaving:
            self.world.faults.take_away(self._place(table))
        for table in step.returning:
            self.world.faults.give_back(self._place(table))

    def _lose(self, step: Step) -> None:
        for number in step.stores:
            self.ground.lose_store("here" if number == 1 else "there")

    def _orphans(self, step: Step) -> None:
        pending = [row for host in sorted(self.world.hosts) for row in self.world.pending(host)]
        if step.pending < len(pending):
            for file in pending[step.pending].files:
                self.ground.remove_file(file.path)

    def _retention(self, step: Step) -> None:
        for partition, low in enumerate(step.low[: self.partitions]):
            self.world.delete_before(TOPIC, partition, low)

    def _retopic(self, _: Step) -> None:
        read = {offset for _, _, offset in self.world.rows()}
        for row in self.world.pending():
            read |= {n for each in row.progress.values() for n in range(each.start, each.stop)}
        self.world.delete_topic(TOPIC)
        self.world._gone = [each for each in self.world._gone if each[1].offset in read]
        self.ground.create(TOPIC, 1)
        self._send(0, range(self.constants["N"]))

    # The end.

    def _end(self) -> list[str]:
        world = self.world
        world.faults.clear()
        self.ground.cap = lambda: None
        for name in (*self.tables, QUARANTINE):
            world.faults.give_back(catalog_name(name))
        world.hands = lambda _: DirectedCommits(lambda: True)
        for host in [*sorted(world.hosts), "here"]:
            life = self._last(host)
            if life.error is None and "P455" in life.parked.values():
                world.life(host=host).change(seek)
                life = self._last(host)
            if life.error is not None:
                return [f"the last life ended with {life.error!r}"]
            if set(life.parked.values()) == {"P455"}:
                return []  # the witnesses cannot say what was rolled back: it is reported, and stops
            if life.parked:
                return [f"the last life left {life.parked} parked"]
        if "retry" in self.constants["Faults"]:
            self._retry(world.life())
        self._give_up()
        return world.breaks(fitting=either)

    def _last(self, host: str) -> Life:
        """Live on to the end, in the smallest epochs: ranges that were read are read again."""
        life = self.world.life(host=host, accept=["gap", "topic", "rules"], records_max=1)
        return life.at_listing(LISTINGS_MAX, _round_and_round).run()

    def _give_up(self) -> None:
        """Note what need not be there: what was before the start, and what retention took."""
        starts = [step.starts for step in self.steps if step.starts is not None]
        for source, base in enumerate(starts[-1][: self.partitions] if starts else ()):
            self.world.give_up(TOPIC, source, range(max(base, 0)))
        there = {at for name in self.tables for at in self.world.rows(name)}
        lows = [step.low for step in self.steps if step.low is not None]
        for source, low in enumerate(lows[-1][: self.partitions] if lows else ()):
            gone = [offset for offset in range(low) if (TOPIC, source, offset) not in there]
            self.world.give_up(TOPIC, source, gone)


def _round_and_round() -> None:
    raise Crash("it goes round and round, and lands nothing")


def seek(held: Any) -> None:
    """Put the table of orders back to where its rows end."""
    planned = seeking.plan_seek(held.settings, held.environment, ORDERS, {})
    seeking.commit_seek(held, planned)


def replay(start: int, stop: int) -> Callable[[Any], object]:
    """Return what replays a stretch of the first partition."""

    def act(held: Any) -> object:
        track = held.settle_pending(ORDERS)
        bounds: Mapping[Any, Bounds] = held.environment.log.bounds(
            held.environment.log.partitions()
        )
        wanted = {(TOPIC, 0): span(Offset(start), Offset(stop))}
        planned = replaying.plan_replay(track, wanted, bounds)
        return replaying.land_again(held, track, planned, new_rows=True)

    return act
