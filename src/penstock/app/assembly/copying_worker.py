"""What an executor calls for maintenance: one job in, one result out, both JSON text."""

from __future__ import annotations

from functools import cache

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.assembly.worker import writer
from penstock.commit.copying import copied, job_from_json, result_to_json
from penstock.core.errors import InvalidError
from penstock.ports.connectors import TableConnector
from penstock.ports.increments import FileRows
from penstock.spec.secrets import ProcessSecrets


def work(text: str) -> str:
    """Do one job. Raises a PenstockError that it ends with."""
    job = job_from_json(text)
    observer = observer_for(from_environment())
    groups = copied(job, writer(job.connector), _file_rows(job.connector), observer)
    return result_to_json(groups, job.places_max)


@cache
def _file_rows(name: str) -> FileRows:
    """Return what reads files of a connector's tables, with the secrets of this process."""
    opening = connector_of(TableConnector, name).open_file_rows
    if opening is None:
        raise InvalidError(
            f"The connector {name!r} reads no files of tables on workers: nothing can be written "
            "again.",
            code="P849",
            hint="give it an open_file_rows, or maintain its tables with another tool",
        )
    return opening(ProcessSecrets())
