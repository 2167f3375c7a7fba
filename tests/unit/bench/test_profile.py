"""Samples of a profile belong to the innermost room, and those of threads that wait to none."""

from benchmarks.plots import flames
from benchmarks.profile import pruned, stacks

WORKER = 'process 1:"penstock run";process 2:"python -m penstock.engines.spark.daemon"'
CONVERT = "convert (penstock/rows/convert/batch.py:1)"


def test_a_sample_belongs_to_the_innermost_room_on_its_stack() -> None:
    lines = [
        f"{WORKER};main (pyspark/worker.py:9);{CONVERT};parse_block (penstock/rows/decode/json/block_parser.py:1) 7",
        f"{WORKER};main (pyspark/worker.py:9);{CONVERT};take (pyarrow/compute.py:1) 2",
        'process 1:"penstock run";commit (penstock/commit/land.py:3) 4',
        f"{WORKER};something (libc.so.6) 1",
    ]

    reported = [(each.stage, each.samples) for each in stacks(lines)]

    assert [("parse", 7), ("convert", 2), ("driver", 4), ("rest", 1)] == reported


def test_threads_that_wait_count_nowhere() -> None:
    waiting = [
        f"{WORKER};manager (pyspark/daemon.py:1);select (libc.so.6) 90",
        f"{WORKER};x (a.py:1);PyThread_acquire_lock_timed (libpython3.11.so);0x7f (libc.so.6) 9",
    ]

    assert [] == list(stacks([*waiting, "no count"]))


def test_stacks_that_hold_next_to_nothing_are_not_kept() -> None:
    many, few = f"{WORKER};{CONVERT} 999", f"{WORKER};rare (penstock/files/storage_settings.py:1) 1"

    kept = pruned(stacks([many, few]))

    assert {"all": 1000, "all;convert": 999, "all;convert;convert (batch.py:1)": 999} == kept
    assert "99.9 % of 1000 samples" in flames("a picture", kept, "samples")
