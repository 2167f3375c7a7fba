"""What an executor calls for a publication: one job in, one result out, both JSON text.

Readers and senders are opened once, and kept for the next tasks of a thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.assembly.kept_readers import kept_in_thread, kept_reader
from penstock.app.assembly.own_sources import kept_own_source
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.producers import open_producers, open_targets
from penstock.app.assembly.table_readers import kept_table_reader
from penstock.app.assembly.topic_rows import RECORDS, kept_topic_rows, topic_rows_by
from penstock.engines.inline import InlineEngine
from penstock.engines.work import Work
from penstock.files.reopening import Reopening
from penstock.ports.connectors import LogConnector
from penstock.ports.log import RangeReader
from penstock.ports.producers import Packer, Sender
from penstock.ports.sources import RowReader, SourceReader
from penstock.publishing.batch_source import BatchSource
from penstock.publishing.epoch import Share
from penstock.publishing.messages import Encoding, SendJob, job_from_json, result_to_json
from penstock.publishing.row_worker import RowWorker
from penstock.publishing.settings import Publication
from penstock.publishing.share_messages import (
    is_share,
    share_from_json,
    share_result_to_json,
)
from penstock.publishing.shares import end_share
from penstock.publishing.topic_source import TopicReader
from penstock.publishing.worker import SendTools, send
from penstock.spec.secrets import ProcessSecrets

Readers = tuple[SourceReader | RowReader, RangeReader]
"""What reads the source, and what reads the target."""
THREADS_MAX = 4
"""That encode rows: each holds the texts of a piece of them, some 100 MB."""


def work(text: str) -> str:
    """Do one job, or a whole transaction. Raises a PenstockError that it ends with."""
    if is_share(text):
        return end_share_here(text, work)
    job = job_from_json(text)
    tools = tools_of(job)
    if isinstance(job.work, Encoding):
        return result_to_json(RowWorker(job, job.work, row_reader(job.source), tools).work())
    reader = TopicReader(kept_reader(json.dumps(job.source, sort_keys=True))())
    return result_to_json(send(job, job.work, reader, tools))


def end_share_here(text: str, send_rows: Work) -> str:
    """End a transaction here; its rows are sent by this process, whose producer has the id."""
    job = share_from_json(text)
    with ExitStack() as stack:
        share = Share(
            job.publication,
            stack.enter_context(closing(open_targets(job.publication))),
            stack.enter_context(closing(open_producers(job.publication))),
            InlineEngine(send_rows),
            observer_for(from_environment()),
            job.task,
        )
        return share_result_to_json(end_share(job, share))


def row_reader(source: Mapping[str, Any]) -> RowReader:
    """Return what reads the rows of a topic, a table or a source of one's own; kept over tasks."""
    if "own" in source:
        return kept_own_source(json.dumps(source))
    if RECORDS in source:
        return kept_topic_rows(source)
    return kept_table_reader(source["connector"])


def readers_of(publication: Publication, stack: ExitStack) -> Readers:
    """Open what reads a source and a target; `stack` closes it again."""
    target = _open_reader(publication.target, stack)
    if publication.reads_frames:
        return BatchSource(publication.source["dataframe"]), target
    if RECORDS in publication.source:
        reader = _open_reader(publication.source, stack)
        return topic_rows_by(reader, publication.source), target
    if publication.messages is not None:
        return row_reader(publication.source), target
    return TopicReader(_open_reader(publication.source, stack)), target


def _open_reader(settings: Mapping[str, Any], stack: ExitStack) -> RangeReader:
    opening = connector_of(LogConnector, settings["connector"]).open_reader
    return stack.enter_context(closing(opening(settings, ProcessSecrets())))


def tools_of(job: SendJob) -> SendTools:
    """Return what packs and sends for a job."""
    sender = _sender(json.dumps(job.target, sort_keys=True))()
    threads = min(os.cpu_count() or 1, THREADS_MAX)
    return SendTools(packer_of(job.target, job.batch_bytes_max), sender, SystemClock(), threads)


def packer_of(target: Mapping[str, Any], batch_bytes_max: int | None = None) -> Packer:
    """Return what packs messages for a target."""
    connector = connector_of(LogConnector, target["connector"])
    assert connector.open_packer is not None, "the connector for Kafka has it"
    return connector.open_packer({**target, "batch_bytes_max": batch_bytes_max})


@kept_in_thread
def _sender(settings: str) -> Reopening[Sender]:
    data, secrets = json.loads(settings), ProcessSecrets()
    connector = connector_of(LogConnector, data["connector"])
    assert connector.open_sender is not None, "the connector for Kafka has it"
    opening = partial(connector.open_sender, data, secrets)
    return Reopening(data, secrets, opening, lambda sender: sender.close())
