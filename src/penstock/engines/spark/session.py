"""Start a Spark session of our own, and stop it without remains.

Invariants:
- nothing that Java or a worker prints reaches the user's terminal: the last lines are kept, and
  quoted when Java dies;
- Java runs in a process session of its own, out of reach of Ctrl-C and a closed terminal; when this
  process dies, by SIGKILL too, Java's standard input ends and Java exits, and with it the daemon
  and its workers;
- the SIGINT handler stays the one that was installed before (SparkContext installs its own);
- after `stop` or a failed start a new session can be started in this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from penstock.core.errors import InvalidError, PenstockError
from penstock.engines.java import find_java
from penstock.engines.spark.failures import start_failed
from penstock.engines.spark.release import require_installed, require_release
from penstock.engines.spark.settings import (
    SparkSettings,
    archive_for,
    configuration,
    for_command_line,
    is_local,
    java_options_of,
)

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit in the Python process that it starts."""

STOP_SECONDS_MAX = 10.0
DEATH_SECONDS_MAX = 0.5
KILLS = {
    code
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for code in (-number, 128 + number)
}
"""How a signal ends Java: with its number, or with an exit code of 128 more."""
OUTPUT_LINES_MAX = 200
_NO_JAVA = "Error occurred during initialization of VM"
_ERRORS = ("Error", "Exception", "error:", "Could not reserve", "Too small", "Invalid maximum")


class OutputTail:
    """Reads a stream to its end in a thread of its own and keeps its last lines."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: deque[str] = deque(maxlen=OUTPUT_LINES_MAX)
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def last_error(self) -> str:
        """Return the last line that names an error, or ""; waits a moment for the stream's end.

        When Java cannot start its virtual machine, the reason is on the next line.
        """
        self._thread.join(timeout=1.0)
        lines = [line for line in list(self._lines) if not line[:1].isspace()]
        errors = [at for at, line in enumerate(lines) if any(mark in line for mark in _ERRORS)]
        if not errors:
            return ""
        at = errors[-1]
        return ": ".join(lines[at : at + 2]) if lines[at] == _NO_JAVA else lines[at]

    def text(self) -> str:
        """Return the lines kept."""
        return "\n".join(list(self._lines))

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.decode(errors="replace").rstrip())


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A running session that we started, with its Java process and scratch folder."""

    spark: Any
    process: subprocess.Popen[bytes]
    output: OutputTail
    _folder: tempfile.TemporaryDirectory[str]

    def is_alive(self, *, patience_seconds: float = 0.0) -> bool:
        """Return whether Java runs; with patience, wait that long for it to end."""
        try:
            self.process.wait(timeout=patience_seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop(self, patience_seconds: float = STOP_SECONDS_MAX) -> None:
        """Stop Spark, end Java (SIGKILL if it is slow), remove the scratch folder. Never raises."""
        from py4j.protocol import Py4JError

        context = self.spark.sparkContext
        if not self.is_alive():
            context._jsc = None  # noqa: SLF001 - there is no Java left to stop
        with contextlib.suppress(Py4JError, OSError):  # a Java that has just died
            context.stop()
        _end(self.process, patience_seconds)
        _forget()
        self._folder.cleanup()


def start_session(
    settings: SparkSettings, launched: Callable[[Callable[[], None]], None] | None = None
) -> OwnSession:
    """Start Java and a session, about 4 s. In the main thread it leaves SIGINT as it is.

    As soon as Java runs, `launched` is given what kills it, which makes the rest of the start fail.
    Raises InvalidError: no Spark (P297), or of another release (P298), no suitable Java (P602),
    Spark refused the settings (P603), another SparkContext runs in this process (P604);
    UnavailableError: Java was killed (P601), the cluster does not answer (P610).
    """
    require_installed()
    from pyspark import SparkContext, __version__

    require_release(__version__)
    java = find_java(os.environ)
    require_same_spark(os.environ)
    if SparkContext._active_spark_context is not None:  # noqa: SLF001
        raise InvalidError(
            "A Spark session already runs in this process.",
            code="P604",
            hint="pass it: SparkEngine(session=spark), or stop it first",
        )
    _forget()
    _quiet_py4j()
    folder = tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True)
    try:
        with _sigint_kept():
            return _start(settings, folder, archive_for(java, os.environ), launched or _ignore)
    except PenstockError:
        folder.cleanup()
        raise


def existing_session() -> Any:
    """Return the session of this process: the one that runs, or that spark-submit has configured.

    Raises InvalidError: there is none (P604), no Spark at all (P297), Spark refused its settings
    (P603); UnavailableError: the cluster does not answer (P610).
    """
    require_installed()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context is not None  # noqa: SLF001
    if not running and GATEWAY_VARIABLE not in os.environ:
        raise InvalidError(
            "No Spark session runs in this process.",
            code="P604",
            hint="start it with spark-submit, or name a master in the spec",
        )
    with _sigint_kept():
        try:
            return SparkSession.builder.getOrCreate()
        except (Py4JError, PySparkException, OSError) as error:
            text = _text(error)  # Java belongs to spark-submit and prints on its own
            raise start_failed(text, "", output=text) from error


def require_same_spark(environment: Mapping[str, str]) -> None:
    """Raise InvalidError (P603) when SPARK_HOME names a Spark of another version than pyspark's."""
    import pyspark

    home = environment.get("SPARK_HOME", "")
    version = pyspark.__version__.partition("+")[0]
    if home and not list(Path(home).glob(f"jars/spark-core_*-{version}*.jar")):
        raise InvalidError(
            f"SPARK_HOME points at {home}, which is not Spark {version}.",
            code="P603",
            hint="unset SPARK_HOME: pyspark brings its own Spark",
        )


def _start(
    settings: SparkSettings,
    folder: tempfile.TemporaryDirectory[str],
    archive: Path,
    launched: Callable[[Callable[[], None]], None],
) -> OwnSession:
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    chosen = configuration(
        settings,
        folder=folder.name,
        archive=archive if archive.exists() else None,
        java_options=java_options_of(os.environ, Path(pyspark.__file__).parent),
    )
    launch_conf = SparkConf(loadDefaults=False).setAll(list(for_command_line(chosen).items()))
    reading, writing = os.pipe()
    output = OutputTail(os.fdopen(reading, "rb"))  # which is always read
    try:
        with _start_failures(output, None):
            gateway = launch_gateway(
                launch_conf,
                popen_kwargs={"stdout": writing, "stderr": writing, "start_new_session": True},
            )
    finally:
        os.close(writing)
    launched(gateway.proc.kill)
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    with _start_failures(output, gateway.proc):
        context = SparkContext(conf=conf, gateway=gateway)
        spark = SparkSession(context)
        # when we are killed, Java removes the emptied folder as its last act
        context._jvm.java.io.File(folder.name).deleteOnExit()  # noqa: SLF001
    if is_local(settings.master):
        context.pythonExec = sys.executable
    elif "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = chosen.get("spark.pyspark.python", "python3")
    context._accumulatorServer.handle_error = _ignore  # noqa: SLF001 - it would print a traceback
    return OwnSession(spark, gateway.proc, output, folder)


@contextlib.contextmanager
def _start_failures(output: OutputTail, process: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Translate errors of the start, and leave no half-started Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, OSError) as error:
        text, killed = _text(error), False
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # its connections break a moment before it ends
                killed = process.wait(timeout=DEATH_SECONDS_MAX) in KILLS
            _end(process)
        _forget()
        raise start_failed(
            text, output.last_error(), output=output.text(), killed=killed
        ) from error


def _text(error: Exception) -> str:
    """Return an error's text; Py4J asks Java for it, which may have ended."""
    from py4j.protocol import Py4JError

    try:
        return str(error)
    except (Py4JError, OSError):
        return ""


@contextlib.contextmanager
def _sigint_kept() -> Iterator[None]:
    """Put the SIGINT handler back that was installed before; only the main thread has any."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _quiet_py4j() -> None:
    """Keep Py4J from logging tracebacks of a dead Java: that is raised as an error."""
    logger = logging.getLogger("py4j")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    logging.getLogger().addFilter(_not_of_py4j)  # java_gateway.py logs on the root, past its own


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _end(process: subprocess.Popen[bytes], patience_seconds: float = STOP_SECONDS_MAX) -> None:
    """End Java: the end of its standard input is its signal to exit."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=patience_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _forget() -> None:
    """Make pyspark forget a Java process that is ended, so that another can be started."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def _ignore(*_: object) -> None:
    """Do nothing."""
