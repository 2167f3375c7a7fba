"""The Python API: a pipeline as an object, for notebooks and programs of one's own.

    import penstock
    pipeline = penstock.open("shop.yaml")           # or a Pipeline(…) made in Python
    pipeline.plan()                                 # a notebook shows it as a table
    ended = pipeline.run(until="caught-up")
    pipeline.status().to_arrow()
    pipeline.audit(rows=True).exit_code

The model is the spec's: `penstock.Pipeline` and `penstock.Table`. A running SparkSession may be
handed in; it is not stopped.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.assembly import engines
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.audit import Audit
from penstock.app.inspect.audit import audit as prove
from penstock.app.inspect.notebook_tables import NotebookTable, Rows
from penstock.app.inspect.peek import Peeked, spot
from penstock.app.inspect.peek import peek as follow
from penstock.app.inspect.plan.forecast import Plan
from penstock.app.inspect.plan.plan import plan as work_out
from penstock.app.inspect.status import Status
from penstock.app.inspect.status import status as read_status
from penstock.app.run import run as land
from penstock.landing.coordinator import RunResult
from penstock.landing.settings import Consent, Until
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.spec.load import load
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Followed(NotebookTable):
    """Records and their outcomes."""

    records: tuple[Peeked, ...]

    def rows(self) -> Rows:
        """Return a row for each table of a record, or one row when no rule takes the record."""
        return [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "table": outcome.table if outcome else "",
                "outcome": outcome.outcome if outcome else "",
                "rows": json.dumps(outcome.rows, default=str, ensure_ascii=False)
                if outcome
                else "",
                "code": outcome.code if outcome else "",
            }
            for each in self.records
            for outcome in (each.outcomes or (None,))
        ]


@dataclass(slots=True)
class OpenPipeline:
    """A pipeline that can be run, inspected and audited. Nothing is opened until it is used."""

    spec: Pipeline
    spark: Any = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(
        self,
        *,
        until: Until = "caught-up",
        takeover: bool = False,
        accept: frozenset[Consent] = frozenset(),
        observer: Observer | None = None,
    ) -> RunResult:
        """Land records until `until`; from another thread, `stop` ends it cleanly.

        Tables that are parked are in the result with their errors. Raises any PenstockError that
        concerns the pipeline as a whole.
        """
        self._stop.clear()
        return land(
            self.spec,
            observer=observer or UNHEARD,
            stop=self._stop,
            until=until,
            takeover=takeover,
            accept=accept,
            engine=lambda: engines.open_engine(self.spec, self.spark, observer=observer),
        )

    def stop(self) -> None:
        """Ask a run to finish its open epoch, level all tables and end."""
        self._stop.set()

    def plan(self) -> Plan:
        """Return what a run would do; writes nothing. Raises as `penstock plan`."""
        return work_out(self.spec)

    def peek(self, topic: str, count: int = 5, *, at: str = "") -> Followed:
        """Follow single records, the newest or those from `at` (topic:partition:offset) on.

        Writes nothing. Raises InvalidError for a topic or place that is not there.
        """
        where = spot(at) if at else None
        return Followed(follow(self.spec, topic, count=count, at=where))

    def status(self) -> Status:
        """Read the status of each table. Raises UnavailableError when brokers or store are down."""
        return read_status(self.spec, SystemClock())

    def audit(self, *, rows: bool = False) -> Audit:
        """Prove the chains from metadata, with `rows` also record by record against Kafka."""
        return prove(self.spec, rows=rows)


def open_pipeline(pipeline: Pipeline | Path | str, spark: Any = None) -> OpenPipeline:
    """Return a pipeline from a spec's path or from a `Pipeline` made in Python.

    Raises SpecError with all problems of a file.
    """
    spec = pipeline if isinstance(pipeline, Pipeline) else load(Path(pipeline))
    return OpenPipeline(spec, spark)
