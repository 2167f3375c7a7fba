"""Finds out whether described files are on storage."""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import fs

from penstock.connectors.delta.files.file_metadata import relative
from penstock.connectors.delta.locations import StorageRoot
from penstock.core.commits import DataFile
from penstock.files.storage import missing_paths
from penstock.files.storage_settings import path_in


def missing_in(root: StorageRoot, location: str, files: Sequence[DataFile]) -> Sequence[str]:
    """List the paths that are not in a table's directory with the size described.

    Raises OSError.
    """
    storage = root.filesystem()

    def size(file: DataFile) -> int | None:
        if not relative(file.path, location):
            return None
        (info,) = storage.get_file_info([path_in(file.path)])
        return info.size if info.type is fs.FileType.File else None

    return missing_paths(files, size)
