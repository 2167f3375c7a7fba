"""An engine that writes files again in this process, with parts that a test holds."""

from __future__ import annotations

from penstock.commit.copying import copied, job_from_json, result_to_json
from penstock.engines.inline import InlineEngine
from penstock.ports.increments import FileRows
from penstock.ports.runtime import Engine, Observer
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table_fixture import Quiet


def copying_engine(
    open_writer: WriterFactory, rows: FileRows, observer: Observer | None = None
) -> Engine:
    """Return what does the jobs of a rearrangement, as a worker does."""

    def work(text: str) -> str:
        job = job_from_json(text)
        groups = copied(job, open_writer, rows, observer or Quiet())
        return result_to_json(groups, job.places_max)

    return InlineEngine(work)
