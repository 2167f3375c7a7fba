"""Where the CPU time of a drain goes: the Python processes of a run, sampled by py-spy, native too.

Sampling begins with the first commit, so that no start counts. A sample belongs to the innermost
room of the code on its stack; threads that wait count nowhere. Java is not sampled: the figure
`drain` reports what it uses.

py-spy attaches to a running process, which Linux allows to root, and to others where
/proc/sys/kernel/yama/ptrace_scope is 0.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import specs, tables, topics
from benchmarks.children import FailedError
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

TOPIC = "profile"
ROOT_FRAME = "all"
SHARE_MIN = 0.004
DEPTH_MAX = 40

WORKER = "penstock.engines.spark.daemon"
ROOMS = (
    ("penstock/connectors/kafka/", "fetch"),
    ("penstock/rows/decode/json/block_parser.py", "parse"),
    ("penstock/rows/", "convert"),
    ("penstock/files/", "parquet"),
    ("penstock/connectors/", "tables"),
    ("penstock/", "books"),
    ("pyspark/", "spark"),
)
WAITING = ("select", "poll", "epoll_wait", "recv", "read", "accept4", "pthread_cond_timedwait")
WAITING_FRAMES = ("acquire_lock", "pthread_cond", "clock_nanosleep", "sem_", "futex")


@dataclass(frozen=True, slots=True)
class Options:
    """So many records in epochs of `epoch_records`; the first epoch is not sampled."""

    records: int = 4_000_000
    epoch_records: int = 1_000_000
    partitions: int = 4
    samples_per_second: int = 49


@dataclass(frozen=True, slots=True)
class Sampled:
    """Stacks from the outermost frame to the innermost, with their samples."""

    frames: tuple[str, ...]
    samples: int
    stage: str


def measure(options: Options, place: Scratch) -> Measured:
    """Sample one run; give each stage's share in percent."""
    place.topic(TOPIC, options.partitions)
    topics.fill(place.brokers, TOPIC, options.partitions, options.records)
    folder = place.subfolder("p")
    spec = specs.write(folder, place.brokers, TOPIC, or_records=options.epoch_records)
    child = place.penstock(spec, "--until-caught-up")
    written = folder / "stacks"
    sampler: subprocess.Popen[bytes] | None = None
    for line in child.lines():
        if line["event"] == "TableCommitted" and line["rows"] and sampler is None:
            sampler = _sampler(child.process.pid, options.samples_per_second, written)
    child.ended()
    if sampler is None or sampler.wait(60) or not written.exists():
        raise FailedError("py-spy wrote nothing; may it attach to processes here?")
    tables.checked(folder, "iceberg", options.records)
    sampled = list(stacks(written.read_text(errors="replace").splitlines()))
    total = sum(each.samples for each in sampled)
    if not total:
        raise FailedError("there is not one sample")
    stages: Counter[str] = Counter()
    for each in sampled:
        stages[each.stage] += each.samples
    shares = {f"{stage}_percent": 100 * count / total for stage, count in stages.items()}
    return Measured({**shares, "samples": float(total)}, {"stacks": pruned(sampled)})


def _sampler(pid: int, rate: int, written: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("py-spy")
    if not program.exists():
        raise FailedError("py-spy is not installed:  make install")
    words = ["record", "--subprocesses", "--native", "--format", "raw"]
    options = ["--rate", str(rate), "--output", str(written), "--pid", str(pid)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([program, *words, *options], stdout=quiet, stderr=quiet)


def stacks(lines: Iterable[str]) -> Iterator[Sampled]:
    """Read folded stacks; leave out threads that wait."""
    for line in lines:
        text, _, count = line.rpartition(" ")
        frames = tuple(frame for frame in text.split(";") if not frame.startswith("process "))
        if not count.isdecimal() or not frames or _waits(frames):
            continue
        in_worker = WORKER in text
        stage = next((stage for frame in reversed(frames) if (stage := _room(frame))), "rest")
        named = stage if in_worker else "driver"
        yield Sampled((ROOT_FRAME, named, *frames[-DEPTH_MAX:]), int(count), named)


def _room(frame: str) -> str:
    return next((stage for mark, stage in ROOMS if mark in frame), "")


def _waits(frames: tuple[str, ...]) -> bool:
    innermost = frames[-1].partition(" (")[0]
    last = frames[-3:]
    return innermost in WAITING or any(m in frame for m in WAITING_FRAMES for frame in last)


def pruned(sampled: Iterable[Sampled]) -> dict[str, int]:
    """Add stacks up by their frames, `;` between them, as far as they hold a share that is seen."""
    inside: Counter[tuple[str, ...]] = Counter()
    for each in sampled:
        for depth in range(1, len(each.frames) + 1):
            inside[each.frames[:depth]] += each.samples
    least = SHARE_MIN * inside[(ROOT_FRAME,)]
    return {
        ";".join(_short(frame) for frame in frames): count
        for frames, count in sorted(inside.items())
        if count >= least
    }


def _short(frame: str) -> str:
    """Name a frame without the folder of its library and the arguments of its template."""
    name, _, where = frame.partition(" (")
    return f"{name.split('<')[0][-60:]} ({where.rsplit('/', 1)[-1]}" if where else name[-60:]
