"""Publish DataFrames of Spark from a program of one's own, each batch once, by an id.

    penstock.publish_once(frame, "publish.yaml", "scores", run="2026-11-23")
    stream.writeStream.foreachBatch(penstock.publisher("publish.yaml", "clicks")).start()

Invariants:
- the rows come to the driver, once, and are sent from there: a task of Spark that runs twice sends
  nothing, and what it computes counts once;
- the id is looked for in the ledger after the fence: a batch that is there is not sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from penstock.app.assembly import publishing
from penstock.app.assembly.publishing_worker import end_share_here, tools_of
from penstock.app.publish import PublishResult, result_of, rules_named
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.engines.inline import InlineEngine
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.publishing.batch_source import BatchSource, FrameBatch, Kind, batch_of, run_of
from penstock.publishing.messages import Encoding, job_from_json, result_to_json
from penstock.publishing.publisher import Publisher
from penstock.publishing.record import standing_record
from penstock.publishing.row_worker import RowWorker
from penstock.publishing.settings import Publication
from penstock.publishing.share_messages import is_share
from penstock.spec.load import load_publications
from penstock.spec.publications import Publications

Frame = Any
"""A DataFrame of Spark, or what Arrow takes for a table."""
BEFORE = "published before"
QUERY_ID = "sql.streaming.queryId"
Accepted = Literal["gap", "ledger", "target", "tail"]


def publish_once(
    frame: Frame,
    spec: Path | str,
    publication: str,
    *,
    run: str,
    accept: Collection[Accepted] = (),
    observer: Observer = UNHEARD,
) -> PublishResult:
    """Publish the rows of a DataFrame in one transaction, unless a run of this id has done so.

    Then it is not evaluated, and the result has no transaction. Raises the error that it ended
    with; whatever happened, the same call does what is left to do.
    """
    batch = run_of(run, lambda: rows_of(frame))
    return _published(_publication(spec, publication, "runs", accept), batch, observer)


def publisher(
    spec: Path | str,
    publication: str,
    *,
    query: str = "",
    accept: Collection[Accepted] = (),
    observer: Observer = UNHEARD,
) -> Callable[[Frame, int], None]:
    """Return a function for Spark's `foreachBatch`: each batch of a query is published once.

    `query` is the id of the query, which Spark tells where it calls the function itself. What is
    accepted holds until a batch was published.
    """
    given = _publication(spec, publication, "batches", accept)

    def publish(frame: Frame, number: int) -> None:
        nonlocal given
        batch = batch_of(query or query_of(frame), number, lambda: rows_of(frame))
        if _published(given, batch, observer).transactions:
            given = replace(given, own=given.own.without_consent)

    return publish


def rows_of(frame: Frame) -> pa.Table:
    """Return the rows of a DataFrame, evaluated once, on the driver."""
    return frame.toArrow() if hasattr(frame, "toArrow") else pa.table(frame)


def query_of(frame: Frame) -> str:
    """Return the id of the streaming query that a DataFrame is a batch of.

    Raises InvalidError (P863) where Spark does not tell.
    """
    session = getattr(frame, "sparkSession", None)
    found = session.sparkContext.getLocalProperty(QUERY_ID) if session is not None else None
    if not found:
        raise InvalidError(
            "this DataFrame is no batch of a streaming query",
            code="P863",
            hint="call the publisher from  foreachBatch,  or give it the id:  query=",
        )
    return str(found)


@dataclass(frozen=True, slots=True)
class _Given:
    """A publication of DataFrames, as its spec says it."""

    spec: Publications
    own: Publication
    kind: Kind


def _publication(path: Path | str, name: str, kind: Kind, accept: Collection[Accepted]) -> _Given:
    spec = load_publications(Path(path))
    (rule,) = rules_named(spec, [name])
    found = publishing.publication_of(spec, rule, accept=accept)
    if found.source.get("dataframe") != kind:
        raise InvalidError(
            f"the publication {name} is not one of DataFrames that are {kind}",
            code="P864",
            hint=f"write  from: {{ dataframe: {kind} }}  in the spec",
        )
    return _Given(spec, found, kind)


def _published(given: _Given, batch: FrameBatch, observer: Observer) -> PublishResult:
    own, source = given.own, BatchSource(given.kind, batch)
    with ExitStack() as stack:
        found = _publisher(given, source, stack, observer)
        stands = standing_record(own.name, found.environment.ports.producers.ledger).stands
        if stands.get(batch.of) == batch.place:
            found.reason = BEFORE
            return result_of(found)
        _require_next(own, source.fault(stands))
        _require_one_transaction(own, batch.rows)
        found.run(threading.Event())
    if found.error is not None:
        raise found.error
    return result_of(found)


def _publisher(
    given: _Given, source: BatchSource, stack: ExitStack, observer: Observer
) -> Publisher:
    def work(text: str) -> str:
        if is_share(text):
            return end_share_here(text, work)
        job = job_from_json(text)
        assert isinstance(job.work, Encoding), "rows are encoded"
        return result_to_json(RowWorker(job, job.work, source, tools_of(job)).work())

    engine = InlineEngine(work)
    environment = publishing.open_publishing(
        given.spec, given.own, stack, engine=engine, observer=observer, source=source
    )
    return Publisher(given.own, environment, "caught-up")


def _require_next(own: Publication, fault: str) -> None:
    """Raise DecisionNeededError (P862) where a batch does not follow what was published.

    It is looked for again after the fence (P812); here it is said in the words of a program.
    """
    if fault and not own.accept_gap:
        raise DecisionNeededError(
            f"the publication {own.name} does not go on with this batch: {fault}",
            code="P862",
            hint="if it is to be published all the same:  accept=['gap'];  a query with another"
            " checkpoint is another publication",
        )


def _require_one_transaction(own: Publication, rows: pa.Table) -> None:
    limit = own.limit
    if rows.num_rows > limit.rows_max or rows.nbytes > limit.bytes_max:
        raise InvalidError(
            f"{rows.num_rows:,} rows of {rows.nbytes:,} bytes are more than one transaction holds:"
            f" or_records {limit.rows_max:,}, or_bytes {limit.bytes_max:,}",
            code="P865",
            hint="raise these, up to what memory and the timeout allow; or write a table, and"
            " publish that",
        )
