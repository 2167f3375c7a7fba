"""A driver process for tests that send real signals: driver.py FOLDER WORK HANDLER.

Prints `ready JAVA_PID` when the engine runs, the outcome of one run of two jobs per line of its
standard input, and at its end whether Java was alive and `closed`. The handler `note` reports the
first signal and cancels at the second; `default` is Python's own, which a shell's background lacks.
"""

import json
import os
import signal
import sys

from penstock.core.errors import PenstockError
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import SparkSettings

folder, work, handler = sys.argv[1:]
signals: list[int] = []


def report(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def on_signal(number: int, _: object) -> None:
    signals.append(number)
    report(f"signal {len(signals)}")
    if len(signals) > 1:
        engine.cancel()


signal.signal(signal.SIGINT, on_signal if handler == "note" else signal.default_int_handler)
engine = SparkEngine(settings=SparkSettings(master="local[2]"), work=work)
report(f"ready {engine._own.process.pid}")
for _ in sys.stdin:
    try:
        jobs = [json.dumps({"number": n, "folder": folder}) for n in range(2)]
        report(f"results {' '.join(engine.run(jobs))}")
    except PenstockError as error:
        report(f"error {error.code} {error.exit_code}")
    except KeyboardInterrupt:
        report("interrupted")
report(f"java {engine._own.is_alive()}")
engine.close()
report("closed")
