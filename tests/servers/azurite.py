"""Azure's blob storage for tests: Azurite, from npm; slow tests alone fetch it."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from pyarrow import fs
from tests.servers.answering import wait_until_it_answers

from penstock.dev.jars import home
from penstock.dev.ports import free_port

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its documentation has."""
INSTALL_SECONDS_MAX = 600
START_SECONDS_MAX = 120.0


@dataclass
class Azurite:
    """A running server; every test makes containers of its own."""

    port: int
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}/{ACCOUNT}"

    def asked(self) -> None:
        """Ask for anything; a refusal is an answer."""
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.endpoint, timeout=5).close()

    def filesystem(self) -> fs.AzureFileSystem:
        """Return the account as another reader opens it."""
        return fs.AzureFileSystem(
            ACCOUNT,
            account_key=KEY,
            blob_storage_authority=self.host,
            dfs_storage_authority=self.host,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )

    def container(self) -> str:
        """Make a container."""
        name = f"lake-{next(self.numbers)}"
        self.filesystem().create_dir(name)
        return name


def installed() -> Path:
    """Return the folder that it is in: Penstock's cache, whole or not at all."""
    place = home() / f"azurite-{VERSION}"
    if not place.exists():
        npm = which("npm")
        assert npm is not None, "Azurite needs Node and npm"
        home().mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=home()) as above:
            folder = Path(above) / "azurite"
            folder.mkdir()
            words = [npm, "install", "--no-audit", "--no-fund", "--silent", f"azurite@{VERSION}"]
            subprocess.run(words, cwd=folder, check=True, timeout=INSTALL_SECONDS_MAX)
            with suppress(OSError):  # another process was quicker
                folder.rename(place)
    return place


@contextmanager
def running(directory: Path) -> Iterator[Azurite]:
    """Install and start it, with its objects in memory."""
    found = Azurite(free_port())
    program = installed() / "node_modules/azurite/dist/src/blob/main.js"
    command = ["node", program, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]
    command += ["--blobPort", str(found.port)]
    log = directory / "azurite.log"
    with log.open("wb") as into:
        process = subprocess.Popen(command, cwd=directory, stdout=into, stderr=into)
    try:
        wait_until_it_answers(found.asked, process, log, seconds_max=START_SECONDS_MAX)
        yield found
    finally:
        process.terminate()
        process.wait()
