"""A real Iceberg REST catalog for tests: the server that Iceberg tests its own clients with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.answering import page, wait_until_it_answers
from tests.servers.jars import REST_CATALOG, class_path, java_program

from penstock.dev.ports import free_port

START_SECONDS_MAX = 60.0
_JAVA = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def running(
    directory: Path, *, warehouse: str = "", port: int | None = None, **settings: str
) -> Iterator[str]:
    """Run a server whose tables are named in a SQLite file; give its address.

    `settings` are catalog properties as the server takes them from its environment: `_` for a dot,
    `__` for a hyphen.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    environment = {
        **os.environ,
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": warehouse or f"file://{directory}/warehouse",
        "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db",
        **{f"CATALOG_{name}": value for name, value in settings.items()},
    }
    command = [java_program(), *_JAVA, "-cp", class_path(REST_CATALOG)]
    command.append("org.apache.iceberg.rest.RESTCatalogServer")
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_it_answers(
            page(f"{address}/v1/config"), process, directory / "log", seconds_max=START_SECONDS_MAX
        )
        yield address
    finally:
        process.kill()
        process.wait()


def environment_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Write catalog properties as the server reads them."""
    return {
        name.upper().replace("-", "__").replace(".", "_"): value
        for name, value in properties.items()
    }
