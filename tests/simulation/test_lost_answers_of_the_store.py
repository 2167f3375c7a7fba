"""The store did it, and nobody heard: a reply to each of its writes is lost, then a life goes on."""

import pytest
from tests.simulation.test_fan_out import by_kind, made_by_operator, table_of
from tests.story.backend import MemoryGround
from tests.story.world import World

from penstock.core.commits import CommitKind
from penstock.core.errors import UnavailableError

LOST = [
    *[("claim", 1), ("keep_rules", 1), ("prepare", 1), ("settle", 1), ("settle", 2)],
    *[("heartbeat", 1), ("release", 1)],
]
WRITES = {name for name, _ in LOST}


class OneBeat:
    """Beats once, when the pipeline was claimed."""

    def __init__(self, act, every_seconds):
        del every_seconds
        act()

    def end(self):
        """Beat no more."""


class LosingStore:
    """A store whose answer to one write, the n-th of its kind, is lost after it was done."""

    def __init__(self, store, plan):
        self._store, self._plan = store, plan

    def __getattr__(self, name):
        act = getattr(self._store, name)

        def done(*given, **named):
            answer = act(*given, **named)
            self._plan[name] = self._plan.get(name, 0) - 1
            if self._plan[name] == 0:
                raise UnavailableError("the store does not answer", code="P512", hint="look")
            return answer

        return done if name in WRITES else act


class LosingGround(MemoryGround):
    def __init__(self):
        super().__init__()
        self.plan = {}

    def open_store(self, host):
        return LosingStore(super().open_store(host), self.plan)


@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize(("write", "passing"), LOST)
def test_what_the_store_did_unheard_neither_loses_nor_doubles(write, passing, tables):
    ground = LosingGround()
    names = tuple(f"lake.bronze.t{number}" for number in range(tables))
    world = World(ground, routes={"orders": names})
    world.beats = OneBeat
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.run()
    world.send("orders", 3)
    world.send_raw("orders", b"bad")
    ground.plan[write] = passing
    world.life().run()
    left = ground.plan.pop(write)
    world.send("orders", 1)
    world.run()

    assert [] == world.breaks()
    assert [6] * tables == [len(world.rows(name)) for name in names]
    assert left <= 0, "the write was not come to"


class BusyStore:
    """A store that is locked by others once, when it is asked to prepare anchors alone."""

    def __init__(self, store, busy):
        self._store, self._busy = store, busy

    def __getattr__(self, name):
        return getattr(self._store, name)

    def prepare(self, pipeline, held, commits, examined):
        if self._busy and commits and {CommitKind.ANCHOR} == {each.kind for each in commits}:
            self._busy.pop()
            raise UnavailableError("the pending store is locked", code="P503", hint="look")
        self._store.prepare(pipeline, held, commits, examined)


class BusyGround(MemoryGround):
    def __init__(self):
        super().__init__()
        self.busy = []

    def open_store(self, host):
        return BusyStore(super().open_store(host), self.busy)


def test_a_store_that_is_locked_when_a_route_is_brought_level_ends_the_run_and_stalls_nobody():
    """A person makes a table; its route lands where it is, and the store is locked just then."""
    ground = BusyGround()
    world = by_kind(ground, unknown="quarantine")
    made_by_operator(world, "a")
    world.send("orders", 3, kind="a")
    world.run()
    world.send("orders", 2, kind="a")
    world.alone()
    life = world.life(every_seconds=0.0)
    for number in range(2, 170):
        life.at_listing(number, lambda: world.send("orders", 1, kind="a"))
    life.at_listing(10, lambda: (made_by_operator(world, "b"), ground.busy.append(1)))
    life.at_listing(170, lambda: world.send("orders", 2, kind="b"))

    assert "P503" == life.run("stopped").code
    assert [] == ground.busy
    world.send("orders", 2, kind="b")
    assert {} == world.run().parked
    assert 2 == len(world.rows(table_of("b")))
    assert [] == world.breaks()


class NotingGround(MemoryGround):
    """Counts the notes on what was examined that are read."""

    def __init__(self):
        super().__init__()
        self.read = []

    def open_store(self, host):
        store = super().open_store(host)
        if "examined" in vars(store):  # it was opened before
            return store
        examined = store.examined

        def noted(*given):
            found = examined(*given)
            self.read += found
            return found

        store.examined = noted
        return store


def test_to_open_a_table_reads_its_own_note_alone():
    names = tuple(f"lake.bronze.t{number}" for number in range(12))
    ground = NotingGround()
    world = World(ground, routes={"orders": names})
    world.send("orders", 4)
    world.run()
    world.run()

    assert [*names] == sorted(ground.read, key=names.index)
