"""Reads the history of a chain for the audit, from the log entries that still exist."""

from __future__ import annotations

from collections.abc import Iterable

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.reader import Entry, Log
from penstock.connectors.delta.read.doubled_rows import doubled_rows
from penstock.connectors.delta.read.live_files import Overlooking
from penstock.core.commits import Chain
from penstock.ports.histories import CommitRecord, CommitsBehind, History


def history_of(
    log: Log, handle: Handle, chain: Chain, overlooked: Iterable[Overlooking]
) -> History:
    """Return the chain's commits up to a version, and the files that are live in it.

    Raises OSError, ValueError.
    """
    newest = int(handle.version())
    paths = handle.file_uris()
    versions = [version for version in log.versions() if version <= newest]
    entries = [entry for version in versions if (entry := log.entry(version))]
    is_complete = versions == list(range(len(versions)))
    return History(
        commits=_commits(entries, chain),
        complete=is_complete,
        paths=[path.removeprefix("file://") for path in paths],
        foreign_commits=sum(not entry.marks for entry in entries),
        began=ledger.began(entries, chain) if is_complete else {},
        doubled=[*doubled_rows(log, overlooked)],
    )


def commits_behind(log: Log, newest: int, chain: Chain, behind: str) -> CommitsBehind:
    """Return the chain's commits behind a version up to another, "" for all that are listed.

    Raises OSError.
    """
    entries = [*log.entries(range(int(behind) + 1 if behind else 0, newest + 1))]
    follows = not behind or (int(behind) <= newest and None not in entries)
    return CommitsBehind(_commits(filter(None, entries), chain), follows)


def _commits(entries: Iterable[Entry], chain: Chain) -> list[CommitRecord]:
    return [
        ledger.record_of(entry, mark)
        for entry in entries
        if (mark := entry.mark(chain.name)) and mark["kind"] not in ledger.NO_COMMITS
    ]
