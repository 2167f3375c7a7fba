"""The files below a table's directories, and notes next to them, on a pyarrow filesystem."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyarrow import fs

from penstock.core import table_errors
from penstock.core.sweeps import StoredObject

NOTES = "_penstock"
"""The directory of notes: readers pass over names that begin so, and so do sweeps of others."""


@dataclass(frozen=True, slots=True)
class DirectoryStorage:
    """Implements `ports.upkeep.TableStorage`; `location` is the table's own directory.

    A directory that lies in another one of `directories` is listed once. `of_others` tells by a
    path that another table's files are there.
    """

    name: str
    filesystem: fs.FileSystem = field(repr=False)
    location: str
    directories: tuple[str, ...]
    of_others: Callable[[str], bool]

    def listed(self) -> Iterator[StoredObject]:
        """List all files. Raises InvalidError (P891), UnavailableError."""
        for each in sorted({*self.directories}):
            if not any(each.startswith(f"{other}/") for other in self.directories):
                yield from self._below(each)

    def delete(self, path: str) -> bool:
        """Delete a file; return whether it was there. Raises UnavailableError."""
        try:
            self.filesystem.delete_file(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise table_errors.storage_failed(path, "deleted", str(error)) from error
        return True

    def read_notes(self, pipeline: str) -> str:
        """Return the notes of a pipeline, "" for none. Raises UnavailableError."""
        path = self._notes(pipeline)
        try:
            with self.filesystem.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise table_errors.storage_failed(path, "read", str(error)) from error

    def write_notes(self, pipeline: str, text: str) -> int:
        """Write the notes of a pipeline; return the time by the storage's own clock."""
        path = self._notes(pipeline)
        beside = f"{path}.new"
        try:
            if isinstance(self.filesystem, fs.LocalFileSystem):
                self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
                self._write(beside, text)
                self.filesystem.move(beside, path)
            else:
                self._write(path, text)
            (info,) = self.filesystem.get_file_info([path])
        except OSError as error:
            raise table_errors.storage_failed(path, "written", str(error)) from error
        return _ms(info)

    def _below(self, directory: str) -> Iterator[StoredObject]:
        selector = fs.FileSelector(directory, allow_not_found=True, recursive=True)
        try:
            found = self.filesystem.get_file_info(selector)
        except OSError as error:
            raise table_errors.storage_failed(directory, "listed", str(error)) from error
        for info in found:
            if info.type == fs.FileType.File:
                if self.of_others(info.path):
                    raise table_errors.shared_location(self.name, info.path)
                yield StoredObject(info.path, info.size, _ms(info))

    def _write(self, path: str, text: str) -> None:
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(text.encode())

    def _notes(self, pipeline: str) -> str:
        return f"{self.location}/{NOTES}/unnamed-{pipeline}.json"


def _ms(info: fs.FileInfo) -> int:
    with contextlib.suppress(TypeError):
        return int(info.mtime_ns) // 1_000_000
    return 0
