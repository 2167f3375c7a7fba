"""How the rows of a file become bytes: what a format offers to `partitioned.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from penstock.files.float_statistics import FloatCounts

Said_co = TypeVar("Said_co", covariant=True)
"""What an encoding says of a finished file."""

_CODECS_WITH_LEVELS = {"zstd", "gzip", "brotli"}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are written; sizes are bytes, of Arrow memory where buffered.

    `buffer_bytes` bounds what all partitions of one writer hold together. `compression_level`
    counts only for codecs that know levels.
    """

    compression: str = "zstd"
    compression_level: int | None = 1
    row_group_bytes: int = 64 << 20
    target_file_bytes: int = 256 << 20
    open_writers: int = 64
    buffer_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        assert self.row_group_bytes > 0, "a row group holds at least a byte"
        assert self.target_file_bytes > 0, "a file holds at least a byte"
        assert self.open_writers > 0, "at least one file can be open"
        assert self.buffer_bytes > 0, "at least a byte can be buffered"

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> FileOptions:
        """Return the options with the sizes of a target."""
        file_bytes, group_bytes, writers = sizes
        return cls(target_file_bytes=file_bytes, row_group_bytes=group_bytes, open_writers=writers)

    @property
    def sizes(self) -> list[int]:
        """Return the sizes that travel in a target."""
        return [self.target_file_bytes, self.row_group_bytes, self.open_writers]

    @property
    def level(self) -> int | None:
        """Return the compression level, or None where the codec has none."""
        return self.compression_level if self.compression in _CODECS_WITH_LEVELS else None


class Encoder(Protocol[Said_co]):
    """Writes one file. Raises OSError (disk full, no storage) at each act but `let_go`."""

    def takes(self, rows: pa.Table, odd: FloatCounts) -> bool:
        """Return whether rows can follow; `odd` are the floats in them that readers disagree on."""

    def write(self, rows: pa.Table) -> None:
        """Write a group of rows; bytes of it may follow later."""

    def close(self) -> Said_co:
        """Write what is left, and say what the file holds; its stream stays open."""

    def let_go(self) -> None:
        """Write nothing more, not even when it is collected."""


class Encoding(Protocol[Said_co]):
    """A format of files, for rows of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of rows as they come."""

    @property
    def options(self) -> FileOptions:
        """How files are written."""

    @property
    def ending(self) -> str:
        """What the names of files end in."""

    def fitting(self, rows: pa.Table, odd: FloatCounts) -> Encoding[Said_co]:
        """Return what can encode some rows: itself, or another that holds what it cannot."""

    def open(self, stream: pa.NativeFile, first: pa.Table, odd: FloatCounts) -> Encoder[Said_co]:
        """Begin a file, for rows of which the first are known, and the floats in those."""
