"""Unpacked bytes of several batches, one behind the other, in one buffer that is used again.

So they are unpacked where they are read, without a copy, and without new memory for each batch.

Invariant: what `whole` gives is valid until the next bytes are put in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

AT_FIRST_BYTES = 256 << 10
KEPT_BYTES_MAX = 64 << 20


class Room:
    """A buffer that grows; `size_bytes` are taken."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._buffer: npt.NDArray[np.uint8] = np.empty(AT_FIRST_BYTES, np.uint8)

    def clear(self) -> None:
        """Let go of the bytes; of the memory only when it is unusually much."""
        self.size_bytes = 0
        if len(self._buffer) > KEPT_BYTES_MAX:
            self._buffer = np.empty(AT_FIRST_BYTES, np.uint8)

    def whole(self, spare: int = 0) -> npt.NDArray[np.uint8]:
        """Return all bytes, and so many zeros behind them."""
        self._grow(spare)
        end = self.size_bytes + spare
        self._buffer[self.size_bytes : end] = 0
        return self._buffer[:end]

    def put(self, data: bytes | memoryview) -> None:
        """Take bytes."""
        self._grow(len(data))
        end = self.size_bytes + len(data)
        self._buffer[self.size_bytes : end] = np.frombuffer(data, np.uint8)
        self.size_bytes = end

    def drain(self, stream: pa.NativeFile, bytes_max: int) -> bool:
        """Take what a stream gives, a byte more than so many at most; tell whether that was all."""
        stop = self.size_bytes + bytes_max + 1
        while self.size_bytes < stop:
            self._grow(1)
            got = stream.readinto(self._buffer[self.size_bytes : stop])
            if not got:
                return True
            self.size_bytes += got
        return False

    def drop(self, count: int) -> None:
        """Let go of the first bytes; those behind them move up."""
        left = self.size_bytes - count
        self._buffer[:left] = self._buffer[count : self.size_bytes]
        self.size_bytes = left

    def cut(self, size_bytes: int) -> None:
        """Let go of all but the first bytes."""
        self.size_bytes = size_bytes

    def _grow(self, wanted: int) -> None:
        """Make room for so many bytes more."""
        needed = self.size_bytes + wanted
        if needed > len(self._buffer):
            grown = np.empty(max(needed, 2 * len(self._buffer)), np.uint8)
            grown[: self.size_bytes] = self._buffer[: self.size_bytes]
            self._buffer = grown
