"""Puts one entry into a table's log, a whole commit, where none is yet; fetches files of a log.

The library can commit too, but reads the table's whole list of files again after each commit, so
that commits get dearer with every file (docs/design/0012).

Invariants:
- an entry is there whole or not at all, and never takes another's place: the storage is asked to
  create it, and says so when something is there already;
- whoever puts an entry has examined exactly the version before it: nothing is rebased;
- only what `features.py` lets pass is written to, so these few actions are all that is asked.

Source: Delta transaction log protocol, "Actions", "Commit Provenance Information".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.delta.errors import refused
from penstock.connectors.delta.files.file_metadata import Addition
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.ledger import commit_info
from penstock.connectors.delta.log.reader import Fetch
from penstock.core import table_errors
from penstock.core.version import __version__
from penstock.files import objects
from penstock.files.errors import told


@dataclass(frozen=True, slots=True)
class Removal:
    """A live file that a commit takes away, by the path that its `add` has.

    `whole` tells that it has no partition values, so that all there is to say of it is said.
    """

    path: str
    size_bytes: int
    whole: bool


@dataclass(frozen=True, slots=True)
class CommitActions:
    """What a commit says besides its files: `txn` actions, and our words on it (ledger.py)."""

    transactions: Mapping[str, int]
    mark: Mapping[str, Any]


def entry_of(
    words: CommitActions, added: Sequence[Addition], removed: Sequence[Removal] = ()
) -> bytes:
    """Write the lines of an entry: what was done first, as readers expect, then its actions."""
    now_ms = time.time_ns() // 1_000_000
    actions = [
        {"commitInfo": _info(words.mark, added, removed, now_ms)},
        *(
            {"txn": {"appId": app_id, "version": version}}
            for app_id, version in words.transactions.items()
        ),
        *({"remove": _remove(each, now_ms)} for each in removed),
        *({"add": _add(each)} for each in added),
    ]
    lines = [json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in actions]
    return ("\n".join(lines) + "\n").encode()


def put_if_absent(root: StorageRoot, name: str, version: int, body: bytes) -> bool:
    """Put an entry as a version of a table; false when that version was taken.

    The storage may have asked twice by itself, so the version may have been taken by this entry.
    Raises InvalidError (P431) and UnavailableError (P480) when nothing was written,
    OutcomeUnknownError (P433).
    """
    file = f"_delta_log/{version:020d}.json"
    try:
        objects.put(root.location(name), root.settings, file, body, "create")
    except FileExistsError:
        return False
    except PermissionError as error:
        raise refused(name, told(error)) from error
    except OSError as error:
        raise table_errors.in_doubt(name, told(error)) from error
    return True


def fetcher(root: StorageRoot, name: str) -> Fetch | None:
    """Return a reader of a table's log files, a request each; None on a local disk."""
    if root.is_local:
        return None

    def fetch(file: str) -> bytes | None:
        try:
            return objects.fetch(root.location(name), root.settings, f"_delta_log/{file}")
        except FileNotFoundError:
            return None

    return fetch


def _info(
    mark: Mapping[str, Any], added: Sequence[Addition], removed: Sequence[Removal], now_ms: int
) -> dict[str, Any]:
    """Return the commit info that Spark's streaming writer adds, and our own."""
    return {
        "timestamp": now_ms,
        "operation": "STREAMING UPDATE",
        "operationParameters": {
            "outputMode": "Append",
            "queryId": mark["chain"],
            "epochId": str(mark["epoch"]),
        },
        "operationMetrics": {
            "numAddedFiles": str(len(added)),
            "numRemovedFiles": str(len(removed)),
            "numOutputRows": str(mark["rows"]),
            "numOutputBytes": str(sum(each.size_bytes for each in added)),
        },
        "isBlindAppend": not removed,
        "engineInfo": f"Penstock/{__version__}",
        **commit_info([mark]),
    }


def _remove(removed: Removal, now_ms: int) -> dict[str, Any]:
    told = {"path": removed.path, "deletionTimestamp": now_ms, "dataChange": True}
    if not removed.whole:
        return told
    more = {"extendedFileMetadata": True, "partitionValues": {}, "size": removed.size_bytes}
    return {**told, **more}


def _add(added: Addition) -> dict[str, Any]:
    return {
        "path": added.path,
        "partitionValues": dict(added.partition),
        "size": added.size_bytes,
        "modificationTime": added.modified_ms,
        "dataChange": True,
        "stats": added.statistics,
    }
