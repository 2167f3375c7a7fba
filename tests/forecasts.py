"""A world in memory in which a spec is planned and run, and what differs is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.story.foreign_acts import PlayedCluster

from penstock.app.inspect.plan.forecast import Plan, TablePlan
from penstock.app.inspect.plan.plan import planned
from penstock.app.inspect.read_only_world import DryRun, read_world
from penstock.app.run import exit_code
from penstock.app.spec_tests.running import InMemory
from penstock.connectors.memory.cluster import Message
from penstock.core.commits import Chain
from penstock.core.errors import PenstockError
from penstock.landing.settings import Consent
from penstock.spec.load import loads

QUARANTINE = "lake.ops.quarantine"


@dataclass
class Ending:
    """How a run ended, and what it left."""

    code: int
    parked: dict[str, str]
    columns: dict[str, tuple[tuple[str, str], ...]]
    hints: dict[str, str] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    rejects: dict[str, Counter[str]] = field(default_factory=dict)


class Place(InMemory):
    """A world in which a spec is planned and run."""

    def __init__(self, text: str, topics: Sequence[str]) -> None:
        super().__init__(loads(text, base=Path("/nowhere")))
        self.cluster: PlayedCluster = PlayedCluster()
        for topic in topics:
            self.cluster.create(topic, 2)

    def send(self, topic: str, floods: Sequence[tuple[bytes | None, int]]) -> None:
        """Send values, each a number of times, to the partitions by turns."""
        values = [value for value, count in floods for _ in range(count)]
        for number, value in enumerate(values):
            self.cluster.send(topic, Message(value), partition=number % 2)

    def plan(self, *accept: Consent, takeover: bool = False) -> Plan | PenstockError:
        """Plan a run."""
        trial = DryRun()
        world = self.environment(trial.engine)
        given = replace(self.settings, accept=frozenset(accept))
        try:
            view = read_world(given, world, trial, self.reader())
            former = nullcontext((given, world.log))
            return planned(view, lambda _: former, takeover=takeover)
        except PenstockError as error:
            return error

    def run(self, *accept: Consent) -> Ending:
        """Run until caught up; only what this run did is reported."""
        before = self._counts()
        try:
            ended = self.land(replace(self.settings, accept=frozenset(accept)))
            parked = {name: error.code for name, error in ended.parked.items()}
            hints = {name: error.hint for name, error in ended.parked.items()}
            code = exit_code(ended, "caught-up", asked_to_stop=False)
        except PenstockError as error:
            parked, code = {"": error.code}, error.exit_code
            hints = {"": error.hint}
        rows, rejects = self._counts()
        fresh = {name: rejects[name] - before[1].get(name, Counter()) for name in rejects}
        return Ending(code, parked, self.columns(), hints, rows - before[0], fresh)

    def columns(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the columns of the tables that are there."""
        found = {}
        for name in self.warehouses["lake"].names():
            table = self.catalogs["lake"].load(name)
            assert table is not None
            schema = table.state(Chain("shop", f"lake.{name}")).schema
            found[f"lake.{name}"] = tuple((each.name, str(each.type)) for each in schema.fields)
        return found

    def _counts(self) -> tuple[Counter[str], dict[str, Counter[str]]]:
        warehouse = self.warehouses["lake"]
        rows = Counter({f"lake.{each}": len(warehouse.rows(each)) for each in warehouse.names()})
        rejects: dict[str, Counter[str]] = {}
        if rows.pop(QUARANTINE, None):
            for row in warehouse.rows("ops.quarantine"):
                rejects.setdefault(str(row["table"]), Counter())[str(row["code"])] += 1
        return rows, rejects


def differences(said: Plan | PenstockError, before: set[str], done: Ending) -> list[str]:
    """Return how a run differed from its plan; `before` are the tables that existed."""
    if isinstance(said, PenstockError):
        return [] if said.exit_code == done.code else [f"plan raised {said.code}, run {done.code}"]
    if not all(each.sampled.complete for each in said.tables if each.sampled.records):
        return []  # a sample that is not all says what it says
    found = []
    if said.exit_code != done.code:
        found.append(f"plan says exit {said.exit_code}, run ended with {done.code} ({done.parked})")
    if said.stops:
        return found
    reported = {each.table: each.parked.code for each in said.tables if each.parked is not None}
    if reported != done.parked:
        found.append(f"plan parks {reported}, run parked {done.parked}")
    for each in said.tables:
        if each.table not in reported:
            found += _of_table(each, before, done)
    made = {name for name in done.columns if name != QUARANTINE} - before
    created = {each.table for each in said.tables if each.create and each.table not in reported}
    if made - set(reported) != created:
        found.append(f"plan creates {created}, run created {made}")
    return found


def _of_table(said: TablePlan, before: set[str], done: Ending) -> list[str]:
    name, found = said.table, []
    if said.create and name not in before and said.columns != done.columns.get(name):
        found.append(f"{name}: plan says {said.columns}, run made {done.columns.get(name)}")
    counts = (said.sampled.landed, dict(said.sampled.quarantined))
    real = (done.rows[name], dict(done.rejects.get(name, {})))
    if counts != real:
        found.append(f"{name}: plan says {counts}, run did {real}")
    return found
