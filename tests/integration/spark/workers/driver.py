"""A driver process for tests that send real signals: driver.py FOLDER WORK HANDLER.

Prints `ready JAVA_PID` when the engine runs, then the outcome of one run of two jobs per line of
its standard input, and `closed` at the end of its input.
"""

import json
import os
import signal
import sys

from penstock.core.errors import PenstockError
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import SparkSettings

folder, work, handler = sys.argv[1:]
engine: SparkEngine


def tell(text: str) -> None:
    print(text, flush=True)


def on_signal(*_: object) -> None:
    tell("signal")
    if handler == "cancel":
        engine.cancel()


if handler != "default":
    signal.signal(signal.SIGINT, on_signal)
engine = SparkEngine(settings=SparkSettings(master="local[2]"), work=work)
tell(f"ready {engine._own.process.pid}")
for _ in sys.stdin:
    try:
        jobs = [json.dumps({"number": n, "folder": folder}) for n in range(2)]
        tell(f"results {' '.join(engine.run(jobs))}")
    except PenstockError as error:
        tell(f"error {error.code} {error.exit_code}")
    except KeyboardInterrupt:
        tell("interrupted")
tell(f"java {engine._own.is_alive()}")
engine.close()
tell(f"closed {os.path.exists(engine._context._conf.get('spark.local.dir')) if engine._context._jsc else False}")
