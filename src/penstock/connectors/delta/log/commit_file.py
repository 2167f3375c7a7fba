"""Makes one entry, a whole commit, and puts it where none is yet; fetches files of a log.

The library can commit too, but reads the table's whole list of files again after each commit, so
that commits get dearer with every file (docs/design/0012).

Invariants:
- an entry exists whole or not at all, and never replaces another: the storage is asked to create
  it, and reports an existing one;
- an entry is put only after exactly the version before it was examined: nothing is rebased;
- only what `features.py` lets pass is written to, so these few actions, and what `demands.py` adds
  to them, are all that is asked.

Source: Delta transaction log protocol, "Actions", "Commit Provenance Information".
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.connectors.delta.errors import refused
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.ledger import commit_info
from penstock.connectors.delta.log.reader import Log
from penstock.core import table_errors
from penstock.core.version import __version__
from penstock.files import objects
from penstock.files.errors import first_line


def entry_of(
    transactions: Mapping[str, int],
    mark: Mapping[str, Any],
    added: Sequence[Mapping[str, Any]],
    removed: Sequence[Mapping[str, Any]],
    operation: Mapping[str, Any] | None = None,
    *,
    beside: Sequence[tuple[Mapping[str, int], Mapping[str, Any]]] = (),
) -> list[Mapping[str, Any]]:
    """Return the actions of an entry: what was done first, as readers expect, then the others.

    `mark` are our words on the commit (ledger.py), `added` and `removed` its `add` and `remove`;
    without an `operation` it is one of a stream that appends. `beside` are transactions and words
    on chains that the commit begins as well.
    """
    done = operation or streamed(mark, added, removed)
    every = dict(transactions)
    for theirs, _ in beside:
        every |= theirs
    return entry_with(every, [mark, *(each for _, each in beside)], added, removed, done)


def entry_with(
    transactions: Mapping[str, int],
    marks: Sequence[Mapping[str, Any]],
    added: Sequence[Mapping[str, Any]],
    removed: Sequence[Mapping[str, Any]],
    operation: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """Return the actions of an entry with our words on several chains."""
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        **operation,
        "engineInfo": f"Penstock/{__version__}",
        **commit_info(marks),
    }
    return [
        {"commitInfo": info},
        *({"txn": {"appId": app_id, "version": each}} for app_id, each in transactions.items()),
        *({"remove": each} for each in removed),
        *({"add": each} for each in added),
    ]


def lines_of(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Write an entry, an action a line."""
    lines = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in actions)
    return "".join(f"{line}\n" for line in lines).encode()


def streamed(
    mark: Mapping[str, Any],
    added: Sequence[Mapping[str, Any]],
    removed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Describe an operation as Spark's streaming writer does."""
    return {
        "operation": "STREAMING UPDATE",
        "operationParameters": {"outputMode": "Append", **_written_by(mark)},
        "operationMetrics": {
            "numAddedFiles": str(len(added)),
            "numRemovedFiles": str(len(removed)),
            "numOutputRows": str(mark["rows"]),
            "numOutputBytes": str(sum(each["size"] for each in added)),
        },
        "isBlindAppend": not removed,
    }


def optimized(
    added: Sequence[Mapping[str, Any]], removed: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Describe an operation as Spark's OPTIMIZE does."""
    metrics = {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(each["size"] for each in added),
        "numRemovedBytes": sum(each["size"] for each in removed),
    }
    return {
        "operation": "OPTIMIZE",
        "operationParameters": {"predicate": "[]", "zOrderBy": "[]"},
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "isBlindAppend": False,
    }


def merged(
    mark: Mapping[str, Any],
    *,
    inserted: int,
    deleted: int,
    copied: int,
    files: tuple[int, int],
    vectors: int,
) -> dict[str, Any]:
    """Describe an operation as Spark's MERGE does: rows, files added and removed, vectors added."""
    metrics = {
        "numOutputRows": inserted + copied,
        "numTargetRowsCopied": copied,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": 0,
        "numTargetRowsDeleted": deleted,
        "numTargetFilesAdded": files[0],
        "numTargetFilesRemoved": files[1],
        "numTargetDeletionVectorsAdded": vectors,
    }
    return {
        "operation": "MERGE",
        "operationParameters": _written_by(mark),
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "isBlindAppend": False,
    }


def _written_by(mark: Mapping[str, Any]) -> dict[str, str]:
    return {"queryId": mark["chain"], "epochId": str(mark["epoch"])}


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
        raise refused(name, first_line(error)) from error
    except OSError as error:
        raise table_errors.in_doubt(name, first_line(error)) from error
    return True


def log_of(root: StorageRoot, name: str) -> Log:
    """Return a table's log; its files take a request each, but for those on a local disk."""

    def fetch(file: str) -> bytes | None:
        try:
            return objects.fetch(root.location(name), root.settings, f"_delta_log/{file}")
        except FileNotFoundError:
            return None

    return Log(root.filesystem(), root.location(name), None if root.is_local else fetch)
