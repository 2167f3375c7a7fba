import traceback
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError
from penstock.engines.spark.failures import java_gone, job_failed, start_failed

LOST = (
    "An error occurred while calling o175.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 8.0 "
    "failed 4 times, most recent failure: Lost task 1.3 in stage 8.0 (TID 40): {cause}\n"
    "\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)\n"
)
RAISED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in f
    raise ValueError(
{line}
"""
DIED = LOST.format(cause="org.apache.spark.SparkException: Python worker exited unexpectedly")
LARGE = ": org.apache.spark.SparkException: bigger than spark.driver.maxResultSize (2.0 MiB)"
STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
OTHER_PYTHON = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker "
    "has different version: 3.12 than that in driver: 3.11"
)
NO_DAEMON = """: org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3: Error while finding module specification
  ModuleNotFoundError: No module named 'penstock'
PYTHONPATH was:
"""


@pytest.mark.parametrize(
    ("text", "kind", "code", "said"),
    [
        (STOPPED, UnavailableError, "P601", "The Java process of Spark is gone"),
        (DIED, UnavailableError, "P606", "org.apache.spark.SparkException: Job aborted"),
        (RAISED.format(line="MemoryError"), UnavailableError, "P606", "died on every attempt"),
        (LARGE, InvalidError, "P607", "larger than the driver accepts"),
        (NO_DAEMON, InvalidError, "P608", "ModuleNotFoundError: No module named 'penstock'"),
        (RAISED.format(line=OTHER_PYTHON), InvalidError, "P608", "different version: 3.12"),
        (RAISED.format(line="ValueError: seven"), BugError, "P710", "A worker failed: ValueError"),
        (LOST.format(cause="disk on fire"), UnavailableError, "P609", "disk on fire"),
        ("", UnavailableError, "P609", "no reason given"),
    ],
)
def test_what_spark_says_becomes_what_the_reader_must_do(
    text: str, kind: type[PenstockError], code: str, said: str
) -> None:
    error = job_failed(text)

    assert (kind, code) == (type(error), error.code)
    assert said in error.message
    assert error.hint


@pytest.mark.parametrize("act", [lambda: pa.allocate_buffer(1 << 60), lambda: np.ones(1 << 50)])
def test_a_library_that_finds_no_memory_is_a_worker_that_died(act: Callable[[], object]) -> None:
    with pytest.raises(MemoryError) as raised:
        act()
    reported = "".join(traceback.format_exception(raised.value))
    error = job_failed(f"org.apache.spark.api.python.PythonException: {reported}")

    assert (UnavailableError, "P606") == (type(error), error.code)
    assert str(raised.value) in error.message


def test_an_error_that_only_speaks_of_memory_stays_a_bug() -> None:
    error = job_failed(RAISED.format(line="ValueError: no MemoryError here"))

    assert "P710" == error.code


@pytest.mark.parametrize(
    ("text", "last_words", "kind", "code", "said"),
    [
        (
            ": o.a.s.SparkException: Could not parse",
            "later",
            InvalidError,
            "P603",
            "Could not parse",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java",
            "Error: no memory",
            InvalidError,
            "P603",
            "Error: no memory",
        ),
        ("", "", InvalidError, "P603", "no reason given"),
        ("[JAVA_GATEWAY_EXITED] Java", "", InvalidError, "P603", "env: 'bash': No such file"),
        ("", "Reason: All masters are unresponsive!", UnavailableError, "P610", "does not accept"),
    ],
)
def test_a_failed_start_says_what_to_check(
    text: str, last_words: str, kind: type[PenstockError], code: str, said: str
) -> None:
    error = start_failed(text, last_words, output=f"{last_words}\nenv: 'bash': No such file")

    assert (kind, code) == (type(error), error.code)
    assert said in error.message


SPARK_BEGINS = """\
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel)."""


@pytest.mark.parametrize(
    ("text", "output", "killed"),
    [
        ("Answer from Java side is empty", "26/11/21 WARN Utils: a host name", True),
        ("[JAVA_GATEWAY_EXITED] Java", "WARNING: Using incubator modules", False),
        ("[JAVA_GATEWAY_EXITED] Java", "26/11/29 02:18:32 WARN Utils: Set SPARK_LOCAL_IP", False),
        ("[JAVA_GATEWAY_EXITED] Java", "OpenJDK 64-Bit Server VM warning: options", False),
        ("[JAVA_GATEWAY_EXITED] Java", "NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g", False),
        ("[JAVA_GATEWAY_EXITED] Java", "Picked up JAVA_TOOL_OPTIONS: -Xmx1g", False),
        ("[JAVA_GATEWAY_EXITED] Java", SPARK_BEGINS, False),
    ],
)
def test_a_java_that_was_killed_while_it_started_may_be_started_again(
    text: str, output: str, *, killed: bool
) -> None:
    error = start_failed(text, "", output=output, killed=killed)

    assert (UnavailableError, "P601") == (type(error), error.code)


def test_a_message_stays_short_whatever_java_said() -> None:
    assert 400 > len(job_failed("x" * 10_000).message)
    assert 400 > len(java_gone("x" * 10_000).message)
