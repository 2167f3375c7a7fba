"""Events of maintenance beside a run; the rules of `events.py` hold for them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import Event


@dataclass(frozen=True, slots=True)
class TableMaintained(Event):
    """A table was maintained beside the run: so many files became so many, snapshots expired, files
    that nothing names were deleted, or noted to be deleted later.
    """

    table: str
    files_before: int
    files_after: int
    expired: int
    deleted: int
    noted: int


@dataclass(frozen=True, slots=True)
class MaintenanceFailed(Event):
    """Maintenance beside the run ended early, or left a table as it is; "" is all tables."""

    table: str
    reason: str
