"""What the versions of one Delta table did, from its log: a version is a snapshot.

Invariants:
- an action without `dataChange` moved no row; a removal with it took rows away, also where the file
  comes back with another deletion vector;
- versions whose entries are cleaned away cannot be told: nothing is believed of them;
- what is listed of a version is of the log that the head was read from.

Source: Delta transaction log protocol, "Add File and Remove File", "Change Data".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.connectors.delta.errors import reading, unreadable_log
from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.log.commit_file import log_of
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.read.bounds import record_count
from penstock.connectors.delta.read.file_rows import columns_of
from penstock.connectors.delta.read.live_files import Add, live_at
from penstock.connectors.delta.read.live_map import LiveMap
from penstock.connectors.delta.read.table_rows import detail_of, work_of
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.connectors.delta.vectors.descriptor import id_of, vector_of
from penstock.files import FileOptions
from penstock.ports.increments import Effect, SourceFile, StepsSince, TableHead, TableStep

_RESTORE = "RESTORE"


class DeltaIncrements:
    """Implements `ports.increments.Increments`; follows the log from head to head."""

    def __init__(self, name: str, root: StorageRoot) -> None:
        self._name, self._root = name, root
        self._following = LogTail(name, root, FileOptions())
        self._live = LiveMap(name, root)
        self._deleted = DeletedRows(root, name)
        self._steps: dict[tuple[str, int], TableStep] = {}

    def head(self) -> TableHead:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        view = self._following.view()
        files = [each.file for each in self._live.files(view).values()]
        records = sum(each.rows - each.deleted for each in files)
        return TableHead(view.form.uuid, view.version, view.version, records, view)

    def since(self, head: TableHead, snapshot: int, sequence: int) -> StepsSince:
        """List the versions behind one. Raises UnavailableError, InvalidError (P438)."""
        del sequence
        if snapshot > head.snapshot:
            return StepsSince(left=f"it ends at version {head.snapshot}, and {snapshot} was read")
        known = {}
        with reading(self._name):
            for version in range(snapshot + 1, head.snapshot + 1):
                at = head.uuid, version
                if (step := self._steps.get(at)) is None:
                    actions = self._actions(version)
                    if actions is None:
                        return StepsSince(left=f"version {version} is no longer in its log")
                    step = _step(version, actions)
                known[at] = step
        self._steps = known
        return StepsSince([*known.values()])

    def added(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        """List the files that a version added. Raises UnavailableError, InvalidError (P438)."""
        with reading(self._name):
            actions = self._actions(snapshot)
        if actions is None:
            raise unreadable_log(self._name, ValueError(f"version {snapshot} is gone"))
        adds = [each["add"] for each in actions if _changes(each.get("add"))]
        return [self._file(head, add, snapshot) for add in adds]

    def live(self, head: TableHead, snapshot: int) -> Sequence[SourceFile] | None:
        """List the files of a version; None where its log is cleaned away."""
        if snapshot == head.snapshot:
            adds: Sequence[Add] = [*self._live.adds(head.handle).values()]
        else:
            try:
                adds = [*live_at(log_of(self._root, self._name), snapshot).live.values()]
            except OSError:
                return None
            except (ValueError, KeyError, TypeError) as error:
                raise unreadable_log(self._name, error) from error
        return [self._file(head, add, snapshot) for add in adds]

    def columns(self, head: TableHead) -> pa.Schema:
        """Return the columns of the head."""
        view: LogView = head.handle
        return columns_of(view.form.target)

    def work(self, head: TableHead) -> str:
        """Return the table's target, with the columns of the head."""
        view: LogView = head.handle
        return work_of(view.form.target_text)

    def detail(self, head: TableHead, file: SourceFile) -> str:
        """Return where a file is, its partition and its deleted rows."""
        del head
        add: Add = file.handle
        return detail_of(self._root, self._name, add, self._deleted.of(add))

    def close(self) -> None:
        """Let go of nothing."""

    def _actions(self, version: int) -> list[Mapping[str, Any]] | None:
        raw = self._following.log.raw(version)
        try:
            return None if raw is None else [json.loads(each) for each in raw.splitlines() if each]
        except ValueError as error:
            raise unreadable_log(self._name, error) from error

    def _file(self, head: TableHead, add: Add, version: int) -> SourceFile:
        del head
        vector, rows = vector_of(add), record_count(add)
        if rows is None:
            rows = self._live.rows_in(place_of(self._root, self._name, add["path"]))
        return SourceFile(
            path=add["path"],
            rows=rows,
            live=rows - (0 if vector is None else vector.cardinality),
            sequence=version,
            size_bytes=int(add["size"]),
            identity=f"{add['path']} {id_of(add)}",
            written_ms=int(add.get("modificationTime") or 0),
            handle=add,
        )


def _changes(action: Mapping[str, Any] | None) -> bool:
    return action is not None and action.get("dataChange") is not False


def _step(version: int, actions: Sequence[Mapping[str, Any]]) -> TableStep:
    info: Mapping[str, Any] = next((e["commitInfo"] for e in actions if e.get("commitInfo")), {})
    operation = str(info.get("operation") or "a commit")
    if operation.upper() == _RESTORE:
        effect = Effect.RESTORED
    elif any(_changes(each.get("remove")) for each in actions):
        effect = Effect.REMOVED
    elif any(_changes(each.get("add")) for each in actions):
        effect = Effect.APPENDED
    else:
        moves = any(not {"add", "remove"}.isdisjoint(each) for each in actions)
        effect = Effect.KEPT if moves else Effect.NONE
    return TableStep(version, version, effect, operation)
