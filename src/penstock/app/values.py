"""`penstock audit --values`: what metadata says of every live file, compared with what it holds.

Invariants:
- it writes nothing, asks neither Kafka nor a ledger, and takes any table: ours or not;
- one file is read at a time, a few rows of it at a time (files/contents.py);
- a file that is gone or damaged is a finding like another; storage that does not answer is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.statistics import Fault, FileStatistics, Mismatch, mismatches, unreadable
from penstock.files.contents import contents_of
from penstock.files.faults import told
from penstock.ports.tables import StatedFile, TableFormat

Progressed = Callable[[str], None]
FOUND_MAX = 1000
"""How many findings of one table are kept; the rest is counted."""
_TOLD_EVERY_FILES = 100


@dataclass(frozen=True, slots=True)
class ValuesAudit:
    """What was found of one table; `mismatches` are the first ones, `further` counts the rest.

    `untold` says in sentences what was not compared, and why.
    """

    table: str
    files: int = 0
    rows: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    further: int = 0
    untold: tuple[str, ...] = ()
    problem: PenstockError | None = None


def values_of(
    catalog: TableFormat, name: str, progressed: Progressed = lambda _: None
) -> ValuesAudit:
    """Compare the metadata of a table's live files with what they hold.

    `name` is the one behind the catalog's, as `TableFormat.load` takes it. Raises InvalidError
    (P461 there is no such table), UnavailableError, and what reading the table raises.
    """
    table = catalog.load(name)
    if table is None:
        raise InvalidError(
            f"table {name} does not exist",
            code="P461",
            hint="nothing has landed in it yet, or it was dropped; see  penstock status",
        )
    files = rows = further = 0
    found: list[Mismatch] = []
    untold: list[str] = []
    for stated in table.stated():
        files += 1
        if files % _TOLD_EVERY_FILES == 0:
            progressed(f"{name}: {files:,} files and {rows:,} rows compared")
        untold += stated.statistics.untold
        if stated.statistics.untold:
            continue
        records, wrong = _compared(name, stated)
        rows += records
        kept = wrong[: FOUND_MAX - len(found)]
        found += kept
        further += len(wrong) - len(kept)
    return ValuesAudit(name, files, rows, tuple(found), further, tuple(untold))


def _compared(name: str, file: StatedFile) -> tuple[int, list[Mismatch]]:
    """Compare one file; give also how many rows it holds."""
    stated = file.statistics
    try:
        with file.open() as source:
            held = contents_of(source, stated)
    except FileNotFoundError:
        return 0, [*unreadable(stated), _lost(stated, "it is not there")]
    except OSError as error:
        raise UnavailableError(
            f"a file of {name} could not be read: {stated.path}: {told(error)}",
            code="P430",
            hint="see that the storage answers, then audit again",
        ) from error
    except pa.ArrowException as error:
        why = f"it cannot be read: {told(error)}"
        return 0, [*unreadable(stated), _lost(stated, why)]
    return held.records, mismatches(stated, held)


def _lost(stated: FileStatistics, why: str) -> Mismatch:
    return Mismatch(stated.path, "", Fault.FILE, "a live file", why)
