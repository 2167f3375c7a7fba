"""A way to a server that takes time: each byte arrives later, in order, as over a long line.

Invariant: a request and its answer together take `answer_seconds` longer; nothing is lost, changed
or held back by what came before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

CHUNK = 1 << 16

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def farther(port: int, answer_seconds: float) -> Iterator[int]:
    """Listen on a port of this machine that leads to another one; give it."""
    opened: Future[int] = Future()
    ended: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        server = await asyncio.start_server(_line(port, answer_seconds), "127.0.0.1", 0)
        over = asyncio.Event()
        ended.set_result((asyncio.get_running_loop(), over))
        opened.set_result(int(server.sockets[0].getsockname()[1]))
        await over.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="distance", daemon=True)
    thread.start()
    try:
        yield opened.result(timeout=10)
    finally:
        loop, over = ended.result(timeout=10)
        loop.call_soon_threadsafe(over.set)
        thread.join(timeout=10)


def _line(port: int, seconds: float) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            theirs, mine = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_carry(reader, mine, seconds), _carry(theirs, writer, 0.0))

    return serve


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
    """Carry bytes one way, each so much later than it came."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def receive() -> None:
        while data := await reader.read(CHUNK):
            on_the_way.put_nowait((loop.time() + late, data))
        on_the_way.put_nowait((loop.time() + late, b""))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, data = await on_the_way.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                return
            writer.write(data)
            await writer.drain()
    finally:
        receiving.cancel()
        writer.close()
