"""A real one-node Kafka broker on this machine: up, down, status.

Invariants:
- one broker per directory, with everything in that directory: data, log, state, settings;
- a process counts as the broker only when it is alive, was started when the state file says, and
  runs on this directory's settings: a stale or recycled process id is never trusted, nor killed;
- `up` returns when the broker has answered a client, or raises and leaves no process running;
- a broker that was started from another folder is never chosen, only listed: it may belong to
  another project.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev.jars import BROKER, Progress, held, jars_of, silent
from penstock.dev.ports import HOST, PORT_MAX, free_port, is_free
from penstock.engines.java import find_java

HOME = Path(".penstock/dev")
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 30
KILL_SECONDS_MAX = 10
FREE_PORT_TRIES = 3
LOG_TAIL_BYTES = 20_000
MAIN = "kafka.Kafka"
SETTINGS = "server.properties"
STATE = "broker.json"
LOG = "broker.log"
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


Prepare = Callable[[Path], None]
"""Makes the data directory of a broker ready for its settings."""


@dataclass(frozen=True, slots=True)
class Running:
    """Where a broker answers, and its process."""

    bootstrap: str
    pid: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The broker that is meant, if one runs; `others` are the directories of those elsewhere."""

    directory: Path
    running: Running | None
    others: Sequence[Path] = ()


def up(
    directory: Path,
    port: int,
    *,
    progress: Progress = silent,
    properties: Mapping[str, str] | None = None,
    cluster: str = "",
) -> Running:
    """Start the broker of a directory, or return the one that already runs there.

    `port` is any free one when 0. `properties` of the broker win over PROPERTIES; `{port}` and
    `{controller}` in their values are replaced by its ports. `cluster` is the id of one that the
    broker belongs to; without it is one of its own. Raises InvalidError: no usable Java
    (P602), wrong jars (P653), no Ivy (P655), port in use (P656), directory cannot be written
    (P659); UnavailableError: jars cannot be fetched (P654), the broker ended or did not answer
    (P657).
    """
    if not 0 <= port <= PORT_MAX:
        raise InvalidError(
            f"{port} is not a port: ports are 0 to {PORT_MAX}",
            code="P656",
            hint="penstock dev up --port 0  (takes a free port)",
        )
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with held(directory / "up.lock"):
            running = status(directory)
            if running:
                return running
            found = find_java(os.environ)
            jars = jars_of(BROKER, found, progress=progress)
            java = [str(found.path), *JVM, *LOGGING, "-cp", f"{jars}/*"]
            prepare = partial(_format, directory, java, cluster=cluster or _cluster_id())
            return _start(directory, java, prepare, properties or {}, port)
    except OSError as error:
        raise InvalidError(
            f"{error.filename or directory} cannot be written: {error.strerror}",
            code="P659",
            hint="choose another directory, or free some space",
        ) from error


def down(directory: Path) -> bool:
    """Stop the broker of a directory; False when none runs. Raises UnavailableError (P658)."""
    directory = directory.absolute()
    found = _found(directory)
    if found is not None:
        _end(found[0])
    (directory / STATE).unlink(missing_ok=True)
    return found is not None


def status(directory: Path) -> Running | None:
    """Return the broker that runs on a directory, or None."""
    found = _found(directory.absolute())
    return found[1] if found is not None else None


def chosen(directory: Path | None) -> Chosen:
    """Return the broker of a directory, or that of this folder, wherever its data are.

    Raises InvalidError (P192) where several were started from this folder, none of them in the
    default directory.
    """
    wanted = directory or HOME
    running = status(wanted)
    if directory is not None or running is not None:
        return Chosen(wanted, running)
    found = sorted(everywhere())
    here = [(place, each) for place, folder, each in found if folder == Path.cwd()]
    if len(here) > 1:
        names = ", ".join(str(place) for place, _ in here)
        raise InvalidError(
            f"several brokers were started from this folder: {names}",
            code="P192",
            hint=f"name one:  penstock dev down --directory {here[0][0]}",
        )
    if here:
        return Chosen(*here[0])
    return Chosen(wanted, None, [place for place, _, _ in found])


def _start(
    directory: Path, java: list[str], prepare: Prepare, properties: Mapping[str, str], port: int
) -> Running:
    """Start on a port; another program may take a free port first, so try again."""
    for _ in range(FREE_PORT_TRIES - 1):
        try:
            return _start_on(directory, java, prepare, properties, port or free_port())
        except UnavailableError:
            if port or PORT_TAKEN not in _log_tail(directory):
                raise
    return _start_on(directory, java, prepare, properties, free_port())


def _start_on(
    directory: Path, java: list[str], prepare: Prepare, properties: Mapping[str, str], port: int
) -> Running:
    if not is_free(port):
        raise _taken(port)
    settings = _write_settings(directory, properties, port)
    prepare(settings)
    state_file, log_file = directory / STATE, directory / LOG
    if log_file.exists():
        log_file.replace(log_file.with_suffix(".log.1"))
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*java, MAIN, str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
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
        state_file.write_text(json.dumps(state))
        _wait_until_it_answers(process, port, directory)
    except BaseException:
        process.kill()
        process.wait()
        state_file.unlink(missing_ok=True)
        raise
    process.returncode = 0  # it outlives us on purpose: keeps Popen from warning about that
    return Running(f"{HOST}:{port}", process.pid)


def _taken(port: int) -> InvalidError:
    bootstrap = f"{HOST}:{port}"
    for place, folder, running in everywhere():
        if running.bootstrap == bootstrap:
            return InvalidError(
                f"port {port} is in use by Penstock's broker of {folder}",
                code="P656",
                hint=f"use it:  export BROKERS={bootstrap}  or stop it:"
                f"  penstock dev down --directory {shlex.quote(str(place))}",
            )
    return InvalidError(
        f"port {port} of this machine is in use by another program",
        code="P656",
        hint="penstock dev up --port 0  (takes a free port)",
    )


def _write_settings(directory: Path, properties: Mapping[str, str], port: int) -> Path:
    controller = free_port(port)
    settings = {
        **PROPERTIES,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(directory / "data"),
    }
    for name, value in properties.items():
        settings[name] = value.replace("{port}", str(port)).replace("{controller}", str(controller))
    path = directory / SETTINGS
    escaped = {name: value.replace("\\", "\\\\") for name, value in settings.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return path


def _cluster_id() -> str:
    first, *rest = secrets.token_bytes(16)  # the first bit is off, so that it never begins with -
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _format(directory: Path, java: list[str], settings: Path, *, cluster: str) -> None:
    if (directory / "data" / "meta.properties").exists():
        return
    done = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=START_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(
            f"the broker's data directory could not be formatted: {_error_line(done.stderr)}",
            code="P657",
            hint=f"rm -r '{directory}' && penstock dev up",
        )


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    hint = f"the reason is at the end of {directory / LOG}"
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
        f"{_error_line(_log_tail(directory))}",
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
                found = _found(directory)
            except OSError:  # another user's
                continue
            if found is not None and found[1].pid == process.pid:
                yield directory, found[2], found[1]


def _found(directory: Path) -> tuple[psutil.Process, Running, Path] | None:
    """Return the broker's process, and where it was started, if the state file still names it."""
    try:
        state = json.loads((directory / STATE).read_text())
        process = psutil.Process(state["pid"])
        running = Running(f"{HOST}:{int(state['port'])}", process.pid)
        ours = (
            process.create_time() == state["started"]
            and str(directory / SETTINGS) in process.cmdline()
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except (FileNotFoundError, ValueError, KeyError, psutil.Error):
        return None
    return (process, running, Path(state.get("folder", ""))) if ours else None


def _end(process: psutil.Process) -> None:
    for act, seconds in ((process.terminate, STOP_SECONDS_MAX), (process.kill, KILL_SECONDS_MAX)):
        with contextlib.suppress(psutil.TimeoutExpired):
            with contextlib.suppress(psutil.NoSuchProcess):
                act()
                process.wait(timeout=seconds)
            return
    raise UnavailableError(
        f"the broker, process {process.pid}, does not end",
        code="P658",
        hint=f"kill -9 {process.pid}",
    )


def _log_tail(directory: Path) -> str:
    """Return the end of what the broker has logged since its last start."""
    try:
        with (directory / LOG).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _error_line(text: str) -> str:
    """Return the last line that names an exception or error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "xception:" in line or "ERROR" in line]
    return (errors or lines or ["no reason was given"])[-1]
