"""A record as tests send it, to a real broker or to one in memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """One record as a producer sends it."""

    value: bytes | None = b"{}"
    key: bytes | None = None
    timestamp_ms: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()
