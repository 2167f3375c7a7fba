"""Reads the history of a chain for the audit, from the log entries that still exist."""

from __future__ import annotations

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.reader import Log
from penstock.core.commits import Chain
from penstock.ports.tables import History


def history_of(log: Log, handle: Handle, chain: Chain) -> History:
    """Return the chain's commits up to a version, and the files that are live in it.

    Raises OSError, ValueError.
    """
    newest = int(handle.version())
    paths = handle.file_uris()
    versions = [version for version in log.versions() if version <= newest]
    entries = [entry for version in versions if (entry := log.entry(version))]
    is_complete = versions == list(range(len(versions)))
    return History(
        commits=[
            ledger.record_of(entry, mark)
            for entry in entries
            if (mark := entry.mark(chain.name)) and mark["kind"] not in ledger.NO_COMMITS
        ],
        complete=is_complete,
        paths=[path.removeprefix("file://") for path in paths],
        foreign_commits=sum(not entry.marks for entry in entries),
        began=ledger.began(entries, chain) if is_complete else {},
    )
