"""What is published into Kafka: planned on the driver, read on workers.

Invariants:
- a source partition's rows have an order, and a position says how many of them were read;
- a range that is read again gives the same rows, whole;
- what `plan` returns begins exactly at the positions that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.positions import Position, SourcePartition

MESSAGES = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""The columns of messages; each value may be null, and null headers are none."""

Stands = Mapping[SourcePartition, Position]
"""Where source partitions stand."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one source partition, from a position up to another; `rows` is an upper bound.

    `work` is what the source tells its reader besides; it holds no secret of the spec. A row that
    `is_poison` kills who reads it, and is refused unread.
    """

    of: SourcePartition
    start: Position
    stop: Position
    rows: int
    work: str = field(default="", repr=False)
    is_poison: bool = False


@dataclass(frozen=True, slots=True)
class EpochLimit:
    """What one transaction may hold: rows, and bytes as estimated."""

    rows_max: int
    bytes_max: int


NO_LIMIT = EpochLimit(2**62, 2**62)
"""Of whoever asks what there is, and sends nothing."""


class Source(Protocol):
    """What a publication reads; on the driver, in one thread."""

    def starts(self, word: str) -> Stands:
        """Return where each source partition begins: at its `earliest` row, or behind its `latest`.

        Raises InvalidError where the source is not there, UnavailableError.
        """

    def places(self, words: Sequence[str]) -> Stands:
        """Return the positions that a person names: those of `earliest` or `latest` for all source
        partitions, or of single ones, as this kind of source writes them.

        Raises InvalidError (P172, P817), and as `starts` does.
        """

    def ends(self) -> Stands:
        """Return where each source partition ends now, as far as it is known.

        Raises as `starts` does.
        """

    def require_known(self) -> None:
        """Raise UnavailableError (P250) while it is not known where a source partition ends."""

    def fault(self, stands: Stands) -> str:
        """Say why the source cannot be read from these positions; "" if it can."""

    def readable(self, stands: Stands) -> Stands:
        """Return the same positions, but its first row where what a position asks for is gone.

        A source partition that is gone has no position any more.
        """

    def count(self, start: Stands, stop: Stands) -> int:
        """Count the rows between positions; an upper bound."""

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return what to read next, at most to `ends`, fairly shared between source partitions."""

    def columns(self) -> pa.Schema | None:
        """Return the columns of its rows; None where it gives messages. Raises as `starts` does."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class Read:
    """Messages (MESSAGES) of one source partition, in their order, and the position behind them."""

    messages: pa.RecordBatch
    reached: Position


class SourceReader(Protocol):
    """Reads on a worker; kept and used again over tasks."""

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Read]:
        """Yield the messages of a stretch in order.

        The last `reached` is `stretch.stop` unless `deadline` (monotonic seconds) passed: then the
        stretch ends early, and nothing is lost. Raises DecisionNeededError where rows are gone,
        UnavailableError.
        """


@dataclass(frozen=True, slots=True)
class BadRow:
    """What stands in a source and cannot be read as a row: its place, why, and its message's key.

    `code` is landing's for the same cause; without one it is the code of what is malformed. Place
    and reason go into the topic for rejects: they hold no value of the row.
    """

    place: str
    reason: str
    key: bytes | None = None
    code: str = "P302"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one source partition in their order, and the position behind them.

    `rows` has the table's columns, in Arrow's types; one without rows may have none. `bad` are rows
    as well, which are rejects whatever the rules say. `left_out` counts rows that are not
    published, by reason: those that the source took back, tombstones that nobody wants. `offsets`
    are those of rows and then of bad ones, where they are records of a topic, and `records` are
    these, as `ports.log.Fetched` has them, in the order of the topic.
    """

    rows: pa.RecordBatch
    reached: Position
    bad: Sequence[BadRow] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    offsets: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    records: pa.RecordBatch | None = field(default=None, repr=False, compare=False)

    @property
    def count(self) -> int:
        """Return how many rows there are, bad ones and those that are left out included."""
        return int(self.rows.num_rows) + len(self.bad) + sum(self.left_out.values())


NO_ROWS = pa.RecordBatch.from_arrays([], names=[])
"""They move the position alone."""


class RowReader(Protocol):
    """Reads rows on a worker; kept and used again over tasks."""

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield the rows of a stretch in order; ends and raises as `SourceReader.read` does."""
