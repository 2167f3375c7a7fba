"""Keeps the manifests that were written for a snapshot which has not landed yet.

Invariants:
- what is kept depends on no state: manifests never change, so what takes the place of some of them
  does for as long as these are live;
- a list numbers the manifests that it is given, so each gets a copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pyiceberg.manifest import ManifestFile

ENTRIES_MAX: Final = 1000
"""From so many entries on a manifest is left alone."""


class StagedManifests:
    """Manifests of data files of a snapshot; `of` are the data files that come and go with it.

    `touched` says of manifests that were looked at whether entries of them go. Manifests of delete
    files are not kept, for they depend on what was deleted meanwhile.
    """

    def __init__(self, of: frozenset[str], snapshot_id: int) -> None:
        self.of, self.snapshot_id = of, snapshot_id
        self.touched: dict[str, bool] = {}
        self._added: dict[int, ManifestFile] = {}
        self._rewritten: dict[tuple[str, ...], ManifestFile] = {}

    def added(self, spec_id: int, write: Callable[[], ManifestFile]) -> ManifestFile:
        """Return the manifest of the files of a spec that come, which is written once."""
        if spec_id not in self._added:
            self._added[spec_id] = write()
        return copied(self._added[spec_id])

    def rewritten(
        self, manifests: Sequence[ManifestFile], write: Callable[[], ManifestFile]
    ) -> ManifestFile:
        """Return what takes the place of manifests, which is written once."""
        paths = tuple(each.manifest_path for each in manifests)
        if paths not in self._rewritten:
            self._rewritten[paths] = write()
        return copied(self._rewritten[paths])

    def bundles(self, manifests: Sequence[ManifestFile]) -> Iterator[Sequence[ManifestFile]]:
        """Yield manifests that are written again as one: those that were already, and others.

        Large ones are kept apart from small ones, which a landing merges soon: what was written in
        the place of one that is gone is of no use.
        """
        left = {each.manifest_path: each for each in manifests}
        for paths in self._rewritten:
            if left.keys() >= {*paths}:
                yield [left.pop(path) for path in paths]
        for _, alike in itertools.groupby(sorted(left.values(), key=level_of), level_of):
            yield from bundles_of([*alike])


def entry_count(manifest: ManifestFile) -> int:
    """Count the live entries of a manifest, by its list."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def level_of(manifest: ManifestFile) -> int:
    """Return the level of a manifest: 1 to 9 entries, 10 to 99, and so on."""
    return len(str(entry_count(manifest)))


def bundles_of(group: Sequence[ManifestFile]) -> Iterator[Sequence[ManifestFile]]:
    """Yield all manifests in bundles as `bundle_of` takes them."""
    while group:
        bundle = bundle_of(group)
        yield bundle
        group = group[len(bundle) :]


def bundle_of(group: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Take manifests while their entries fit into one that is then left alone."""
    bundle: list[ManifestFile] = []
    total = 0
    for each in group:
        total += entry_count(each)
        if bundle and total > 2 * ENTRIES_MAX:
            break
        bundle.append(each)
    return bundle


def copied(manifest: ManifestFile) -> ManifestFile:
    """Return a manifest that a list may number."""
    return ManifestFile(*(manifest[at] for at in range(len(manifest))))
