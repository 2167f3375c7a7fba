"""The store did it, and nobody heard: a reply to each of its writes is lost, then a life goes on."""

import pytest

from penstock.core.errors import UnavailableError
from penstock.testing.grounds import MemoryGround
from penstock.testing.world import World

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
