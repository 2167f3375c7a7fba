"""What an executor calls: one job in, one result out, both JSON text.

The parts are put together here, once a process, and kept for the next tasks: readers take time to
open. Penstock's own errors are returned as results, so that no engine retries a task in vain.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import cache, partial

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.crash_points import observer_for
from penstock.app.assembly.functions import function_at
from penstock.app.assembly.kept_readers import kept_reader
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.schema_readers import schema_readers
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.landing.task.context import TaskContext
from penstock.landing.task.message_json import result_to_json
from penstock.landing.task.messages import Job, TaskResult
from penstock.landing.task.share import ShareJob, ShareResult, write_share
from penstock.landing.task.share_json import any_job_from_json, share_result_to_json
from penstock.landing.task.worker import work as do_work
from penstock.ports.connectors import TableConnector
from penstock.ports.exchange import ExchangeFactory, no_exchange
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Observer
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets


def work(text: str) -> str:
    """Do one job. Never raises a PenstockError: it is part of the result."""
    return work_with(text, lambda settings: kept_reader(settings)(), writer)


def work_with(
    text: str, reader: Callable[[str], RangeReader], writer: Callable[[str], WriterFactory]
) -> str:
    """Do one job with readers by their settings as JSON, and writers by their connector."""
    job = any_job_from_json(text)
    observer = observer_for(job.crash_plan)
    gc.disable()  # hot loops make many short-lived objects and no cycles
    try:
        if isinstance(job, ShareJob):
            answer = share_result_to_json(_share_written(job, writer, observer))
        else:
            answer = result_to_json(_slice_read(job, reader, writer, observer))
    finally:
        gc.enable()
    observer.passed(CrashPoint.RESULT_RETURNED)
    return answer


def _slice_read(
    job: Job,
    reader: Callable[[str], RangeReader],
    writer: Callable[[str], WriterFactory],
    observer: Observer,
) -> TaskResult:
    names = {job.quarantine.connector}
    names |= {t.write_target.connector for t in job.tables.values() if t.write_target is not None}
    try:
        tools = TaskContext(
            reader=reader(json.dumps(job.log, sort_keys=True)),
            writers={name: writer(name) for name in names},
            observer=observer,
            clock=SystemClock(),
            readers=schema_readers,
            functions=function_at,
            exchanges=exchange if job.exchanged else no_exchange,
        )
        return do_work(job, tools)
    except PenstockError as error:
        return TaskResult(number=job.number, error=error)


def _share_written(
    job: ShareJob, writer: Callable[[str], WriterFactory], observer: Observer
) -> ShareResult:
    name = job.write_target.connector
    try:
        return write_share(job, writer(name), exchange, observer)
    except PenstockError as error:
        return ShareResult(job.number, error=error)


@cache
def writer(name: str) -> WriterFactory:
    """Return the factory of a connector's writers, with the secrets of this process."""
    return partial(connector_of(TableConnector, name).open_writer, secrets=ProcessSecrets())


@cache
def exchange(name: str) -> ExchangeFactory | None:
    """Return the factory of a connector's exchanges, if it has any, with this process's secrets."""
    opener = connector_of(TableConnector, name).open_exchange
    return None if opener is None else partial(opener, secrets=ProcessSecrets())
