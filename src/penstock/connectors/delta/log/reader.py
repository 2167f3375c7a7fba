"""Reads a table's transaction log entry by entry: what each version did, and to whom.

The library reports neither which `txn` ids exist nor what a RESTORE removed, so entries are read
themselves. Lines that add files are skipped: there may be thousands, and nothing here needs them.

Invariants:
- a missing entry is None, never guessed: log clean-up removes old ones;
- everything foreign in an entry is read by key with a default: others' writers leave things out;
- the time of a version is its in-commit timestamp where it has one, else what its writer said.

Source: Delta transaction log protocol, "Delta Log Entries", "Checkpoints", "Commit Provenance",
"Action Reconciliation", "In-Commit Timestamps".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.files.storage_settings import path_in

MARK_KEY = "penstock"

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\..+)?\.(parquet|json)")
_PART = re.compile(r"\.(\d{10})\.(\d{10})\.parquet$")
_ADDS = b'{"add"'
_HINT = "_last_checkpoint"
_LISTED_FROM = 64
_ASKED_AT_ONCE = 16
_READ_AHEAD = 256
_RESHAPING = {"metaData", "protocol"}
ROW_TRACKING = "delta.rowTracking"
"""The domain that moves with every entry that adds rows, and says nothing of a table's form."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The changes of one version of a table."""

    version: int
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, Any]
    removed: int
    """The number of files that it removed together with their rows (`dataChange`)."""
    transactions: Mapping[str, int]
    marks: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Our records in the commit info, one for each chain it is about."""
    domains: Mapping[str, str | None] = field(default_factory=dict)
    """The metadata domains that it sets; None for one that it removes."""
    in_commit_ms: int | None = None
    engine: str = ""
    """How its writer named itself."""
    reshapes: bool = False
    """Whether it may change the table's id, columns, partitioning, clustering, properties or
    protocol."""

    def mark(self, chain: str) -> Mapping[str, Any] | None:
        """Find our words on a chain."""
        return next((mark for mark in self.marks if mark.get("chain") == chain), None)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What later entries replace one by one: transactions and metadata domains at a version."""

    transactions: Mapping[str, int]
    domains: Mapping[str, str]

    def after(self, entries: Iterable[Entry]) -> Reconciled:
        """Return it as it is after entries."""
        transactions = dict(self.transactions)
        domains: dict[str, str | None] = dict(self.domains)
        for each in entries:
            transactions |= each.transactions
            domains |= each.domains
        return Reconciled(transactions, {k: v for k, v in domains.items() if v is not None})


Fetch = Callable[[str], bytes | None]
"""Reads a whole file of a log by its name, None when it is not there. Raises OSError."""


class Log:
    """Reads the log of one table. Raises OSError of its storage.

    Where an answer takes long, `fetch` reads a file in one request, and files are asked for
    together; without it they are opened, one after the other.
    """

    def __init__(
        self, filesystem: fs.FileSystem, location: str, fetch: Fetch | None = None
    ) -> None:
        self._filesystem = filesystem
        self._directory = f"{path_in(location)}/_delta_log"
        self._fetch = fetch

    def path(self, version: int) -> str:
        """Name the file of an entry."""
        return f"{self._directory}/{version:020d}.json"

    def raw(self, version: int) -> bytes | None:
        """Read an entry's bytes; None when it is not there."""
        return self._read(f"{version:020d}.json")

    def read_with_checkpoint(self, *versions: int) -> tuple[list[bytes | None], int]:
        """Read entries, and which version was checkpointed last: all at once, in no order."""
        if self._fetch is None:
            return [self.raw(version) for version in versions], self.checkpointed()
        with ThreadPoolExecutor(len(versions) + 1) as pool:
            checkpointed = pool.submit(self.checkpointed)
            return list(pool.map(self.raw, versions)), checkpointed.result()

    def entry(self, version: int) -> Entry | None:
        """Read an entry; None when it is not there."""
        raw = self.raw(version)
        return None if raw is None else parsed(version, raw)

    def entries(self, versions: range) -> Iterator[Entry | None]:
        """Read entries in their order, None for each that is not there.

        Of many it is listed first which exist: one that log clean-up removed costs no request.
        """
        there = versions if len(versions) <= _LISTED_FROM else frozenset(self.versions())

        def read(version: int) -> Entry | None:
            return self.entry(version) if version in there else None

        if self._fetch is None:
            yield from map(read, versions)
            return
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            for first in range(0, len(versions), _READ_AHEAD):
                yield from pool.map(read, versions[first : first + _READ_AHEAD])

    def names(self) -> list[str]:
        """List the files of the log; empty when there is no log."""
        return [each.base_name for each in self._infos()]

    def bytes_at(self, head: int) -> int:
        """Sum up the files that a version is read from: a checkpoint and the entries after it.

        Sidecars of a checkpoint are left out.
        """
        base, parts = self.checkpoint(head)
        entries = {self.path(version).rpartition("/")[2] for version in range(base + 1, head + 1)}
        wanted = {*parts, *entries}
        return sum(each.size for each in self._infos() if each.base_name in wanted)

    def _infos(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._directory, allow_not_found=True)
        try:
            return list(self._filesystem.get_file_info(selector))
        except FileNotFoundError:  # a creator that lost its race removes its folder meanwhile
            return []

    def is_there(self) -> bool:
        """Return whether a table's log is here."""
        return any(_ENTRY.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in self.names())

    def versions(self) -> list[int]:
        """List the versions with entries that can be read, ascending."""
        found = (_ENTRY.fullmatch(name) for name in self.names())
        return sorted(int(each[1]) for each in found if each)

    def checkpointed(self) -> int:
        """Return the version of the checkpoint written last, -1 when there is none.

        Where the hint at it is damaged, all checkpoints are listed.
        """
        hint = self._read(_HINT)
        try:
            return -1 if hint is None else int(json.loads(hint)["version"])
        except (ValueError, KeyError, TypeError):
            return max((int(each[1]) for each in self._checkpoints()), default=-1)

    def reconciled(self, head: int) -> Reconciled:
        """Collect transactions and domains at a version, from a checkpoint and later entries.

        Raises OSError when one of them is missing: half of them would show an older table.
        """
        base, parts = self.checkpoint(head)
        later = range(base + 1, head + 1)
        found = [self._reconciled_in(part) for part in parts]
        for version, entry in zip(later, self.entries(later), strict=True):
            if entry is None:
                raise OSError(f"version {version} of the log is missing")
            found.append(entry)
        return Reconciled({}, {}).after(found)

    def checkpoint(self, head: int) -> tuple[int, list[str]]:
        """Name the newest checkpoint at or below a version that is there with all its parts.

        The version is -1 where there is none.
        """
        by_version: dict[int, list[str]] = {}
        for each in self._checkpoints():
            by_version.setdefault(int(each[1]), []).append(each[0])
        for version in sorted(by_version, reverse=True):
            if version <= head and (whole := _whole(by_version[version])):
                return version, whole
        return -1, []

    def opened(self, name: str) -> pa.NativeFile:
        """Open a file of the log by its name."""
        return self._filesystem.open_input_file(f"{self._directory}/{name}")

    def _read(self, name: str) -> bytes | None:
        if self._fetch is not None:
            return self._fetch(name)
        try:
            with self.opened(name) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def _checkpoints(self) -> list[re.Match[str]]:
        return [each for name in self.names() if (each := _CHECKPOINT.fullmatch(name))]

    def _reconciled_in(self, name: str) -> Entry:
        with self.opened(name) as file:
            if name.endswith(".json"):
                return parsed(0, file.read())
            table = pq.ParquetFile(file).read(columns=["txn", "domainMetadata"])
        held = ({k: v} for k in table.column_names for v in table[k].drop_null().to_pylist())
        return _entry_of(0, held)


def _whole(parts: Sequence[str]) -> list[str]:
    # A checkpoint has parts, or is one file; a torn one is none.
    numbered = [each for name in parts if (each := _PART.search(name))]
    for each in numbered:
        same = [other[0] for other in numbered if other[2] == each[2]]
        if len(same) == int(each[2]):
            return [name for name in parts if name.endswith(tuple(same))]
    return [name for name in parts if not _PART.search(name)][:1]


def parsed(version: int, raw: bytes) -> Entry:
    """Read an entry's lines but for those that add files. Raises ValueError when damaged."""
    lines = (line for line in raw.splitlines() if line and not line.startswith(_ADDS))
    return _entry_of(version, map(json.loads, lines))


def _entry_of(version: int, actions: Iterable[Mapping[str, Any]]) -> Entry:
    info: Mapping[str, Any] = {}
    removed = 0
    transactions: dict[str, int] = {}
    domains: dict[str, str | None] = {}
    reshapes = False
    for action in actions:
        info = action.get("commitInfo") or info
        reshapes = reshapes or not _RESHAPING.isdisjoint(action)
        removed += bool((action.get("remove") or {}).get("dataChange"))
        if transaction := action.get("txn"):
            transactions[transaction["appId"]] = transaction["version"]
        if domain := action.get("domainMetadata"):
            configuration = None if domain.get("removed") else domain["configuration"]
            domains[domain["domain"]] = configuration
    in_commit_ms = info.get("inCommitTimestamp")
    ours = info.get(MARK_KEY)
    chains = ours.get("chains") if isinstance(ours, dict) else None
    return Entry(
        version=version,
        timestamp_ms=int(in_commit_ms or info.get("timestamp") or 0),
        operation=str(info.get("operation") or "").upper(),
        parameters=info.get("operationParameters") or {},
        removed=removed,
        transactions=transactions,
        marks=tuple(each for each in chains or () if isinstance(each, dict)),
        domains=domains,
        in_commit_ms=in_commit_ms,
        engine=str(info.get("engineInfo") or ""),
        reshapes=reshapes or not domains.keys() <= {ROW_TRACKING},
    )
