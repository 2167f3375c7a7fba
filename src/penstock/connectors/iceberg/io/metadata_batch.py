"""The metadata files of one commit: made in memory first, then written side by side.

A commit names a manifest by its length and a list by its path, and needs neither to be there before
the request that names them all. Written one after another they take an answer of the storage each;
side by side, one for all (docs/design/0292-two-answers-a-commit.md).

Invariants:
- nothing is written before `write`, and all of it is durable when that returns;
- where it raises, some may be there: they are named by nothing, and stay;
- one file, or a storage that is no object store, is written in the order it was made.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from pyiceberg.io import FileIO, InputFile, OutputFile, OutputStream

from penstock.connectors.iceberg.io.s3_file_io import WholeObject


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """Files to be written together by an IO of PyIceberg."""

    io: FileIO = field(repr=False)
    _made: list[_Made] = field(default_factory=list, init=False, repr=False)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to make; what is wrong while it is made leaves it out."""
        return _Output(location, self._made, self.io)

    def write(self) -> None:
        """Write all that was made since the last time. Raises OSError."""
        puts = [partial(each.put, self.io.new_output(each.location)) for each in self._made]
        self._made.clear()
        are_apart = all(isinstance(each.args[0], WholeObject) for each in puts)
        if len(puts) == 1 or not are_apart:
            for put in puts:
                put()
            return
        with ThreadPoolExecutor(len(puts) or 1, "penstock-put") as pool:
            for done in [pool.submit(put) for put in puts]:
                done.result()


@dataclass(frozen=True, slots=True)
class _Made:
    """A file that was made, and whether it may take the place of another."""

    location: str
    body: bytes
    overwrite: bool

    def put(self, output: OutputFile) -> None:
        with output.create(overwrite=self.overwrite) as stream:
            stream.write(self.body)


class _Output(OutputFile):
    """Implements `pyiceberg.io.OutputFile`."""

    def __init__(self, location: str, made: list[_Made], files: FileIO) -> None:
        super().__init__(location)
        self._made, self._files = made, files
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def exists(self) -> bool:
        return self._files.new_output(self.location).exists()

    def to_input_file(self) -> InputFile:
        return self._files.new_input(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's
        return _Stream(self, overwrite=overwrite)

    def made(self, body: bytes, *, overwrite: bool) -> None:
        """Take what was written to the stream."""
        self._length = len(body)
        self._made.append(_Made(self.location, body, overwrite))


class _Stream(io.BytesIO):
    """Implements `pyiceberg.io.OutputStream`; nothing is made where its block fails."""

    def __init__(self, file: _Output, *, overwrite: bool) -> None:
        super().__init__()
        self._file, self._overwrite = file, overwrite

    def close(self) -> None:
        if not self.closed:
            self._file.made(self.getvalue(), overwrite=self._overwrite)
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            super().close()
        self.close()
