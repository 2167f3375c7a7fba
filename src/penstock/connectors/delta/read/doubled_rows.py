"""Says in words what versions overlooked that removed files which were gone.

deltalake 1.6 compacts, from a version before another compaction, what that has written again; then
rows are there twice, by its own entry (docs/explanation/small-files.md).

Source: Delta transaction log protocol, "Action Reconciliation", "Commit Provenance Information".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.read.live_files import Overlooking, actions_at, info_of

_SHOWN = 40


def doubled_rows(log: Log, overlooked: Iterable[Overlooking]) -> Iterator[str]:
    """Yield a sentence for each version that removed files which were gone. Raises OSError."""
    for each in overlooked:
        info = info_of(actions_at(log, each.version))
        act = f"{info.get('operation') or 'an unnamed act'}"[:_SHOWN]
        by = f"{info.get('engineInfo') or 'an unnamed engine'}"[:_SHOWN]
        files = f"{len(each.paths)} files" if len(each.paths) > 1 else "a file"
        before = _who_removed(log, each)
        whom = "that was gone" if before is None else f"that version {before} had removed"
        yield f"version {each.version} ({act}, {by}) removed {files} {whom}, {each.paths[0]} first"


def _who_removed(log: Log, found: Overlooking) -> int | None:
    """Return the last version that removed the first of the files before, if it is in the log."""
    for version in range(found.version - 1, log.checkpoint(found.version)[0], -1):
        removed = (each["remove"]["path"] for each in actions_at(log, version) if "remove" in each)
        if found.paths[0] in removed:
            return version
    return None
