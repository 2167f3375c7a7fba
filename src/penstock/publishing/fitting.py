"""Whether what a publication reads is there, and its rows become messages: asked at a start."""

from __future__ import annotations

from penstock.core.errors import UnavailableError
from penstock.core.table_errors import TABLE_MISSING
from penstock.ports.sources import Source
from penstock.publishing.record import PublicationRecord
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.stops import never_there, not_made_yet
from penstock.rows.encode.encoder import require_fit


def require_messages(publication: Publication, source: Source) -> None:
    """Raise InvalidError where no row becomes a message (P838, P839, P870 to P872)."""
    columns = source.columns()
    if publication.messages is not None and columns is not None:
        require_fit(columns, publication.messages)


def require_fitting(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> None:
    """Require it of a run: a table of which nothing was published is one that is not there.

    Raises InvalidError: P898, and as `require_messages`; UnavailableError P889 for a quarantine,
    which is made by a run. A table that was published may come back.
    """
    try:
        require_messages(publication, ports.source)
    except UnavailableError as error:
        if error.code == TABLE_MISSING and record.ledger is None:
            if publication.reads_quarantine:
                raise not_made_yet(publication) from error
            raise never_there(publication) from error
        raise
