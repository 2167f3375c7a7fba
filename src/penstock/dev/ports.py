"""Ports of this machine for servers that are about to start."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

HOST = "127.0.0.1"
PORT_MAX = 65_535
LOWEST = 10_000
EPHEMERAL_FROM = 49_152
"""The first ephemeral port of systems other than Linux (RFC 6335, 6)."""
EPHEMERAL_OF_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 100


def free_port(*but: int) -> int:
    """Return a port that is free now and none of those given.

    It is below the system's ephemeral ports: a server takes seconds until it listens, and a
    connection could get an ephemeral port meanwhile.
    """
    below = ephemeral_from()
    for _ in range(TRIES if below > LOWEST else 0):
        port = LOWEST + secrets.randbelow(below - LOWEST)
        if port not in but and is_free(port):
            return port
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in but:
            return port


def ephemeral_from() -> int:
    """Return the first ephemeral port of this system."""
    try:
        return int(EPHEMERAL_OF_LINUX.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_FROM


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
