"""What `penstock audit --values` finds, for oracles: metadata of live files and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors import delta, iceberg
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet

CONNECTORS = {"iceberg": iceberg.connector, "delta": delta.connector}


@dataclass(frozen=True, slots=True)
class Compared:
    """How many files and rows were compared, and what differs or could not be compared."""

    files: int
    rows: int
    wrong: tuple[str, ...]

    def __add__(self, more: Compared) -> Compared:
        wrong = (*self.wrong, *more.wrong)
        return Compared(self.files + more.files, self.rows + more.rows, wrong)


NOTHING = Compared(0, 0, ())


def compared(connector: str, settings: Mapping[str, Any], tables: Iterable[str]) -> Compared:
    """Compare all tables of a catalog that exist; they are named as in the catalog."""
    opened = CONNECTORS[connector].open_catalog(
        {"name": "lake", **settings}, ProcessSecrets({}), Quiet()
    )
    try:
        found = NOTHING
        for name in tables:
            if opened.load(name) is None:
                continue
            audit = values_of(opened, name)
            wrong = [
                f"{name}: {each.fault} of {each.column or 'a file'} says {each.stated}, "
                f"the file holds {each.held}: {each.file}"
                for each in audit.mismatches
            ]
            not_compared = [f"{name}: not compared: {each}" for each in audit.not_compared]
            found += Compared(audit.files, audit.rows, (*wrong, *not_compared))
        return found
    finally:
        opened.close()
