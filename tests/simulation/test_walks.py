"""Random walks: lives, crashes, lost answers and stores, strangers; at the end all is exact.

A seed is a story: `World` draws nothing at random itself, but for the order of its threads.
"""

import random  # noqa: TID251  seeded

import pytest

from penstock.core.points import Point
from penstock.testing.faults import Fault
from penstock.testing.grounds import NOWHERE_REACHED, MemoryGround, catalog_name
from penstock.testing.world import QUARANTINE, World, either, tables_named

POINTS = sorted(set(Point) - NOWHERE_REACHED - {Point.HEARTBEAT, Point.MANIFEST_WRITTEN})
FAULTS = [each for each in Fault if each is not Fault.FORBID]
STEPS = 14
SEEDS = 120


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        routes = {**tables_named("orders", "items"), "returns": ("lake.bronze.orders",)}
        self.world = World(MemoryGround(), routes=routes, partitions=2)
        self.partitions = dict.fromkeys(routes, 2)
        self.told: list[str] = []

    def step(self) -> None:
        acts = [
            *[self.live] * 4,
            *[self.crash] * 4,
            *[self.send] * 6,
            self.refuse,
            self.remove_file,
            self.stranger,
            self.fault,
            self.fault,
            self.away,
            self.back,
            self.grow,
            self.lose_store,
            self.other_host,
            self.two_at_once,
            self.rules,
            self.restore_store,
        ]
        act = self.random.choice(acts)
        self.told.append(act.__name__)
        act()

    def topic(self) -> tuple[str, int]:
        topic = self.random.choice(sorted(self.partitions))
        return topic, self.random.randrange(self.partitions[topic])

    def table(self) -> str:
        return catalog_name(self.random.choice([*self.world.tables, QUARANTINE]))

    def send(self) -> None:
        topic, partition = self.topic()
        fields = {"surprise": 1} if self.random.random() < 0.2 else {}
        self.world.send(topic, self.random.randrange(1, 5), partition=partition, **fields)

    def refuse(self) -> None:
        topic, partition = self.topic()
        self.world.send_raw(topic, b"bad", None, partition=partition)

    def given(self) -> dict[str, object]:
        return {
            "records_max": self.random.choice([2, 5, 1000]),
            "accept": ["rules"] if self.random.random() < 0.5 else [],
            "max_epochs": self.random.choice([1, 4]),
        }

    def live(self) -> None:
        self.world.run(**self.given())

    def crash(self) -> None:
        for _ in range(2):
            self.random.choice([self.send, self.send, self.refuse])()
        point, passing = self.random.choice(POINTS), self.random.choice([1, 1, 2, 4])
        self.told.append(f"{point}:{passing}")
        self.world.life(crash=f"{point}:{passing}", **self.given()).run()

    def fault(self) -> None:
        self.send()
        self.world.faults.queue(self.table(), *self.random.choices(FAULTS, k=2))
        self.live()
        self.world.faults.clear()
        if self.random.random() < 0.5:
            self.world.faults.release()

    def away(self) -> None:
        self.world.faults.take_away(self.table())

    def back(self) -> None:
        for name in (*self.world.tables, QUARANTINE):
            self.world.faults.give_back(catalog_name(name))

    def stranger(self) -> None:
        name = self.table()
        if self.world.ground.warehouse.find(name) and name != catalog_name(QUARANTINE):
            self.world.ground.append(name)

    def grow(self) -> None:
        topic = self.random.choice(sorted(self.partitions))
        self.partitions[topic] += 1
        self.world.ground.grow(topic, self.partitions[topic])

    def lose_store(self) -> None:
        self.world.ground.lose_store("here")

    def restore_store(self) -> None:
        saved = self.world.ground.save_store("here")
        for _ in range(2):
            self.send()
            self.live()
        self.world.ground.restore_store("here", saved)

    def remove_file(self) -> None:
        self.world.faults.release()  # what is on its way would bring in files that are gone
        live = {
            file.path
            for name in (*self.world.tables, QUARANTINE)
            if (stored := self.world.ground.warehouse.find(catalog_name(name)))
            for file in stored.contents.files
        }
        waiting = [file.path for each in self.world.pending() for file in each.files]
        if staged := [path for path in waiting if path not in live]:
            self.gone(self.random.choice(staged))

    def gone(self, path: str) -> None:
        if self.world.ground.warehouse.file_size(path) is not None:
            self.world.ground.remove_file(path)

    def other_host(self) -> None:
        self.world.run(host="there", **self.given())

    def two_at_once(self) -> None:
        point = self.random.choice([Point.EPOCH_PLANNED, Point.PREPARE_AFTER, Point.COMMIT_BEFORE])
        host = self.random.choice(["here", "there"])

        def another() -> None:
            self.send()
            self.world.life(host=host, **self.given()).run(takeover=True)

        self.send()
        self.world.life(**self.given()).at(point, another).run()

    def rules(self) -> None:
        number = len(self.world.rulebook) + 1
        columns = self.random.choice(["drop_value", "quarantine"])
        self.world.change_rules(f"rules-{number}", columns=columns)

    def end(self) -> None:
        self.back()
        self.world.faults.release()
        for host in ("here", "there", "here"):
            life = self.world.run(host=host, accept=["rules"])
            assert life.error is None, f"{life.error!r} after {self.told}"
            assert {} == life.parked


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_every_record_ends_in_one_place(seed):
    walk = Walk(seed)
    walk.send()
    for _ in range(STEPS):
        walk.step()
    walk.end()

    assert [] == walk.world.breaks(judged=either), f"after {walk.told}"
