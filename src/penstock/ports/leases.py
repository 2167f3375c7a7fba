"""Credentials that end: how long a target holds, and how another one is had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Lease:
    """Credentials that a catalog vends for one table: part of the target, and they expire.

    Once `is_due` says so, `renew` is to be called before further work is handed out. It returns
    the target with credentials of its own, all else as it was, and the next lease; it raises
    UnavailableError and InvalidError. The catalog keeps the time, so no two clocks are compared.
    """

    is_due: Callable[[], bool] = field(repr=False)
    renew: Callable[[], tuple[str, Lease | None]] = field(repr=False, compare=False)
