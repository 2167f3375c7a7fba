"""Which files of a table would be written again, and how ill it is: pure, the same for all formats.

Theory of operation: reading or listing a file costs a fixed price and one per byte. Files below
half the target size are taken in ascending order and filled into groups, each of which becomes one
file of at most the target size; so does a file with many deleted rows, whatever its size. Files of
rows that landed late, without their partitions, are taken as they lie, and a group of them becomes
a file for each partition that they have rows of.

Invariants:
- the files of a group are of one partition, or late, and no file is in two groups;
- a group becomes fewer files, or rows of it that are deleted go, or get to their partitions;
- a group of late files is small enough for a writer to write each of its partitions once;
- how a table lies is judged here alone: `status`, metrics, the plan and what widens epochs say the
  same (docs/design/0323);
- no file of a group weighs more than half as much again as all smaller ones in it together, but for
  one with many deleted rows: a large one is not written again and again for little ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from penstock.core.partition_names import PartitionValues

INPUTS_MAX = 2_000
"""How many files a group has at most: one worker opens each of them."""
DELETED_SHARE = 0.1
"""From which share of deleted rows on a file is written again without them."""
WORTH_FILES = 32
"""From how many files that maintenance would save a table is worth a word."""
LOOKED_AT_MAX = 10_000
"""Up to how many files of a table are looked at where somebody waits for it."""
OURS = "penstock"
"""What `LastMaintenance.by` is where Penstock did it."""
DELTALAKE = "deltalake"
"""What it is where that library did it, which doubles rows that another has compacted meanwhile."""
_FULL = 2
"""A file of this part of the target is left alone."""
_AT_ONCE = 2
"""A group of late files is this part of the target at most: a writer holds its rows at once."""
_LEAST = 256
"""A file weighs this part of the target at least: what opening it costs."""
_ALIKE = 1.5
"""How much more than all smaller ones a file of a group may weigh: sizes of a stream vary."""


class MaintenanceAct(StrEnum):
    """What maintenance does, in this order."""

    REARRANGE = "rearrange"
    EXPIRE = "expire"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A live data file: `deleted` of its `rows` are deleted; equal `partition`s are one. The rows
    of a `late` one have yet to get to theirs; a `clustered` one was laid out by another program,
    which alone writes it again. `values` are those of its partition, as people write
    them, by the fields that the table, or a former spec of it, is partitioned by.
    """

    path: str
    partition: str
    rows: int
    size_bytes: int
    deleted: int = 0
    late: bool = False
    clustered: bool = False
    values: PartitionValues = field(default_factory=dict, compare=False, repr=False)

    @property
    def live_bytes(self) -> int:
        """Return about how many bytes the rows that are not deleted take."""
        live = self.rows - self.deleted
        return self.size_bytes if not self.deleted else self.size_bytes * live // max(self.rows, 1)

    @property
    def has_many_deleted(self) -> bool:
        """Return whether it is written again for its deleted rows alone."""
        return self.deleted > 0 and self.deleted >= DELETED_SHARE * self.rows


@dataclass(frozen=True, slots=True)
class LastMaintenance:
    """When files of a table were last written again as others with the same rows, and by what."""

    at_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class Layout:
    """How the live files of a table lie. `target_bytes` is the size that a full file has.

    `metadata_bytes` is the size of what a reader reads before the first data file, and
    `commit_bytes` how much of that each commit writes again. `maintained` is None where the
    metadata do not tell. `doubled` says which versions, as far as they tell, took away files that
    were gone, so that their rows may be there twice; "" is none.
    """

    files: Sequence[StoredFile]
    target_bytes: int
    metadata_bytes: int
    commit_bytes: int = 0
    maintained: LastMaintenance | None = None
    doubled: str = ""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition that become one, or none where no row of them is left; or late ones,
    which become about `spread` files.
    """

    files: tuple[StoredFile, ...]
    spread: int = 1

    @property
    def late(self) -> bool:
        """Return whether its rows get to their partitions."""
        return self.files[0].late

    @property
    def partition(self) -> str:
        """Return the partition of its files."""
        return self.files[0].partition

    @property
    def size_bytes(self) -> int:
        """Return how much is read."""
        return sum(each.size_bytes for each in self.files)

    @property
    def live_bytes(self) -> int:
        """Return about how much is written."""
        return sum(each.live_bytes for each in self.files)

    @property
    def deleted(self) -> int:
        """Count the rows that go for good: they are deleted."""
        return sum(each.deleted for each in self.files)

    @property
    def rows(self) -> int:
        """Count the rows that stay."""
        return sum(each.rows for each in self.files) - self.deleted

    @property
    def files_after(self) -> int:
        """Count the files that it becomes; of late ones about, for nobody knows their rows."""
        return min(self.rows, self.spread)

    @property
    def is_worth_it(self) -> bool:
        """Return whether there are fewer files afterwards, or far fewer deleted rows, or rows are
        in their partitions.
        """
        fewer = len(self.files) > self.files_after
        return fewer or self.late or any(each.has_many_deleted for each in self.files)


@dataclass(frozen=True, slots=True)
class TableHealth:
    """How a table lies, and what maintenance would make of it: `files_after` files, in `groups`.

    `rows` are live ones, and `deleted` counts rows that are deleted and still in its files. `late`
    counts the files whose rows wait for their partitions; `files_after` leaves them as they are.
    The rest is as in its `Layout`.
    """

    files: int
    files_after: int
    size_bytes: int
    rows: int
    deleted: int
    metadata_bytes: int
    groups: int
    target_bytes: int = 0
    commit_bytes: int = 0
    maintained: LastMaintenance | None = None
    late: int = 0
    doubled: str = ""

    @property
    def excess_files(self) -> int:
        """Count the files that maintenance would save."""
        return self.files - self.files_after

    @property
    def ailing_files(self) -> int:
        """Count the files that are too many, or those of late rows where these are more."""
        return max(self.excess_files, self.late)

    @property
    def deleted_share(self) -> float:
        """Return which share of the rows in its files is deleted."""
        return self.deleted / max(self.rows + self.deleted, 1)

    @property
    def needs_maintenance(self) -> bool:
        """Return whether it is worth a word."""
        many = self.ailing_files >= WORTH_FILES
        return (
            bool(self.doubled) or many or (self.groups > 0 and self.deleted_share >= DELETED_SHARE)
        )

    def with_files(self, files: int) -> TableHealth:
        """Return it with so many files now, whoever wrote or removed some since the look."""
        return replace(self, files=files, files_after=min(self.files_after, files))

    def after_commit(self, files: int, size_bytes: int) -> TableHealth:
        """Return it with files that landed since it was looked at: each of them is one too many,
        but for full ones. Rows, deleted ones and metadata are those of the look.
        """
        full = size_bytes * _FULL >= files * self.target_bytes
        return replace(
            self,
            files=self.files + files,
            files_after=self.files_after + (files if full else 0),
            size_bytes=self.size_bytes + size_bytes,
        )

    def after_maintenance(self, before: int, after: int, at_ms: int) -> TableHealth:
        """Return it with so many files in the place of others since it was looked at."""
        found = self.with_files(max(self.files - before + after, 0))
        return replace(found, maintained=LastMaintenance(at_ms, OURS))


def groups_of(layout: Layout) -> tuple[FileGroup, ...]:
    """Plan groups of files: late ones first, then those that save the most files, then the most
    deleted rows.
    """
    partitions: dict[str, list[StoredFile]] = defaultdict(list)
    for each in layout.files:
        if each.late or each.clustered:
            continue
        if each.has_many_deleted or each.size_bytes < layout.target_bytes / _FULL:
            partitions[each.partition].append(each)
    groups = [
        FileGroup(tuple(bundle))
        for _, files in sorted(partitions.items())
        for bundle in _bundles(files, layout.target_bytes)
    ]
    found = [each for each in groups if each.is_worth_it]
    found.sort(key=lambda each: (each.files_after - len(each.files), -each.deleted))
    return (*_late_groups(layout), *found)


def health_of(layout: Layout, groups: Sequence[FileGroup]) -> TableHealth:
    """Sum up a layout and its plan."""
    deleted = sum(each.deleted for each in layout.files)
    return TableHealth(
        files=len(layout.files),
        files_after=len(layout.files)
        - sum(len(each.files) - each.files_after for each in groups if not each.late),
        size_bytes=sum(each.size_bytes for each in layout.files),
        rows=sum(each.rows for each in layout.files) - deleted,
        deleted=deleted,
        metadata_bytes=layout.metadata_bytes,
        groups=len(groups),
        target_bytes=layout.target_bytes,
        commit_bytes=layout.commit_bytes,
        maintained=layout.maintained,
        late=sum(each.late for each in layout.files),
        doubled=layout.doubled,
    )


def acts_of(shard: int, only: Sequence[str]) -> Sequence[str]:
    """Return the acts that a shard does, by its number, none meaning all for the first and nothing
    for the others: files and snapshots are everybody's, and a sweep is of what a shard itself has
    written.
    """
    if shard == 0:
        return only
    return (MaintenanceAct.SWEEP,) if not only or MaintenanceAct.SWEEP in only else ()


def worst_first(tables: Mapping[str, TableHealth | None]) -> dict[str, TableHealth]:
    """Return the tables that need maintenance by name, those with most ailing files first."""
    needy = {name: each for name, each in tables.items() if each and each.needs_maintenance}
    order = sorted(needy.items(), key=lambda kv: (-kv[1].ailing_files, -kv[1].deleted, kv[0]))
    return dict(order)


def _late_groups(layout: Layout) -> Iterator[FileGroup]:
    """Yield groups of late files, as they lie, each of as many partitions as others have."""
    spread = max(1, len({each.partition for each in layout.files if not each.late}))
    group: list[StoredFile] = []
    size_bytes = 0
    for each in (file for file in layout.files if file.late):
        size_bytes += each.live_bytes
        is_full = size_bytes > layout.target_bytes / _AT_ONCE or len(group) == INPUTS_MAX
        if group and is_full:
            yield FileGroup(tuple(group), spread)
            group, size_bytes = [], each.live_bytes
        group.append(each)
    if group:
        yield FileGroup(tuple(group), spread)


def _bundles(files: Iterable[StoredFile], target_bytes: int) -> list[list[StoredFile]]:
    """Fill files of one partition into bundles, the smallest first."""
    bundles: list[list[StoredFile]] = []
    size_bytes = weight = 0
    for each in sorted(files, key=lambda file: (file.live_bytes, file.size_bytes, file.rows)):
        own = max(each.live_bytes, target_bytes // _LEAST)
        fits = size_bytes + each.live_bytes <= target_bytes
        joins = fits and (own <= _ALIKE * weight or each.has_many_deleted)
        if bundles and joins and len(bundles[-1]) < INPUTS_MAX:
            bundles[-1].append(each)
        else:
            bundles.append([each])
            size_bytes = weight = 0
        size_bytes += each.live_bytes
        weight += own
    return bundles
