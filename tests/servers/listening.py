"""Listen on a port of this machine and serve each connection in a thread: the base of proxies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def listening(port: int, serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """Serve clients until the block ends; 0 is a free port. Yields the port."""
    listener = socket.create_server(("127.0.0.1", port))
    stopped = threading.Event()

    def accept() -> None:
        while not stopped.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stopped.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def shut(*ends: socket.socket) -> None:
    """Close connections, also those that others are reading from."""
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
