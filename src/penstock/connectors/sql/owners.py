"""Has the owner of a claim ended? Answered for processes of this host only.

Invariants:
- the answer is advisory (protocol.md 6): a wrong yes costs a takeover, never a record;
- a clock that is set ends no owner: where the system counts from its boot (Linux), so do we.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from penstock.ports.store import Owner

_EPOCH_MS_MIN = 10**12
"""2001; from here on a start is since the epoch, below since a boot: 31 years are enough."""

_STARTED_TOLERANCE_MS = 2_000
"""Since the epoch a start is computed from the boot time, which moves with time services."""


def started_ms(pid: int) -> int:
    """Return when a process began: in milliseconds since the boot on Linux, else since the epoch.

    Raises psutil.Error, ValueError and OverflowError, as psutil does.
    """
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return _since_epoch_ms(pid)
    ticks = int(line.rpartition(b")")[2].split()[19])  # proc_pid_stat(5), field 22: starttime
    return ticks * 1000 // os.sysconf("SC_CLK_TCK")


def has_ended(owner: Owner) -> bool:
    """Return whether the owner surely ended: on this host, and no such process, or a later one."""
    if owner.host != socket.gethostname():
        return False
    try:
        zombie = psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE
        return zombie or _is_another(owner)
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, ValueError, OverflowError):
        return False


def _is_another(owner: Owner) -> bool:
    if owner.started_ms <= 0:
        return False
    if owner.started_ms < _EPOCH_MS_MIN:
        return started_ms(owner.pid) != owner.started_ms
    return abs(_since_epoch_ms(owner.pid) - owner.started_ms) > _STARTED_TOLERANCE_MS


def _since_epoch_ms(pid: int) -> int:
    return round(psutil.Process(pid).create_time() * 1000)
