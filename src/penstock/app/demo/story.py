"""The story: broker, records, pipeline, a kill in the middle, recovery, the proof.

Invariants: everything it starts is stopped at the end, also when it is broken off, and what an
earlier demo left running is stopped first; it ends with 0 only when the audit proved every record.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock
from penstock.app.demo import data
from penstock.app.demo.data import BATCH_ROWS
from penstock.app.demo.pipeline import Line, PipelineProcess, start
from penstock.app.inspect.audit import Audit, audit
from penstock.app.inspect.status import Status, status
from penstock.core.errors import UnavailableError
from penstock.dev import broker
from penstock.dev.records import create_topics, produce
from penstock.observe.formatting import number_of
from penstock.spec.load import load
from penstock.spec.model import Pipeline

FLIGHTS, WEATHER = "nyc.flights", "nyc.weather"
PARTITIONS = 4
HELD_BACK = 40_000
EPOCHS_BEFORE_THE_KILL = 2
SILENCE_SECONDS_MAX = 90.0
TOLD_EVERY = 100_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found at its end."""

    status: Status
    audit: Audit
    records: int
    recovery_seconds: float
    spec: Path


@dataclass(slots=True)
class Demo:
    """One showing, in a directory of its own, which is emptied first."""

    directory: Path
    say: Say
    downloaded: Callable[[str, int, int], None]
    _stack: ExitStack = field(default_factory=ExitStack)
    _sent: int = 0

    def run(self) -> DemoResult:
        """Run the story. Raises UnavailableError, InvalidError; stops what it started."""
        with self._stack:
            spec = self._prepare()
            running = self._broker()
            os.environ["DEMO_BROKERS"] = running.bootstrap
            pipeline = load(spec)
            self._load(running.bootstrap)
            self._until_killed(spec, running.bootstrap)
            self._say_what_was_open(pipeline)
            recovery = self._until_caught_up(spec, running.bootstrap)
            self.say("")
            now = status(pipeline, SystemClock())
            self.say("auditing: every record of Kafka against every row of the tables")
            return DemoResult(now, audit(pipeline, rows=True), self._sent, recovery, spec)

    def _prepare(self) -> Path:
        broker.down(self.directory / "kafka")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        spec = self.directory / "penstock.yaml"
        spec.write_text(files(__package__).joinpath("spec.yaml").read_text())
        return spec.resolve()

    def _broker(self) -> broker.Running:
        began = time.monotonic()
        self.say("starting a real Kafka broker")
        home = self.directory / "kafka"
        self._stack.callback(broker.down, home)
        running = broker.up(home, 0, progress=self.downloaded)
        self.say(f"  it answers at {running.bootstrap} ({time.monotonic() - began:.1f} s)")
        return running

    def _load(self, brokers: str) -> None:
        create_topics(brokers, {FLIGHTS: PARTITIONS, WEATHER: 1})
        flights = data.flights()
        kept = flights.num_rows - HELD_BACK
        self._send(brokers, FLIGHTS, data.records(flights.slice(0, kept)), kept, PARTITIONS)
        weather = data.weather()
        self._send(brokers, WEATHER, data.records(weather), weather.num_rows, 1)

    def _send(
        self, brokers: str, topic: str, batches: Iterable[list[bytes]], total: int, partitions: int
    ) -> None:
        began = time.monotonic()
        for sent in produce(brokers, topic, batches, partitions):
            if sent % TOLD_EVERY < BATCH_ROWS or sent == total:
                rate = sent / max(time.monotonic() - began, 0.001)
                self.say(f"  {topic}: {sent:,} of {total:,} records sent, {rate:,.0f} a second")
        self._sent += total

    def _until_killed(self, spec: Path, brokers: str) -> None:
        self.say("starting the pipeline: one topic into Iceberg and Delta, one into Iceberg")
        pipeline = self._start(spec, brokers)
        epochs: set[int] = set()
        for line in pipeline.lines(SILENCE_SECONDS_MAX):
            self._show(line)
            if line.get("event") == "TableCommitted" and line.get("rows"):
                epochs.add(int(line["epoch"]))
            if len(epochs) >= EPOCHS_BEFORE_THE_KILL:
                break
        else:
            raise self._ended(pipeline)
        pipeline.kill()
        self.say(f"  SIGKILL: the pipeline is gone, with {len(epochs)} epochs committed")

    def _say_what_was_open(self, pipeline: Pipeline) -> None:
        store = assembly.open_store(pipeline)
        try:
            waiting = store.pending(pipeline.name)
        finally:
            store.close()
        names = sorted({f"{c.chain.table} (epoch {c.epoch})" for c in waiting})
        if names:
            self.say(f"  pending, written and not yet visible: {', '.join(names)}")
        else:
            self.say("  one epoch was open: its files are leftovers, its records are read again")

    def _until_caught_up(self, spec: Path, brokers: str) -> float:
        self.say("starting it again, while the last flights are being produced")
        flights = data.flights()
        rest = data.records(flights.slice(flights.num_rows - HELD_BACK), batch_rows=2_000)
        producer = threading.Thread(
            target=lambda: [None for _ in produce(brokers, FLIGHTS, rest, PARTITIONS)]
        )
        began = time.monotonic()
        pipeline = self._start(spec, brokers)
        producer.start()
        recovery = 0.0
        wanted = {"lake.nyc.flights", "delta.nyc.flights", "lake.nyc.weather"}
        for line in pipeline.lines(SILENCE_SECONDS_MAX):
            self._show(line)
            if line.get("event") in {"TableCommitted", "CommitFoundLanded"} and not recovery:
                recovery = time.monotonic() - began
            if not producer.is_alive() and line.get("event") == "TableCommitted":
                lags = self._lags(load(spec))
                if all(lags.get(table) == 0 for table in wanted):
                    break
        else:
            raise self._ended(pipeline)
        self._sent += HELD_BACK
        self.say(f"  caught up; first commit {recovery:.1f} s after the restart")
        code = pipeline.stop()
        self.say(f"  SIGTERM: a clean stop, exit {code}")
        if code != 0:
            raise self._ended(pipeline)
        return recovery

    def _lags(self, pipeline: Pipeline) -> dict[str, int | None]:
        tables = status(pipeline, SystemClock()).snapshot.tables
        return {name: table.lag_records for name, table in tables.items()}

    def _start(self, spec: Path, brokers: str) -> PipelineProcess:
        pipeline = start(spec, brokers)
        self._stack.callback(_end, pipeline)
        return pipeline

    def _show(self, line: Line) -> None:
        match line.get("event"):
            case "PipelineStarted":
                self.say(
                    f"  generation {line['generation']} holds the pipeline, "
                    f"{line['pending']} commits to settle"
                )
            case "TableCreated":
                self.say(f"  created {line['table']} with {line['columns']} columns")
            case "TableCommitted" if line.get("rows"):
                self.say(
                    f"  epoch {line['epoch']:>3}  {line['table']:<18} {line['rows']:>7,} rows in "
                    f"{number_of(line['files'], 'file')}, committed in "
                    f"{line['seconds'] * 1000:.0f} ms"
                )
            case "CommitFoundLanded":
                self.say(f"  {line['table']}: a commit of before the kill had landed already")
            case "GapFound":
                self.say(f"  {line['table']}: a stretch before a prepared commit is read again")
            case "CommitAborted":
                self.say(f"  {line['table']}: a prepared commit is given up: {line['reason']}")
            case "TableParked":
                self.say(f"  {line['table']} is parked: {line['reason']}")
            case _:
                pass

    def _ended(self, pipeline: PipelineProcess) -> UnavailableError:
        words = " | ".join(pipeline.tail[-4:])
        return UnavailableError(
            f"the demo's pipeline ended with {pipeline.process.poll()}: {words}",
            code="P641",
            hint="run the demo again; if it persists, please report the lines above",
        )


def _end(pipeline: PipelineProcess) -> None:
    if pipeline.process.poll() is None:
        pipeline.kill()
