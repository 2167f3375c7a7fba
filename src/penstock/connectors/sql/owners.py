"""Has the owner of a claim ended? Answered for processes of this host only.

Invariants: the answer is advisory (protocol.md 6): a wrong yes costs a takeover, never a record.
"""

from __future__ import annotations

import socket

import psutil

from penstock.ports.store import Owner

# A process's start is computed from the boot time, which moves with time services.
_STARTED_TOLERANCE_MS = 2_000


def has_ended(owner: Owner) -> bool:
    """Tell whether the owner surely ended: on this host, and no such process, or a later one."""
    if owner.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(owner.pid)
        started_ms = process.create_time() * 1000
        zombie = process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, ValueError, OverflowError):
        return False
    later = owner.started_ms > 0 and abs(started_ms - owner.started_ms) > _STARTED_TOLERANCE_MS
    return zombie or later
