"""The world of a publication of a source of one's own: feeds of numbered rows, which may fail.

The oracle: of each feed, what a reader of the target finds is its rows up to the position in the
offsets topic, each once and in order; where a feed gives no rows again, those of one reading each.
"""

from __future__ import annotations

import json
import random  # noqa: TID251  from the seed that a test names
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.story.publishing import INTO, PARTITIONS, Act
from tests.story.publishing_rows import RowsWorld

from penstock.app.assembly.own_sources import GuardedSource
from penstock.ports.own_sources import Batch, OwnSource, Place, Replay
from penstock.ports.sources import BadRow, Source
from penstock.publishing.messages import Encoding, job_from_json, result_to_json
from penstock.publishing.own_rows import OwnReadings
from penstock.publishing.own_source import PlannedSource
from penstock.publishing.publisher import Publisher, Until
from penstock.publishing.row_worker import RowWorker
from penstock.rows.encode.rules import MessageRules

RULES = MessageRules(key=("feed",), bytes_of="v", where="v not like '%left out'")


@dataclass
class Feeds(OwnSource):
    """Feeds of rows, in memory: of some nothing is published, others are no rows at all.

    `chance` says how large batches are, and when reading fails.
    """

    feeds: dict[str, list[str]] = field(default_factory=dict)
    replay: Replay = "range"
    chance: random.Random | None = None
    readings: int = 0

    def parts(self) -> Iterable[Place]:
        """Return a part for each feed."""
        return [{"feed": name} for name in self.feeds]

    def end(self, part: Place) -> Place | None:
        """Return the end of a feed; one that gives no rows again does not say it."""
        count = len(self.feeds[str(part["feed"])])
        return {"row": count} if count and self.replay == "range" else None

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield rows, a few at a time."""
        self.readings += 1
        name, reading = str(part["feed"]), self.readings if self.replay == "resume" else 0
        begun = int(at["row"] or 0) if at else 0
        while begun < (stop := int(until["row"] or 0) if until else len(self.feeds[name])):
            if self.chance and self.chance.random() < 0.03:
                raise ConnectionError("the feed does not answer")
            size = self.chance.randrange(1, 4) if self.chance else 3
            own = list(enumerate(self.feeds[name][begun : min(begun + size, stop)], begun))
            rows = [
                {"feed": name, "v": f"{row}|{reading}|{word}"} for row, word in own if word != "bad"
            ]
            bad = [BadRow(f"row {row}", "it is bad") for row, word in own if word == "bad"]
            begun += len(own)
            yield Batch(rows, {"row": begun}, bad)


@dataclass(slots=True)
class OwnWorld(RowsWorld):
    """Feeds that are published; each run is a process of its own."""

    feeds: Feeds = field(default_factory=Feeds)
    rules: MessageRules = RULES
    readings: OwnReadings = field(init=False)

    def source(self) -> Source:
        """Open the feeds, as a process does."""
        guarded = GuardedSource(self.feeds, "feeds", "orders")
        self.readings = OwnReadings(guarded, "feeds", self.clock, publication="orders")
        return PlannedSource(self.readings, self.clock.monotonic, fresh_seconds=1.0)

    def publisher(
        self, until: Until = "caught-up", *, act: Act = lambda _: "", **changes: object
    ) -> Publisher:
        """Return a run that has not begun."""
        return RowsWorld.publisher(
            self, until, act=act, **{"source": {"own": "feeds", "name": "feeds"}, **changes}
        )

    def _work(self, text: str) -> str:
        job = job_from_json(text)
        assert isinstance(job.work, Encoding)
        return result_to_json(RowWorker(job, job.work, self.readings, self.tools(job)).work())

    def read_back(self) -> dict[str, list[tuple[int, str]]]:
        """Return what a reader finds: of each feed the numbers of rows and their words, in order."""
        found: dict[str, list[tuple[int, str]]] = {}
        for number in range(PARTITIONS):
            for each in self.cluster.partition(INTO, number).entries:
                if each.readable:
                    row, _, word = each.message.value.decode().split("|")
                    found.setdefault(each.message.key.decode(), []).append((int(row), word))
        return found

    def positions(self) -> dict[str, int]:
        """Return how many rows of each feed are published, as the offsets topic says."""
        return {
            json.loads(key)[1]["feed"]: json.loads(value).get("row", 0)
            for key, value in self.offsets().items()
            if b'"feed"' in key
        }

    def require_exact(self) -> None:
        """Require that all rows up to the positions are there, once."""
        reached = self.positions()
        expected = {
            name: [
                (row, word)
                for row, word in enumerate(rows[: reached.get(name, 0)])
                if word not in {"bad", "left out"}
            ]
            for name, rows in self.feeds.feeds.items()
        }
        assert {name: rows for name, rows in expected.items() if rows} == self.read_back()
        bad = sorted(
            f"row {row}"
            for name, rows in self.feeds.feeds.items()
            for row, word in enumerate(rows[: reached.get(name, 0)])
            if word == "bad"
        )
        assert bad == sorted(each["column"] for each in self.rejected())
