"""A real one-node Kafka broker on this machine: up, down, status.

Invariants:
- one broker per directory, with everything in that directory: data, log, state, settings;
- a process counts as the broker only when it is alive, was started when the state file says, and
  runs on this directory's settings: a stale or recycled process id is never trusted, nor killed;
- `up` returns when the broker has answered a client, or raises and leaves no process running.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev.jars import Progress, broker_jars, held, silent
from penstock.dev.ports import HOST, free_port, is_free
from penstock.engines.java import SPARK_JAVA_MAJORS, Java, find_java

PORT_DEFAULT = 9092
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 30
KILL_SECONDS_MAX = 10
FREE_PORT_TRIES = 3
LOG_TAIL_BYTES = 20_000
MAIN = "kafka.Kafka"
SETTINGS = "server.properties"
PORT_TAKEN = "Address already in use"

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "8388608",
    # Records of long ago are tried out here, and would be deleted for their age.
    "log.retention.ms": "-1",
}
# Small and quick to start; 128 MiB of heap still work.
JVM = ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


@dataclass(frozen=True, slots=True)
class Running:
    """Where a broker answers, and its process."""

    bootstrap: str
    pid: int


@dataclass(frozen=True, slots=True)
class Options:
    """What tests change: more broker properties (they win), and the cache for jars.

    In property values `{port}` is replaced by the port of clients.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    cache: Path | None = None


def up(
    directory: Path,
    port: int | None = None,
    *,
    progress: Progress = silent,
    options: Options | None = None,
) -> Running:
    """Start the broker of a directory, or return the one that already runs there.

    `port` is 9092 when None, and any free one when 0. Raises InvalidError: no usable Java (P650 to
    P652), wrong jars (P653), port in use (P656), directory cannot be written (P659);
    UnavailableError: jars cannot be fetched (P654), the broker ended or did not answer (P657).
    """
    directory = directory.absolute()
    options = options or Options()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with held(directory / "up.lock"):
            running = status(directory)
            if running:
                return running
            java = find_java(SPARK_JAVA_MAJORS, environment=os.environ)
            jars = broker_jars(java, cache=options.cache, progress=progress)
            return _start(_Launch(directory, java, jars, options), port)
    except OSError as error:
        raise InvalidError(
            f"{error.filename or directory} cannot be written: {error.strerror}",
            code="P659",
            hint="choose another directory, or free some space",
        ) from error


def down(directory: Path) -> bool:
    """Stop the broker of a directory; return False when none runs there.

    Raises UnavailableError (P658) when the process cannot be ended.
    """
    directory = directory.absolute()
    found = _found(directory)
    if found is not None:
        _end(found[0])
    _state_file(directory).unlink(missing_ok=True)
    return found is not None


def status(directory: Path) -> Running | None:
    """Return the broker that runs on a directory, or None."""
    found = _found(directory.absolute())
    if found is None:
        return None
    process, port = found
    return Running(f"{HOST}:{port}", process.pid)


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a start needs, except the port."""

    directory: Path
    java: Java
    jars: Path
    options: Options

    def command(self, *arguments: str) -> list[str]:
        """Return a command line for one of Kafka's main classes."""
        return [str(self.java.path), *JVM, *LOGGING, "-cp", f"{self.jars}/*", *arguments]


def _start(launch: _Launch, port: int | None) -> Running:
    """Start on a port; another program may take a free port first, so try again."""
    if port != 0:
        return _start_on(launch, PORT_DEFAULT if port is None else port)
    for _ in range(FREE_PORT_TRIES - 1):
        try:
            return _start_on(launch, free_port())
        except UnavailableError:
            if PORT_TAKEN not in _log_tail(launch.directory):
                raise
    return _start_on(launch, free_port())


def _start_on(launch: _Launch, port: int) -> Running:
    if not is_free(port):
        raise InvalidError(
            f"port {port} of this machine is in use by another program",
            code="P656",
            hint="penstock dev up --port 0  (takes a free port)",
        )
    settings = _write_settings(launch, port)
    _format(launch, settings)
    log_file = _log_file(launch.directory)
    if log_file.exists():
        log_file.replace(log_file.with_suffix(".log.1"))
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            launch.command(MAIN, str(settings)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=launch.directory,
            start_new_session=True,  # a Ctrl-C in this terminal is not meant for the broker
        )
    started = psutil.Process(process.pid)
    try:
        state = {
            "pid": process.pid,
            "started": started.create_time(),
            "port": port,
            "folder": str(Path.cwd()),
        }
        _state_file(launch.directory).write_text(json.dumps(state))
        _wait_until_it_answers(process, port, launch.directory)
    except BaseException:
        process.kill()
        process.wait()
        _state_file(launch.directory).unlink(missing_ok=True)
        raise
    process.returncode = 0  # it outlives us on purpose: keeps Popen from warning about that
    return Running(f"{HOST}:{port}", process.pid)


def _write_settings(launch: _Launch, port: int) -> Path:
    controller = free_port(port)
    settings = {
        **PROPERTIES,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(launch.directory / "data"),
    }
    for name, value in launch.options.properties.items():
        settings[name] = value.replace("{port}", str(port)).replace("{controller}", str(controller))
    path = launch.directory / SETTINGS
    escaped = {name: value.replace("\\", "\\\\") for name, value in settings.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return path


def _format(launch: _Launch, settings: Path) -> None:
    """Write the cluster id into a new data directory; one that has it is left alone."""
    if (launch.directory / "data" / "meta.properties").exists():
        return
    arguments = ("format", "-t", _new_cluster_id(), "-c", str(settings))
    done = subprocess.run(
        launch.command("kafka.tools.StorageTool", *arguments),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=START_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(
            f"the broker's data directory could not be formatted: {_telling(done.stderr)}",
            code="P657",
            hint=f"rm -r '{launch.directory}' && penstock dev up",
        )


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    hint = f"the reason is at the end of {_log_file(directory)}"
    while process.poll() is None:
        if not is_free(port) and _answers(port):
            return
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"the broker did not answer within {START_SECONDS_MAX} s", code="P657", hint=hint
            )
        time.sleep(0.02)
    raise UnavailableError(
        f"the broker ended with {process.returncode} before it answered: "
        f"{_telling(_log_tail(directory))}",
        code="P657",
        hint=hint,
    )


def _answers(port: int) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    try:
        return bool(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def everywhere() -> Iterator[tuple[Path, Path, Running]]:
    """Yield this user's brokers on this machine: directory, folder of `dev up`, and address."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if MAIN in words and Path(words[-1]).name == SETTINGS:
            directory = Path(words[-1]).parent
            try:
                running = status(directory)
                state = json.loads(_state_file(directory).read_text())
            except (OSError, ValueError):  # another user's, or it has ended meanwhile
                continue
            if running is not None and running.pid == process.pid:
                yield directory, Path(state.get("folder", "")), running


def _found(directory: Path) -> tuple[psutil.Process, int] | None:
    """Return the broker's process and port, if the state file still names it."""
    try:
        state = json.loads(_state_file(directory).read_text())
        process, port = psutil.Process(state["pid"]), int(state["port"])
        ours = (
            process.create_time() == state["started"]
            and str(directory / SETTINGS) in process.cmdline()
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except (FileNotFoundError, ValueError, KeyError, psutil.Error):
        return None
    return (process, port) if ours else None


def _end(process: psutil.Process) -> None:
    """Terminate a process; kill it if it does not end."""
    for act, seconds in ((process.terminate, STOP_SECONDS_MAX), (process.kill, KILL_SECONDS_MAX)):
        try:
            act()
            process.wait(timeout=seconds)
        except psutil.NoSuchProcess:
            return
        except psutil.TimeoutExpired:
            continue
        else:
            return
    raise UnavailableError(
        f"the broker, process {process.pid}, does not end",
        code="P658",
        hint=f"kill -9 {process.pid}",
    )


def _new_cluster_id() -> str:
    """Return a UUID in Kafka's form; the first bit is off, so that it never begins with -."""
    first, *rest = secrets.token_bytes(16)
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _log_tail(directory: Path) -> str:
    """Return the end of what the broker has logged since its last start."""
    try:
        with _log_file(directory).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _telling(text: str) -> str:
    """Return the last line that names an exception or error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "xception:" in line or "ERROR" in line]
    return (telling or lines or ["no reason was given"])[-1]


def _log_file(directory: Path) -> Path:
    return directory / "broker.log"


def _state_file(directory: Path) -> Path:
    return directory / "broker.json"
