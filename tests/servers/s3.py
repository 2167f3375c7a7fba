"""An S3 for tests (moto), which honours conditions of PUT; in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import boto3
from tests.servers.answering import page, wait_until_it_answers

from penstock.dev.ports import free_port

START_SECONDS_MAX = 60.0
REGION = "eu-central-1"
_REQUEST = re.compile(r"\b(HEAD|GET|PUT|POST|DELETE) (/\S*) HTTP")
KEY, SECRET = "AKIAPENSTOCKTEST", "hush/hush+hush"


@dataclass
class S3Server:
    """A running server; every test makes buckets of its own."""

    port: int
    log: Path
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str = "s3"):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def bucket(self) -> str:
        name = f"lake-{os.getpid()}-{next(self.numbers)}"
        self.client().create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        return name

    def requests(self) -> list[str]:
        """List the requests it has answered, as `GET /bucket/key`."""
        mark = f"/moto-api/?mark={next(self.numbers)}"
        with urllib.request.urlopen(f"{self.endpoint}{mark}", timeout=5):
            pass
        while mark not in (reported := self.log.read_text(errors="replace")):
            time.sleep(0.01)
        return [
            f"{verb} {path}"
            for verb, path in _REQUEST.findall(reported)
            if "/moto-api/" not in path
        ]

    def keys(self, bucket: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))


@contextmanager
def running(directory: Path, **environment: str) -> Iterator[S3Server]:
    server = S3Server(free_port(), directory / "s3.log")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(server.port)]
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **environment}
        )
    try:
        wait_until_it_answers(
            page(f"{server.endpoint}/moto-api/"), process, server.log, seconds_max=START_SECONDS_MAX
        )
        yield server
    finally:
        process.kill()
        process.wait()
