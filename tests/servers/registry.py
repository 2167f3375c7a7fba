"""A real schema registry for tests: Apicurio's, in memory, which speaks Confluent's protocol too."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.servers.answering import page, wait_until_it_answers
from tests.servers.jars import SCHEMA_REGISTRY, java_program, unpacked

from penstock.dev.ports import free_port

START_SECONDS_MAX = 90.0
_JAVA = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1")
_JSON = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """One that runs. `url` is what a spec names."""

    url: str
    process: subprocess.Popen[bytes]

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Register a schema under a subject, as serializers do, and give its number."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        order = {"schema": text, "schemaType": kind, "references": [dict(e) for e in references]}
        request = urllib.request.Request(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions",
            json.dumps(order).encode(),
            {"Content-Type": _JSON},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            number: int = json.load(answer)["id"]
        return number


@contextmanager
def running(directory: Path) -> Iterator[RegistryServer]:
    """Run a registry that forgets all at its end."""
    directory.mkdir(parents=True, exist_ok=True)
    (program,) = unpacked(SCHEMA_REGISTRY).glob("*-runner.jar")
    port = free_port()
    command = [java_program(), *_JAVA, f"-Dquarkus.http.port={port}", "-jar", str(program)]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        wait_until_it_answers(
            page(f"{url}/subjects"), process, directory / "log", seconds_max=START_SECONDS_MAX
        )
        yield RegistryServer(url, process)
    finally:
        process.kill()
        process.wait()
