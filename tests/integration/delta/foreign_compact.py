"""Compacts a local Delta table by deltalake, as a writer that notices whoever came first would.

deltalake 1.6 puts its entry behind all that came since it read the table, also where another
compaction has taken the same files: their rows are there twice then (docs/design/0291). So it works
on links to the table's files, and its entry is put as the version after the one that it read.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import DeltaTable

LOG = "_delta_log"


def foreign_compact(place: Path, scratch: Path) -> bool:
    """Write small files again as large ones; `scratch` is on the same disk, outside of the table.

    False when another writer took the version, and nothing is compacted. Raises FileNotFoundError
    where files go meanwhile.
    """
    with TemporaryDirectory(dir=scratch) as directory:
        own = Path(directory)
        log = (each for each in (place / LOG).iterdir() if each.is_file())
        _link({each.relative_to(place) for each in log}, place, own)
        table = DeltaTable(own)
        before = _live(table, own)
        _link(before, place, own)
        if not table.optimize.compact()["numFilesAdded"]:
            return True
        written = _live(table, own) - before
        _link(written, own, place)
        try:
            _link({Path(LOG, f"{table.version():020d}.json")}, own, place)
        except FileExistsError:
            for each in written:
                place.joinpath(each).unlink(missing_ok=True)
            return False
    return True


def _live(table: DeltaTable, place: Path) -> set[Path]:
    return {Path(uri).relative_to(place) for uri in table.file_uris()}


def _link(names: set[Path], source: Path, target: Path) -> None:
    """Let files be in another directory as well; one that is there already stays."""
    for name in names:
        target.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source / name, target / name)
