"""Compacts a local Delta table by deltalake, as a writer that looks at what came meanwhile would.

deltalake 1.6 puts its entry behind all that came since it read the table, also where another
compaction has taken the same files: their rows are there twice then (docs/design/0291). So it works
on links to the table's files, and its entry is put behind a version in which all of them live.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import DeltaTable

LOG = "_delta_log"


def foreign_compact(place: Path, scratch: Path) -> bool:
    """Write small files again as large ones; `scratch` is on the same disk, outside of the table.

    False when another writer took one of them, and nothing is compacted. Raises FileNotFoundError
    where files go while they are read.
    """
    with TemporaryDirectory(dir=scratch) as directory:
        own = Path(directory)
        log = [each for each in (place / LOG).iterdir() if each.is_file()]
        _link((each.relative_to(place) for each in log), place, own)
        table = DeltaTable(own)
        before = _live(table, own)
        _link(before, place, own)
        if not table.optimize.compact()["numFilesAdded"]:
            return True
        after = _live(table, own)
        _link(after - before, own, place)
        if _is_put(own / _entry(table.version()), place, before - after):
            return True
    for each in after - before:
        place.joinpath(each).unlink(missing_ok=True)
    return False


def _is_put(entry: Path, place: Path, replaced: set[Path]) -> bool:
    """Put an entry behind the newest version, as long as all files that it replaces live there."""
    while replaced <= _live(newest := DeltaTable(place), place):
        try:
            os.link(entry, place / _entry(newest.version() + 1))
        except FileExistsError:
            continue
        return True
    return False


def _entry(version: int) -> Path:
    return Path(LOG, f"{version:020d}.json")


def _live(table: DeltaTable, place: Path) -> set[Path]:
    return {Path(uri).relative_to(place) for uri in table.file_uris()}


def _link(names: Iterable[Path], source: Path, target: Path) -> None:
    """Let files be in another directory as well."""
    for name in names:
        target.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source / name, target / name)
