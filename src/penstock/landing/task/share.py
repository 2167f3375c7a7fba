"""The second stage of an exchange: a task writes its share of a table's rows to the table's files.

What it reads is the driver's choice alone; run twice, it reads the same bytes, and writes files of
other names, of which one run's are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.core.commits import DataFile
from penstock.core.errors import PenstockError
from penstock.core.exchange import Share, ranges_of
from penstock.landing.foreign_errors import WRITE, converting, ranges_text
from penstock.landing.task.messages import WriteTarget
from penstock.ports.exchange import Exchange, Exchanges
from penstock.ports.runtime import Observer
from penstock.ports.writers import WriterFactory


@dataclass(frozen=True, slots=True)
class ShareJob:
    """The work of one task: to write its share of one table's rows."""

    number: int
    prefix: str
    table: str
    write_target: WriteTarget
    share: Share
    crash_plan: str = ""


@dataclass(frozen=True, slots=True)
class ShareResult:
    """The files of a share, or the error for which there are none."""

    number: int
    files: tuple[DataFile, ...] = ()
    error: PenstockError | None = None


def exchange_of(target: WriteTarget, exchanges: Exchanges, observer: Observer) -> Exchange | None:
    """Open the exchange of a table's rows; None where they are not exchanged."""
    opened = exchanges(target.connector)
    if opened is None:
        return None
    return opened(target.target, target.placing.distribution, observer=observer)


def write_share(
    job: ShareJob, open_writer: WriterFactory, exchanges: Exchanges, observer: Observer
) -> ShareResult:
    """Write a share. Raises what writers raise, UnavailableError (P481) where an exchange file is
    not there, or not as it was written, and BugError (P486); then files may be left over.
    """
    target, ranges = job.write_target, ranges_of(job.share)
    exchange = exchange_of(target, exchanges, observer)
    assert exchange is not None, "what was exchanged can be read again"
    with converting(job.table, WRITE, ranges_text(ranges)):
        writer = open_writer(
            target.target, prefix=job.prefix, observer=observer, placing=target.placing
        )
        for rows in exchange.read(job.share):
            writer.write(rows)
        files = writer.close()
    return ShareResult(job.number, tuple(replace(file, ranges=ranges) for file in files))
