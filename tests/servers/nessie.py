"""A real Nessie for tests: its own runner, in memory; its warehouse is in the S3 of tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.answering import page, wait_until_it_answers
from tests.servers.jars import NESSIE, runner
from tests.servers.s3 import KEY, REGION, SECRET, S3Server
from tests.servers.wheels import java_21

from penstock.dev.ports import free_port

WAREHOUSE = "lake"
START_SECONDS_MAX = 120.0
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def running(directory: Path, s3: S3Server, bucket: str) -> Iterator[str]:
    """Run a server; give the address of its Iceberg REST catalog."""
    port = free_port()
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": free_port(),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.server.authentication.enabled": "false",
        "nessie.catalog.default-warehouse": WAREHOUSE,
        f"nessie.catalog.warehouses.{WAREHOUSE}.location": f"s3://{bucket}/{WAREHOUSE}",
        **{
            f"nessie.catalog.service.s3.default-options.{name}": value
            for name, value in {
                "endpoint": s3.endpoint,
                "region": REGION,
                "path-style-access": "true",
                "access-key": "urn:nessie-secret:quarkus:tests.keys",
            }.items()
        },
        "tests.keys.name": KEY,
        "tests.keys.secret": SECRET,
    }
    given = [f"-D{name}={value}" for name, value in settings.items()]
    log = directory / "nessie.log"
    with log.open("wb") as into:
        process = subprocess.Popen(
            [java_21(), *_JAVA, *given, "-jar", runner(NESSIE)],
            cwd=directory,
            stdout=into,
            stderr=into,
        )
    address = f"http://127.0.0.1:{port}/iceberg"
    try:
        asked = page(f"{address}/v1/config")
        wait_until_it_answers(asked, process, log, seconds_max=START_SECONDS_MAX)
        yield address
    finally:
        process.kill()
        process.wait()
