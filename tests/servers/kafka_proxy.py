"""A TCP proxy that knows Kafka's frames: it drops, delays, doubles and cuts them.

Faults are queued for a kind of request and used up one a request, in order:

| fault         | reaches the broker | the client sees                           |
|---------------|--------------------|-------------------------------------------|
| LOSE_ANSWER   | yes                | a connection that is closed               |
| LOSE_REQUEST  | no                 | a connection that is closed               |
| LATE_ANSWER   | yes                | the answer, after `late_seconds`          |
| TWICE         | twice              | the first answer; the second is swallowed |
| CUT_ANSWER    | yes                | half an answer, then a closed connection  |

Source: the Kafka protocol guide: a frame is a length of four bytes, then the key of the request,
its version and a correlation id that its answer repeats; answers of a connection come in order.

Invariant: without a fault bytes are passed on as they are.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from tests.servers.listening import listening, shut


class Kind(IntEnum):
    """Keys of requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    END_TRANSACTION = 26


OF_READERS = (Kind.FETCH, Kind.LIST_OFFSETS, Kind.METADATA)
OF_SENDERS = (Kind.PRODUCE, Kind.INIT_PRODUCER_ID, Kind.END_TRANSACTION)


class FrameFault(StrEnum):
    """Name what goes wrong with one request or its answer."""

    LOSE_ANSWER = "lose answer"
    LOSE_REQUEST = "lose request"
    LATE_ANSWER = "late answer"
    TWICE = "twice"
    CUT_ANSWER = "cut answer"


@dataclass(slots=True)
class KafkaProxy:
    """Faults to come, those that were played, and how often a key was asked; safe for threads."""

    port: int
    late_seconds: float = 0.5
    played: list[tuple[Kind, FrameFault]] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)
    _queued: dict[int, deque[FrameFault]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def queue(self, kind: Kind, *faults: FrameFault) -> None:
        """Let the next requests of a kind go wrong."""
        with self._guard:
            self._queued.setdefault(kind, deque()).extend(faults)

    def clear(self) -> None:
        """Forget the faults that have not been played."""
        with self._guard:
            self._queued.clear()

    def next(self, key: int) -> FrameFault | None:
        """Count a request, and use up the next fault of its kind."""
        with self._guard:
            self.asked[key] += 1
            waiting = self._queued.get(key)
            if not waiting:
                return None
            fault = waiting.popleft()
            self.played.append((Kind(key), fault))
            return fault


@contextmanager
def before(proxy: KafkaProxy, server: tuple[str, int]) -> Iterator[KafkaProxy]:
    """Listen on the proxy's port and pass frames on to a server."""
    with listening(proxy.port, lambda client: _serve(proxy, client, server)):
        yield proxy


@dataclass(slots=True)
class _Line:
    """One connection; `faults` says in order what is to happen to the answers."""

    client: socket.socket
    server: socket.socket
    faults: deque[FrameFault | None] = field(default_factory=deque)

    def close(self) -> None:
        shut(self.client, self.server)


def _serve(proxy: KafkaProxy, client: socket.socket, server: tuple[str, int]) -> None:
    try:
        line = _Line(client, socket.create_connection(server))
    except OSError:
        client.close()
        return
    answers = threading.Thread(target=_answer, args=(proxy, line), daemon=True)
    answers.start()
    with suppress(OSError):
        while (frame := _frame(line.client)) is not None:
            fault = proxy.next(struct.unpack(">h", frame[:2])[0])
            if fault is FrameFault.LOSE_REQUEST:
                break
            line.faults.append(fault)
            _send(line.server, frame)
            if fault is FrameFault.TWICE:
                line.faults.append(FrameFault.LOSE_REQUEST)  # its answer is swallowed
                _send(line.server, frame)
    line.close()


def _answer(proxy: KafkaProxy, line: _Line) -> None:
    with suppress(OSError):
        while (frame := _frame(line.server)) is not None:
            match line.faults.popleft():
                case FrameFault.LOSE_ANSWER:
                    break
                case FrameFault.LOSE_REQUEST:
                    continue
                case FrameFault.CUT_ANSWER:
                    whole = struct.pack(">i", len(frame)) + frame
                    line.client.sendall(whole[: len(whole) // 2])
                    break
                case FrameFault.LATE_ANSWER:
                    time.sleep(proxy.late_seconds)
            _send(line.client, frame)
    line.close()


def _frame(end: socket.socket) -> bytes | None:
    """Read a whole frame; None at the end of the connection. Raises OSError."""
    head = _exactly(end, 4)
    return None if head is None else _exactly(end, struct.unpack(">i", head)[0])


def _exactly(end: socket.socket, count: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < count:
        piece = end.recv(count - len(pieces))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


def _send(end: socket.socket, frame: bytes) -> None:
    end.sendall(struct.pack(">i", len(frame)) + frame)
