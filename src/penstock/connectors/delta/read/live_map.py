"""Follows the live files of one table, from version to version, for row lookups.

To read them all costs as much as the table has files; what changed is in the later entries.

Invariants:
- a result is of exactly the view's version, of the log that the view was read from;
- a path is live once: with two deletion vectors, or under two spellings, nothing could decide which
  rows count;
- what was read of a file's footer is kept with it: a file never changes;
- the files of a view are listed once, however many of them are read one after another.

Threads share no lock: what is held is a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow.parquet as pq

from penstock.connectors.delta.errors import reading, reading_file, unreadable_log
from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.log.commit_file import log_of
from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.log.tail import LogView
from penstock.connectors.delta.read.bounds import bounds_of, record_count
from penstock.connectors.delta.read.live_files import (
    Add,
    Live,
    LiveFiles,
    Overlooking,
    carried_on,
    live_at,
)
from penstock.connectors.delta.vectors.descriptor import vector_of
from penstock.core import table_errors
from penstock.ports.row_deletes import LiveFile


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A live file: as the log says, by its `add`, and as the port does."""

    add: Add = field(repr=False)
    file: LiveFile


@dataclass(frozen=True, slots=True)
class _Held:
    opened: object
    version: int
    found: LiveFiles
    known: Mapping[tuple[str, str], KnownFile]
    by_path: Mapping[str, KnownFile] | None = None


class LiveMap:
    """The live files of one table, read from its log with the credentials of now."""

    def __init__(self, name: str, root: StorageRoot) -> None:
        self._name, self._root = name, root
        self._held: _Held | None = None

    def adds(self, view: LogView) -> Live:
        """Return what the log says of the files that are live in a view.

        Raises UnavailableError (P402, P430), InvalidError (P438).
        """
        return self._at(view).found.live

    def overlooked(self, view: LogView) -> Sequence[Overlooking]:
        """Return which versions since a checkpoint removed files that were gone.

        Raises as `adds`.
        """
        return self._at(view).found.overlooked

    def files(self, view: LogView) -> Mapping[str, KnownFile]:
        """Return the files that are live in a view, by path, as a commit names it.

        The footer of a file is read when the log does not count its rows. Raises UnavailableError,
        InvalidError (P436 in another storage, P438).
        """
        held = self._at(view)
        if held.by_path is not None:
            return held.by_path
        known = {
            key: held.known.get(key) or self._known(view, add)
            for key, add in held.found.live.items()
        }
        found = {each.file.path: each for each in known.values()}
        if len(found) != len(known):
            self._require_once(each.file.path for each in known.values())
        self._held = replace(held, known=known, by_path=found)
        return found

    def counted(self, view: LogView) -> Sequence[KnownFile]:
        """Return the files that are live in a view, without what the log says of their columns:
        that takes most of the time. Raises as `files`.
        """
        found = [self._counted(add) for add in self._at(view).found.live.values()]
        self._require_once(each.file.path for each in found)
        return found

    def by_path(self, view: LogView) -> Mapping[str, Add]:
        """Return the `add` actions of a view by the paths of their files. Raises as `files`."""
        return {each.file.path: each.add for each in self.counted(view)}

    def _at(self, view: LogView) -> _Held:
        log, held = log_of(self._root, self._name), self._held
        if held is not None and (held.opened, held.version) == (view.opened, view.version):
            return held
        goes_on = held is not None and held.opened is view.opened and held.version < view.version
        try:
            with reading(self._name):
                now = _live_after(log, held if goes_on else None, view.version)
                head_entry = log.raw(view.version)
        except (ValueError, KeyError, TypeError) as error:
            raise unreadable_log(self._name, error) from error
        if view.head_entry is not None and head_entry not in {None, view.head_entry}:
            raise table_errors.missing(self._name)
        former = held.known if held is not None and held.opened is view.opened else {}
        known = {key: former[key] for key in now.live.keys() & former.keys()}
        found = _Held(view.opened, view.version, now, known)
        if held is None or held.opened is not view.opened or goes_on:
            self._held = found
        return found

    def _require_once(self, paths: Iterable[str]) -> None:
        """Raise InvalidError (P438) where a path is live twice."""
        for twice, times in Counter(paths).most_common(1):
            if times > 1:
                raise unreadable_log(self._name, ValueError(f"{twice} is live twice"))

    def _counted(self, add: Add) -> KnownFile:
        place = place_of(self._root, self._name, add["path"])
        try:
            rows, vector = record_count(add), vector_of(add)
        except ValueError as error:
            raise unreadable_log(self._name, error) from error
        file = LiveFile(
            path=self._root.address(place),
            rows=self.rows_in(place) if rows is None else rows,
            size_bytes=int(add["size"]),
            deleted=0 if vector is None else vector.cardinality,
            delete_state="" if vector is None else vector.unique_id,
        )
        return KnownFile(add, file)

    def _known(self, view: LogView, add: Add) -> KnownFile:
        counted = self._counted(add)
        try:
            bounds, nulls = bounds_of(add, view.form)
        except ValueError as error:
            raise unreadable_log(self._name, error) from error
        return KnownFile(add, replace(counted.file, bounds=bounds, nulls=nulls))

    def rows_in(self, place: str) -> int:
        """Count the rows that were written into a file, by its footer. Raises UnavailableError."""
        with reading_file(self._name), self._root.filesystem().open_input_file(place) as file:
            return int(pq.read_metadata(file).num_rows)


def _live_after(log: Log, held: _Held | None, version: int) -> LiveFiles:
    """Carry on what is held; read all where nothing is, or where log clean-up has removed entries
    in between.
    """
    if held is not None:
        with suppress(OSError):
            return carried_on(log, held.found, held.version, version)
    return live_at(log, version)
