"""Translate Spark's failures into what the reader must do. Pure, on texts.

    Spark did not start                              P603  InvalidError      settings, memory
    the cluster does not answer at the start         P610  UnavailableError  try later
    the Java process or its context is gone, or was
    killed while it started                          P601  UnavailableError  restart
    Python workers died on every attempt, or found
    no memory                                        P606  UnavailableError  more memory
    results are larger than the driver accepts       P607  InvalidError      smaller epochs
    executors lack penstock, or Python did not start P608  InvalidError      same environment
    any other failure of the job                     P609  UnavailableError
    a worker raised something that is not ours       P710  BugError

Invariant: the texts matched here are Spark 4.1's; a text not known ends as P609, never as success.
"""

from __future__ import annotations

import re

from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError

LINE_CHARACTERS_MAX = 300

_GONE = (
    "stopped SparkContext",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "SparkContext is stopped",
)
_DIED = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "OutOfMemoryError",
)
_MISSING = (
    "No module named 'penstock",
    "No module named penstock",
    "Error from python worker",
    "PYTHON_VERSION_MISMATCH",
)
_NO_GATEWAY = "JAVA_GATEWAY_EXITED"
_NO_CLUSTER = ("All masters are unresponsive", "Master removed our application")
_TRACEBACK = "Traceback (most recent call last):"
_NO_MEMORY = re.compile(r"(\w+\.)*\w*MemoryError\b|OSError: \[Errno 12\]")
"""Libraries raise kinds of their own below MemoryError: ArrowMemoryError, _ArrayMemoryError."""
_EXPLAINS_NOTHING = re.compile(
    r"(?i:warning)|^[\d/]+ [\d:]+ (WARN|INFO) |^NOTE: |^Picked up "
    r"|^Using Spark's default log4j profile|^Setting default log level|^To adjust logging level"
)
"""What Java and Spark print at any start."""
_CAUSE = re.compile(r"^: (?P<cause>\S.*)$", re.MULTILINE)


def start_failed(text: str, last_words: str, *, output: str, killed: bool = False) -> PenstockError:
    """Translate a failed start: an exception's text, Java's last error line, and all it printed.

    A Java that a signal has `killed`, or that ended before it answered and printed nothing but what
    any start prints, was not misconfigured: something killed it.
    """
    lines = [line for line in output.splitlines() if line and not _EXPLAINS_NOTHING.search(line)]
    if killed or (_NO_GATEWAY in text and not lines):
        return java_gone(last_words)
    if any(mark in text or mark in output for mark in _NO_CLUSTER):
        return UnavailableError(
            "The Spark cluster does not accept the application.",
            code="P610",
            hint="check that the master of spark.master runs and has workers, then try again",
        )
    printed = lines[-1] if _NO_GATEWAY in text else ""
    said = _first_line(text) if _CAUSE.search(text) else last_words or printed or _first_line(text)
    return InvalidError(
        f"Spark did not start: {said[:LINE_CHARACTERS_MAX]}",
        code="P603",
        hint="check spark.master, spark.conf and the memory of this machine",
    )


def java_gone(last_words: str = "") -> UnavailableError:
    """Build the error for a Java process that has ended; it cannot be restarted in this process."""
    said = f" Its last words: {last_words[:LINE_CHARACTERS_MAX]}" if last_words else ""
    return UnavailableError(
        f"The Java process of Spark is gone.{said}",
        code="P601",
        hint="restart; nothing landed is lost. If it comes again, raise spark.driver.memory",
    )


def job_failed(text: str) -> PenstockError:
    """Translate the text of a failed job's exception."""
    if any(mark in text for mark in _GONE):
        return java_gone("its context was stopped")
    if "spark.driver.maxResultSize" in text:
        return results_too_large()
    if any(mark in text for mark in _MISSING):
        return InvalidError(
            f"A worker's Python cannot run penstock: {_python_line(text)}",
            code="P608",
            hint="give executors the same environment: spark.archives, or an image, and "
            "spark.pyspark.python",
        )
    died = any(mark in text for mark in _DIED)
    if died or _NO_MEMORY.match(_python_line(text)):
        said = _first_line(text) if died else _python_line(text)
        return UnavailableError(
            f"Worker processes died on every attempt: {said}",
            code="P606",
            hint="check for the out-of-memory killer; raise spark.executor.memoryOverhead, or "
            "lower slice_bytes",
        )
    if _TRACEBACK in text:
        return BugError(
            f"A worker failed: {_python_line(text)}",
            code="P710",
            hint="report it with the log of the worker",
        )
    return UnavailableError(
        f"Spark failed a job: {_first_line(text)}", code="P609", hint="try again; see Spark's log"
    )


def results_too_large(sizes: str = "") -> InvalidError:
    """Build the error for descriptions of an epoch's files that do not fit on the driver."""
    return InvalidError(
        f"The results of one run are larger than the driver accepts{sizes}.",
        code="P607",
        hint="lower commit.or_bytes, or raise spark.driver.maxResultSize",
    )


def _python_line(text: str) -> str:
    """Return the line of the last traceback that names the exception, else the first line."""
    _, mark, trace = text.rpartition(_TRACEBACK)
    if not mark:
        named = next((line for line in text.splitlines() if "No module named" in line), "")
        return named.strip()[:LINE_CHARACTERS_MAX] or _first_line(text)
    lines = [line for line in trace.splitlines() if line.strip() and not line[0].isspace()]
    return lines[0][:LINE_CHARACTERS_MAX] if lines else _first_line(text)


def _first_line(text: str) -> str:
    """Return the line that names the Java exception, without Py4J's introduction."""
    cause = _CAUSE.search(text)
    if cause is not None:
        return cause.group("cause")[:LINE_CHARACTERS_MAX]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:LINE_CHARACTERS_MAX] if lines else "no reason given"
