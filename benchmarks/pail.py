"""A small S3 in memory, each of whose answers comes late: cheap enough to serve thousands a second.

A real S3 for tests takes most of two cores by itself when a thousand tables are committed to, and
would be what is measured. This one knows whole objects alone: PUT, also only where there is none,
GET, HEAD, and lists.

Invariant: an answer comes `late` seconds after its request was read, however many others wait.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.answering import page, wait_until_it_answers

from benchmarks.scratch import Scratch
from penstock.dev.ports import free_port

_CONTROL = "/-/"


@dataclass(frozen=True, slots=True)
class Pail:
    """A running one; its buckets are there when they are written to."""

    port: int

    def late(self, milliseconds: int) -> None:
        """Let answers come later from now on."""
        self._ask(f"late/{milliseconds}")

    def requests(self) -> int:
        """Count the requests so far."""
        return int(self._ask("count"))

    def _ask(self, what: str) -> bytes:
        address = f"http://127.0.0.1:{self.port}{_CONTROL}{what}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def running(place: Scratch) -> Iterator[Pail]:
    """Run one in a process of its own."""
    pail, log = Pail(free_port()), place.subfolder("pail") / "pail.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pail", str(pail.port)], stdout=said, stderr=said
        )
    try:
        ready = page(f"http://127.0.0.1:{pail.port}{_CONTROL}count")
        wait_until_it_answers(ready, process, log, seconds_max=30)
        yield pail
    finally:
        process.kill()
        process.wait()


@dataclass(slots=True)
class _Server:
    objects: dict[str, bytes] = field(default_factory=dict)
    late_seconds: float = 0.0
    count: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                verb, target, _ = head.split(" ", 2)
                headers = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line
                )
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if target.startswith(_CONTROL):
                    status, found = "200 OK", self._controlled(target.removeprefix(_CONTROL))
                else:
                    self.count += 1
                    await asyncio.sleep(self.late_seconds)
                    status, found = self._answered(verb, target, headers, body)
                writer.write(_answer(status, found, whole=verb != "HEAD"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _controlled(self, words: str) -> bytes:
        if words.startswith("late/"):
            self.late_seconds = int(words.removeprefix("late/")) / 1e3
        return str(self.count).encode()

    def _answered(
        self, verb: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[str, bytes]:
        where = urlsplit(target)
        path = unquote(where.path)
        if verb == "PUT":
            if "if-none-match" in headers and path in self.objects:
                return "412 Precondition Failed", b""
            self.objects[path] = body
            return "200 OK", b""
        if verb == "GET" and "list-type" in where.query:
            return "200 OK", self._listed(path, parse_qs(where.query).get("prefix", [""])[0])
        if path not in self.objects:
            return "404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"
        return "200 OK", self.objects[path]

    def _listed(self, bucket: str, prefix: str) -> bytes:
        begins = f"{bucket.rstrip('/')}/{prefix}"
        rows = "".join(
            f"<Contents><Key>{path.split('/', 2)[2]}</Key><Size>{len(self.objects[path])}</Size>"
            "<LastModified>2026-11-28T00:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
            for path in sorted(self.objects)
            if path.startswith(begins)
        )
        whole = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return whole.encode()


def _answer(status: str, body: bytes, *, whole: bool) -> bytes:
    tag = md5(body, usedforsecurity=False).hexdigest()
    head = (
        f'HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nETag: "{tag}"\r\n'
        "Last-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\nContent-Type: binary/octet-stream\r\n\r\n"
    )
    return head.encode() + (body if whole else b"")


async def _run(port: int) -> None:
    server = await asyncio.start_server(_Server().serve, "127.0.0.1", port, limit=1 << 24)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
