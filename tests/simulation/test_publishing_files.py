"""Files, published: whatever is killed, and in whatever order they come, each row is one message."""

from __future__ import annotations

import json
import os
import random  # noqa: TID251  from the seed that a test names
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.contracts.test_file_sources import DEFAULTS
from tests.story.own_publishing import OwnWorld
from tests.story.publishing import INTO, PARTITIONS, live

from penstock.app.assembly.own_sources import GuardedSource
from penstock.app.inspect.publication_audit import audit_publication, is_nothing_compared
from penstock.app.inspect.publications import view_of
from penstock.cli.publications import plan_lines
from penstock.connectors.memory.log import MemoryReader
from penstock.ports.sources import Source
from penstock.publishing.own_rows import OwnReadings
from penstock.publishing.own_source import PlannedSource
from penstock.rows.encode.rules import MessageRules
from penstock.sources.files import FilesSource

RULES = MessageRules(key=("k",), bytes_of="v")


@dataclass(slots=True)
class FilesWorld(OwnWorld):
    """A folder of lines that is published, and what was written there."""

    folder: Path = Path()
    grows: bool = False
    rules: MessageRules = RULES
    written: list[str] = field(default_factory=list)
    files: dict[str, bool] = field(default_factory=dict)

    def source(self) -> Source:
        """Open the folder, as a process does."""
        columns = {"k": "string", "v": "string"}
        settings = {**DEFAULTS, "format": "json", "columns": columns, "grows": self.grows}
        source = GuardedSource(FilesSource(**{**settings, "files": f"{self.folder}/*"}), "files")
        self.readings = OwnReadings(source, "files", self.clock)
        return PlannedSource(self.readings, self.clock.monotonic, fresh_seconds=1.0)

    def come(self, chance: random.Random) -> None:
        """Let a file come, at any time; or lines, into one that is there."""
        there = [name for name, is_there in self.files.items() if is_there]
        name = f"{chance.randrange(1000)}.jsonl"
        if self.grows and there and chance.random() < 0.7:
            name = chance.choice(there)
        elif name in self.files:
            return
        with (self.folder / name).open("a") as file:
            for _ in range(chance.randrange(5)):
                value = f"{len(self.written)}"
                self.written.append(value)
                file.write(json.dumps({"k": name, "v": value}) + "\n")
        time = chance.randrange(1, 100)
        os.utime(self.folder / name, (time, time))
        self.files[name] = True

    def remove(self, chance: random.Random) -> None:
        """Remove a file that is published."""
        done = {
            json.loads(key)[1]["file"]
            for key, value in self.offsets().items()
            if b'"file"' in key and b'"done"' in value
        }
        if there := sorted(name for name in done if self.files[name]):
            name = chance.choice(there)
            self.files[name] = False
            (self.folder / name).unlink()

    def values(self) -> list[str]:
        """Return the values that a reader finds."""
        return [
            each.message.value.decode()
            for number in range(PARTITIONS)
            for each in self.cluster.partition(INTO, number).entries
            if each.readable
        ]


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_any_history_of_a_folder_is_published_once(seed, grows, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.sources.text_files.PIECE_BYTES", 50)
    chance = random.Random(seed)
    world = FilesWorld(folder=tmp_path, grows=grows, rows_max=chance.choice([1, 5, 1000]))

    for _ in range(chance.randrange(2, 7)):
        for _ in range(chance.randrange(4)):
            world.come(chance)
        live(world, chance)
        assert max(Counter(world.values()).values(), default=1) == 1
        if not grows:
            world.remove(chance)
    last = world.run()

    assert last.error is None
    assert sorted(world.written) == sorted(world.values())


def test_a_file_that_is_removed_halfway_stops_until_a_person_lets_it_go(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.sources.text_files.PIECE_BYTES", 30)
    world = FilesWorld(folder=tmp_path, rows_max=1)
    (tmp_path / "a.jsonl").write_text('{"k": "a", "v": "1"}\n{"k": "a", "v": "2"}\n')
    world.run("once")
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "b.jsonl").write_text('{"k": "b", "v": "3"}\n')
    error = world.run().error

    assert error is not None
    assert (error.code, error.exit_code) == ("P812", 4)
    assert "removed when a part of it was published" in error.message
    assert world.run(accept_gap=True).error is None
    assert world.values() in (["1", "3"], ["3", "1"])


def test_a_folder_of_many_files_is_opened_where_it_is_read(tmp_path):
    for number in range(100):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"k": "a", "v": "{number}"}}\n')
    world = FilesWorld(folder=tmp_path)
    run = world.run()

    assert (run.transactions, len(world.values())) == (1, 100)


def test_a_plan_says_that_no_file_matches(tmp_path):
    world = FilesWorld(folder=tmp_path)
    publication = world.publisher().publication
    view = view_of(publication, world.ports(publication))

    assert "  nothing to publish: its source has no part now, as where no file matches" in [
        *plan_lines(view)
    ]


def test_an_audit_says_that_a_file_was_changed(tmp_path):
    world = FilesWorld(folder=tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(f'{{"k": "{name}", "v": "1"}}\n')
    publication = world.run().publication
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"k": "a", "v": "2"}\n')
    ports, target = world.ports(publication), MemoryReader(world.cluster, world.clock)
    found = audit_publication(publication, ports, (world.readings, target))

    assert (None, ()) == (found.problem, found.breaks)
    assert "the file a.jsonl was changed after rows of it were published" in found.not_compared[0]


def test_an_audit_says_that_a_file_is_gone_and_compares_the_others(tmp_path):
    world = FilesWorld(folder=tmp_path, rows_max=1)
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(f'{{"k": "{name}", "v": "1"}}\n')
    publication = world.run().publication
    (tmp_path / "a.jsonl").unlink()
    ports, target = world.ports(publication), MemoryReader(world.cluster, world.clock)
    found = audit_publication(publication, ports, (world.readings, target))

    assert (None, (), 2) == (found.problem, found.breaks, found.rows)
    assert ("transaction 1: the file a.jsonl is gone",) == found.not_compared

    for name in "bc":
        (tmp_path / f"{name}.jsonl").unlink()
    world.clock.advance(2)
    found = audit_publication(publication, ports, (world.readings, target))
    assert (0, 3) == (found.rows, len(found.not_compared))
    assert is_nothing_compared([found])
