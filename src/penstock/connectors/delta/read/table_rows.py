"""Reads files of a table on a worker, as the driver listed them; opens no log."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.connectors.delta.files.file_metadata import additions
from penstock.connectors.delta.files.target import Target, target_from_json
from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.read.file_rows import rows_in
from penstock.connectors.delta.read.row_ids import identity_of, inherited_by
from penstock.core.commits import DataFile
from penstock.core.table_errors import file_missing, storage_failed, unreadable
from penstock.files.errors import first_line
from penstock.files.filesystems import CREDENTIALS, filesystem_of
from penstock.files.positions import Positions, packed, unpacked
from penstock.files.storage_settings import path_in, resolved
from penstock.ports.runtime import Secrets


def work_of(target: str, row_ids: Sequence[str] = ()) -> str:
    """Write what files of a table are read with, by its target; columns of row ids are read behind
    its own.
    """
    return json.dumps([target, [*row_ids]])


def detail_of(root: StorageRoot, name: str, add: Mapping[str, Any], deleted: Positions) -> str:
    """Write where a file is, its partition, its deleted rows and the ids of its rows.

    Raises InvalidError (P436).
    """
    said = {"partitionValues": dict(add.get("partitionValues") or {}), **identity_of(add)}
    return json.dumps([place_of(root, name, add["path"]), said, packed(deleted)])


class DeltaFileRows:
    """Implements `ports.increments.FileRows`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def read(self, work: str, detail: str, *, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield all columns of a file's live rows, those of row ids if asked for, and positions.

        Raises UnavailableError (P403, P481), InvalidError (P438).
        """
        target, row_ids = _read(work)
        place, add, deleted = json.loads(detail)
        storage = filesystem_of(
            target.location, resolved(target.storage, CREDENTIALS, self._secrets)
        )
        columns, ids = [*target.schema.names, *row_ids], inherited_by(add, row_ids)
        try:
            with storage.open_input_file(place) as file:
                gone = unpacked(deleted)
                yield from rows_in(
                    file, target, add, columns, inherited=ids, deleted=gone, start=start
                )
        except FileNotFoundError as error:
            raise file_missing(target.table, first_line(error)) from error
        except pa.ArrowException as error:
            raise unreadable(f"a file of {target.table}", first_line(error)) from error
        except OSError as error:
            raise storage_failed(f"a file of {target.table}", "read", first_line(error)) from error

    def written(self, work: str, file: DataFile) -> str:
        """Return how a file that was written for the table is read. Raises InvalidError (P439)."""
        target, _ = _read(work)
        [add] = additions([file], target)
        place = f"{path_in(target.location)}/{file.path.rpartition('/')[2]}"
        return json.dumps([place, {"partitionValues": add["partitionValues"]}, ""])


@functools.lru_cache(maxsize=16)
def _read(work: str) -> tuple[Target, Sequence[str]]:
    target, row_ids = json.loads(work)
    return target_from_json(target), row_ids
