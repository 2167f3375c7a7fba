"""Which rows of an exchange go to which task: files of the first stage are dealt in shares.

Theory of operation: a task that reads records hashes each row by its partition of the table, into
one of PARTS ranges of the hash, and writes its rows as blocks, each of one range. Ranges are dealt
in their order; one that is heavier than a share should be is dealt by its blocks: the partitions in
it go to several tasks, and every other one to one alone.

Invariants:
- each block is in exactly one share;
- a range that is not heavy is in one share, and with it each of its partitions;
- no share is heavier than twice the mean, where no block is heavier than the mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from penstock.core.offsets import OffsetRange, Progress, TopicPartition

PARTS = 64
"""In how many ranges the hashes of partitions are cut."""
SHARE_BYTES = 4 << 20
"""How many bytes of blocks, compressed, are worth a task."""
EXCHANGE_ENDING = "exchange"
"""How the names of exchange files end: nothing else is ever deleted by those who write them."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of one range of hashes, `part`: where they are in a file, and a CRC-32 of that."""

    part: int
    start: int
    size_bytes: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class ExchangeFile:
    """What one task read for one table, in blocks; or some of them, where it is of a share.

    `path` is that of the storage's own filesystem. `ranges` are the source ranges of the rows that
    may be in it.
    """

    path: str
    blocks: tuple[Block, ...]
    ranges: Progress = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Return how many bytes its blocks have."""
        return sum(each.size_bytes for each in self.blocks)


Share = tuple[ExchangeFile, ...]
"""The blocks that one task of the second stage reads, by file."""
_Place = tuple[int, Block]  # the number of a file, and a block of it


def dealt(files: Sequence[ExchangeFile], tasks_max: int) -> list[Share]:
    """Deal the blocks of all files to at most so many tasks; files keep their order in a share."""
    places = [(number, block) for number, file in enumerate(files) for block in file.blocks]
    places.sort(key=lambda place: (place[1].part, place[0], place[1].start))
    total = _weight(places)
    mean = total / max(1, min(tasks_max, -(-total // SHARE_BYTES)))
    shares: list[list[_Place]] = []
    load = mean
    for _, group in groupby(places, key=lambda place: place[1].part):
        part = [*group]
        for piece in [part] if _weight(part) <= mean else [[each] for each in part]:
            if load >= mean:
                shares.append([])
                load = 0
            shares[-1] += piece
            load += _weight(piece)
    return [_share(files, share) for share in shares]


def ranges_of(share: Share) -> Progress:
    """Return the source ranges of the rows that may be in a share: those of its files, and what is
    between two of one partition.
    """
    found: dict[TopicPartition, OffsetRange] = {}
    for file in share:
        for at, covered in file.ranges.items():
            known = found.get(at, covered)
            start, stop = min(known.start, covered.start), max(known.stop, covered.stop)
            found[at] = OffsetRange(start, stop)
    return found


def _weight(places: Sequence[_Place]) -> int:
    return sum(block.size_bytes for _, block in places)


def _share(files: Sequence[ExchangeFile], places: Sequence[_Place]) -> Share:
    blocks: dict[int, list[Block]] = defaultdict(list)
    for number, block in places:
        blocks[number].append(block)
    return tuple(
        replace(files[number], blocks=tuple(sorted(blocks[number], key=lambda each: each.start)))
        for number in sorted(blocks)
    )
