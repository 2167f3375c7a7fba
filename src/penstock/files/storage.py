"""Opens and syncs files on a pyarrow filesystem, with its errors in our words.

Invariants:
- on a local disk a file that was synced survives a power cut together with its name: the file, its
  directory and every directory made for it are synced;
- an object store has no directories and is durable when a stream is closed: nothing is synced.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from penstock.core import table_errors
from penstock.core.commits import DataFile

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ASKED_AT_ONCE = 16


class Storage:
    """Opens new files below directories that it makes when they are missing."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem
        self._made: set[str] = set()
        self._unsynced: set[str] = set()

    def open(self, path: str) -> pa.NativeFile:
        """Open a new file for writing. Raises UnavailableError."""
        with self.translated("opened", path):
            directory = path.rpartition("/")[0]
            if directory and directory not in self._made:
                if local := _local_path(self._filesystem, directory):
                    self._unsynced |= _changed_by_making(Path(local))
                    self._filesystem.create_dir(directory, recursive=True)
                self._made.add(directory)
            return self._filesystem.open_output_stream(path)

    def sync(self, path: str) -> None:
        """Make a closed file's bytes durable; its name follows with `sync_directories`."""
        local = _local_path(self._filesystem, path)
        if local is None:
            return
        with self.translated("synced", path):
            _sync(local)
        self._unsynced.add(str(Path(local).parent))

    def sync_directories(self) -> None:
        """Make the names of all files synced so far durable."""
        for directory in sorted(self._unsynced):
            with self.translated("synced", directory):
                _sync(directory)
        self._unsynced.clear()

    def let_go(self, stream: pa.NativeFile) -> None:
        """Close the stream of an unwanted file; its errors do not matter any more."""
        with contextlib.suppress(OSError):
            stream.close()

    @contextlib.contextmanager
    def translated(self, act: str, path: str) -> Iterator[None]:
        """Turn errors of the filesystem into UnavailableError that names the path."""
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise table_errors.no_room(path) from error
            raise table_errors.storage_failed(f"the file {path}", act, str(error)) from error


def _local_path(filesystem: fs.FileSystem, path: str) -> str | None:
    """Return the path on this machine's disk, or None where the storage is elsewhere."""
    if isinstance(filesystem, fs.SubTreeFileSystem):
        return _local_path(filesystem.base_fs, filesystem.base_path + path)
    return path if isinstance(filesystem, fs.LocalFileSystem) else None


def _changed_by_making(directory: Path) -> set[str]:
    """List the directories that change when this one is made: those missing and one above."""
    changed: set[str] = set()
    while not directory.is_dir():
        changed |= {str(directory), str(directory.parent)}
        directory = directory.parent
    return changed


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def missing_paths(
    files: Sequence[DataFile], size_of: Callable[[DataFile], int | None]
) -> list[str]:
    """List the files that storage does not have with the size described; many are asked at once."""
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        sizes = list(pool.map(size_of, files))
    return [file.path for file, size in zip(files, sizes, strict=True) if size != file.size_bytes]
