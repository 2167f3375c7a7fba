"""A process of a command ends with its exit code, whatever its libraries' threads do by then."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A thread of Arrow's calls Python, and waits there until the interpreter takes its modules
# apart, `sys` last; then it wants back. Arrow waits for it before the process ends.
LATE = """
import io, os, sys, threading
import pyarrow as pa
import pyarrow.csv

class Slow(io.BytesIO):
    def read(self, size=-1):
        reading.set()
        return os.read(readable, 1)

reading = threading.Event()
readable, writable = os.pipe()
sys.held = open(writable, "wb", buffering=0)
file = pa.PythonFile(Slow(), mode="r")
threading.Thread(target=pyarrow.csv.open_csv, args=(file,), daemon=True).start()
reading.wait()

from penstock.cli import console, main
entry = sys.argv[1]
sys.argv = ["penstock", *sys.argv[2:]]
{"console": console, "main": main}[entry]()
"""


def ended(entry: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LATE, entry, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (("explain", "P101"), 0, "P101", ""),
        (("explain", "P999"), 2, "", "P999"),
        (("--version",), 0, "penstock ", ""),
    ],
)
def test_a_thread_of_a_library_does_not_take_the_exit_code(
    words: tuple[str, ...], code: int, out: str, err: str
) -> None:
    found = ended("console", *words)
    assert code == found.returncode, found.stderr
    assert out in found.stdout
    assert err in found.stderr


def test_such_a_thread_kills_a_process_that_finalizes_the_interpreter() -> None:
    """The signal differs: an abort or a fault of the memory that was taken apart."""
    assert ended("main", "explain", "P101").returncode < 0
