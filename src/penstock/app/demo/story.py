"""The story: broker, records, pipeline, a kill in the middle, recovery, the proof; then back again.

Invariants: everything it starts is stopped at the end, also when it is broken off, and what an
earlier demo left running is stopped first; it ends with 0 only when the audits proved every record,
and the rows of the keyed tables are those that their changes leave.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock
from penstock.app.demo import board, data
from penstock.app.demo.board import BOARD
from penstock.app.demo.data import BATCH_ROWS
from penstock.app.demo.pipeline import Line, PipelineProcess, start
from penstock.app.inspect.audit import Audit, audit
from penstock.app.inspect.publication_audit import PublicationAudit, audit_publications
from penstock.app.inspect.status import Status, status
from penstock.core.errors import UnavailableError
from penstock.dev import broker
from penstock.dev.records import create_topics, produce
from penstock.observe.formatting import number_of
from penstock.spec.load import load, load_publications
from penstock.spec.model import Pipeline

FLIGHTS, WEATHER = "nyc.flights", "nyc.weather"
PUBLISH = "publish.yaml"
PARTITIONS = 4
HELD_BACK, CHANGES_HELD_BACK = 40_000, 4_000
EPOCHS_BEFORE_THE_KILL = 2
SILENCE_SECONDS_MAX = 90.0
REPORT_EVERY = 100_000

SAID = {
    "PipelineStarted": "generation {generation} holds the pipeline, {pending} commits to settle",
    "TableCreated": "created {table} with {columns} columns",
    "CommitFoundLanded": "{table}: a commit of before the kill had landed already",
    "GapFound": "{table}: a stretch before a prepared commit is read again",
    "CommitAborted": "{table}: a prepared commit is given up: {reason}",
    "TableParked": "{table} is parked: {reason}",
    "RowsPublished": "transaction {epoch}  {rows:>7,} records in {partitions} partitions",
}
"""What is said of lines of the log, by their event."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found at its end."""

    status: Status
    audit: Audit
    records: int
    recovery_seconds: float
    spec: Path
    changes: int
    wrong: Sequence[str]
    """The keyed tables whose rows are not those that the changes leave."""
    published: PublicationAudit

    @property
    def exit_code(self) -> int:
        """Return 0 where all is proven."""
        return self.audit.exit_code or self.published.exit_code or int(bool(self.wrong))


@dataclass(slots=True)
class Demo:
    """One showing, in a directory of its own, which is emptied first."""

    directory: Path
    say: Say
    downloaded: Callable[[str, int, int], None]
    _stack: ExitStack = field(default_factory=ExitStack)
    _sent: int = 0
    _changes: list[board.Event] = field(default_factory=list)

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
            proof = audit(pipeline, rows=True)
            rows, wanted = board.read(spec.parent), board.folded(self._changes)
            wrong = [f"{at}.{BOARD}" for at, found in rows.items() if found != wanted]
            published = self._publish(running.bootstrap)
            return DemoResult(
                now, proof, self._sent, recovery, spec, len(self._changes), wrong, published
            )

    def _prepare(self) -> Path:
        broker.down(self.directory / "kafka")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        for name, into in (("spec.yaml", "penstock.yaml"), (PUBLISH, PUBLISH)):
            (self.directory / into).write_text(files(__package__).joinpath(name).read_text())
        return (self.directory / "penstock.yaml").resolve()

    def _broker(self) -> broker.Running:
        began = time.monotonic()
        self.say("starting a real Kafka broker")
        home = self.directory / "kafka"
        self._stack.callback(broker.down, home)
        running = broker.up(home, 0, progress=self.downloaded)
        self.say(f"  it answers at {running.bootstrap} ({time.monotonic() - began:.1f} s)")
        return running

    def _load(self, brokers: str) -> None:
        create_topics(brokers, {FLIGHTS: PARTITIONS, WEATHER: 1, BOARD: 1})
        flights = data.flights()
        kept = flights.num_rows - HELD_BACK
        self._send(brokers, FLIGHTS, data.records(flights.slice(0, kept)), kept, PARTITIONS)
        weather = data.weather()
        self._send(brokers, WEATHER, data.records(weather), weather.num_rows, 1)
        self._changes = board.events(flights)
        first = self._changes[:-CHANGES_HELD_BACK]
        self._send(brokers, BOARD, board.records(first), len(first), 1)

    def _send(
        self, brokers: str, topic: str, batches: Iterable[list[bytes]], total: int, partitions: int
    ) -> None:
        began = time.monotonic()
        for sent in produce(brokers, topic, batches, partitions):
            if sent % REPORT_EVERY < BATCH_ROWS or sent == total:
                rate = sent / max(time.monotonic() - began, 0.001)
                self.say(f"  {topic}: {sent:,} of {total:,} records sent, {rate:,.0f} a second")
        self._sent += total

    def _until_killed(self, spec: Path, brokers: str) -> None:
        self.say("starting the pipeline: two topics into Iceberg and Delta, one into Iceberg")
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
        self.say(f"  SIGKILL: the pipeline is dead, with {len(epochs)} epochs committed")

    def _say_what_was_open(self, pipeline: Pipeline) -> None:
        with closing(assembly.open_store(pipeline)) as store:
            waiting = store.pending(pipeline.name)
        names = sorted({f"{c.chain.table} (epoch {c.epoch})" for c in waiting})
        if names:
            self.say(f"  pending, written and not yet visible: {', '.join(names)}")
        else:
            self.say("  one epoch was open: its files are leftovers, its records are read again")

    def _until_caught_up(self, spec: Path, brokers: str) -> float:
        self.say("starting it again, while the last flights are being produced")
        flights = data.flights()
        rest = data.records(flights.slice(flights.num_rows - HELD_BACK), batch_rows=2_000)
        changes = board.records(self._changes[-CHANGES_HELD_BACK:])

        def send() -> None:
            for _ in produce(brokers, FLIGHTS, rest, PARTITIONS):
                pass
            for _ in produce(brokers, BOARD, changes, 1):
                pass

        producer = threading.Thread(target=send)
        began = time.monotonic()
        pipeline = self._start(spec, brokers)
        producer.start()
        recovery = 0.0
        both = {f"{at}.{topic}" for at in ("lake", "delta") for topic in (FLIGHTS, BOARD)}
        wanted = {*both, f"lake.{WEATHER}"}
        for line in pipeline.lines(SILENCE_SECONDS_MAX):
            self._show(line)
            if line.get("event") in {"TableCommitted", "CommitFoundLanded"} and not recovery:
                recovery = time.monotonic() - began
            if not producer.is_alive() and line.get("event") == "TableCommitted":
                tables = status(load(spec), SystemClock()).snapshot.tables
                if all(name in tables and tables[name].lag_records == 0 for name in wanted):
                    break
        else:
            raise self._ended(pipeline)
        self._sent += HELD_BACK + CHANGES_HELD_BACK
        self.say(f"  caught up; first commit {recovery:.1f} s after the restart")
        code = pipeline.stop()
        self.say(f"  SIGTERM: a clean stop, exit {code}")
        if code != 0:
            raise self._ended(pipeline)
        return recovery

    def _publish(self, brokers: str) -> PublicationAudit:
        """Publish a table into a topic, with a kill in the middle, and prove it."""
        spec = self.directory / PUBLISH
        words = ("publish", "--spec", str(spec), "--until-caught-up")
        self.say("")
        self.say("publishing the flights of the Iceberg table into a topic, by their aircraft")
        first = self._begin(brokers, *words)
        for line in first.lines(SILENCE_SECONDS_MAX):
            self._show(line)
            if line.get("event") == "RowsPublished":
                break
        else:
            raise self._ended(first)
        first.kill()
        self.say("  SIGKILL: what is open now is aborted by the next run")
        again = self._begin(brokers, *words)
        for line in again.lines(SILENCE_SECONDS_MAX):
            self._show(line)
        if again.process.wait() != 0:
            raise self._ended(again)
        self.say("auditing: every row of the table against every message of the topic")
        (found,) = audit_publications(load_publications(spec), rows=True)
        return found

    def _start(self, spec: Path, brokers: str) -> PipelineProcess:
        return self._begin(brokers, "run", str(spec))

    def _begin(self, brokers: str, *words: str) -> PipelineProcess:
        process = start(brokers, *words)
        self._stack.callback(process.kill)
        return process

    def _show(self, line: Line) -> None:
        event = line.get("event")
        if event == "TableCommitted" and (line.get("rows") or line.get("changes")):
            did = f"{line['rows']:>7,} rows in {number_of(line['files'], 'file')}"
            if changes := line.get("changes"):
                did = ", ".join(f"{count:,} {what}" for what, count in changes.items())
                did = f"{did.partition(' ')[0]:>7} {did.partition(' ')[2]}"
            took = f"committed in {line['seconds'] * 1000:.0f} ms"
            self.say(f"  epoch {line['epoch']:>3}  {line['table']:<18} {did}, {took}")
        elif event in SAID:
            self.say(f"  {SAID[event].format_map(line)}")

    def _ended(self, pipeline: PipelineProcess) -> UnavailableError:
        words = " | ".join(pipeline.tail[-4:])
        return UnavailableError(
            f"the demo's pipeline ended with {pipeline.process.poll()}: {words}",
            code="P641",
            hint="run the demo again; if it persists, please report the lines above",
        )
