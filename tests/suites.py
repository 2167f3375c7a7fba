"""The suites of `make test`: their order, commands and time budgets.

    python tests/suites.py              all suites, then a table of times against budgets
    python tests/suites.py unit layers  these only

- Suites that use one core run two at a time, next to each other in the order below, and one that waits
  most of the time runs beside the one before it; each of them says what it has to say when it ends.
- Every suite runs, also after one failed; the exit code is 1 when any did.
- A suite that finds no tests has failed.
- What failed is named again after the table, where a reader of the last lines finds it.
- docs/reference/suites.md shows the same table; tests/tidy compares them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
TOOLS = Path(PYTHON).parent

CORES = 2
WAITS = 0
"""The cores of a suite that waits for processes and clocks, and hardly computes."""
TWO_AT_ONCE = ("-n", "2")
IN_STRETCHES = ("-n", "3", "--dist", "worksteal")
"""Tests of one file share a Spark session, a server: they stay together, and nobody ends idle.

Three at once on two cores: integration waits for brokers and clocks half of its time.
"""
REPEATED_MAX = 20
"""How many failed tests of a suite are named again."""
REASON_CHARACTERS_MAX = 200
HISTORIES = ("tests/simulation/test_histories.py", "tests/simulation/test_keyed_histories.py")
"""What plays many random histories."""
PREPARE = ("penstock", "prepare")
"""Java's classes are archived once, before the first suites that start Spark."""
UNCACHED = "PYTHONDONTWRITEBYTECODE"
MEMORY, MEMORY_BYTES_MIN = Path("/dev/shm"), 6 << 30
"""Where Linux keeps files in memory, and what must be free there for those of tests."""
TESTS_FAILED = 1
"""What pytest ends with when tests failed, and nothing else went wrong."""


@dataclass(frozen=True, slots=True)
class Suite:
    """What `make NAME` runs: checks by tools first, then tests by pytest, within a budget."""

    name: str
    what: str
    budget_seconds: int
    tools: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    cores: int = CORES


SUITES = (
    Suite(
        "lint",
        "ruff: rules and format",
        3,
        tools=(("ruff", "check", "--quiet", "."), ("ruff", "format", "--check", "--quiet", ".")),
        cores=1,
    ),
    Suite("types", "mypy, strict: sources and benchmarks", 20, tools=(("mypy",),), cores=1),
    Suite(
        "layers",
        "import rules, sizes, names, docs in step",
        17,
        tools=(("lint-imports",),),
        tests=("tests/tidy",),
        cores=1,
    ),
    Suite(
        "proof",
        "the specification, in small; checkers shown planted faults",
        45,
        tests=("tests/proof",),
        cores=1,
    ),
    Suite(
        "page",
        "the page in a real browser, and who may look at it",
        40,
        tests=("tests/page",),
        cores=1,
    ),
    Suite("unit", "one room at a time, no sockets", 50, tests=("tests/unit", *TWO_AT_ONCE)),
    Suite(
        "properties",
        "laws under generated input",
        50,
        tests=("tests/properties", *TWO_AT_ONCE),
    ),
    Suite(
        "contracts",
        "one suite per port against every implementation",
        140,
        tests=("tests/contracts", "-m", "not slow", *TWO_AT_ONCE, "--dist", "worksteal"),
    ),
    Suite(
        "storm-short",
        "a minute of faults over real pipelines; planted faults turn its report red",
        140,
        tools=(PREPARE,),
        tests=("tests/crash/test_storm.py",),
        cores=WAITS,
    ),
    Suite(
        "simulation",
        "the coordinator's stories on verified fakes",
        130,
        tests=("tests/simulation", *(f"--ignore={each}" for each in HISTORIES), *TWO_AT_ONCE),
    ),
    Suite(
        "kills",
        "blows at crash points and rounds of kill -9, each compared with Kafka row by row",
        130,
        tests=("tests/crash", "--ignore=tests/crash/test_storm.py", "-m", "not slow"),
        cores=WAITS,
    ),
    Suite(
        "histories",
        "three thousand random histories, each exact in the end",
        90,
        tests=(*HISTORIES, *TWO_AT_ONCE),
    ),
    Suite(
        "integration",
        "real broker, real catalogs, real Spark",
        600,
        tools=(PREPARE,),
        tests=("tests/integration", "-m", "not slow", *IN_STRETCHES),
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one suite went; `cpu_seconds` are those of all its processes, on whatever cores."""

    suite: Suite
    seconds: float
    cpu_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failed


def main(names: list[str]) -> int:
    """Run the named suites, or all, and give the exit code."""
    known = {suite.name: suite for suite in SUITES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names] if names else list(SUITES)
    begun = time.monotonic()
    outcomes = [outcome for stage in stages(chosen) for outcome in run_stage(stage)]
    if len(chosen) > 1:
        print(table(outcomes, time.monotonic() - begun))
        for line in again(outcomes):
            print(line)
    if any(outcome.counts for outcome in outcomes):
        print(total(outcomes, time.monotonic() - begun))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def stages(chosen: Sequence[Suite]) -> list[list[Suite]]:
    """Return the suites in order, those together that run at the same time."""
    found: list[list[Suite]] = []
    for suite in chosen:
        if found and (suite.cores == WAITS or max(found[-1][0].cores, suite.cores) < CORES):
            found[-1].append(suite)
        else:
            found.append([suite])
    return found


def budget_seconds(chosen: Sequence[Suite]) -> int:
    """Return how long suites may take together."""
    return sum(_lanes_seconds(stage) for stage in stages(chosen))


def _lanes_seconds(stage: Sequence[Suite]) -> int:
    lanes = [0] * CORES
    for suite in stage:
        lanes[lanes.index(min(lanes))] += suite.budget_seconds
    return max(lanes)


def run_stage(stage: Sequence[Suite]) -> list[Outcome]:
    """Run suites at the same time, and one alone so that what it says is seen at once."""
    if len(stage) == 1:
        return [run(stage[0])]
    with ThreadPoolExecutor(CORES) as pool:
        return [*pool.map(_run_quietly, stage)]


def _run_quietly(suite: Suite) -> Outcome:
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        outcome = run(suite, said)
        said.seek(0)
        print(said.read(), end="", flush=True)
    return outcome


def run(suite: Suite, out: IO[str] | None = None) -> Outcome:
    """Run one suite, printing its commands as it goes, to `out` or our own output."""
    print(f"==> {suite.name}: {suite.what}", flush=True, file=out)
    begun = time.monotonic()
    failed, cpu_seconds = [], 0.0
    for tool in suite.tools:
        code, seconds = run_command([str(TOOLS / tool[0]), *tool[1:]], out)
        cpu_seconds += seconds
        if code:
            failed.append(f"{' '.join(tool)} ended with {code}")
    counts: Counter[str] = Counter()
    if suite.tests:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            command = [PYTHON, "-m", "pytest", *suite.tests, f"--junitxml={report}"]
            code, seconds = run_command(command, out)
            cpu_seconds += seconds
            counts = counted(report)
            found = failures(report)
            failed += found
            if code and not (found and code == TESTS_FAILED):
                failed.append(f"pytest ended with {code}")
    if failed:
        print(f"==> {suite.name} failed", flush=True, file=out)
    return Outcome(suite, time.monotonic() - begun, cpu_seconds, counts, tuple(failed))


def run_command(command: list[str], out: IO[str] | None) -> tuple[int, float]:
    """Run a command after saying it, so that it can be repeated by hand.

    Return its exit code and the CPU seconds of its processes.
    """
    shown = [Path(command[0]).name, *(word for word in command[1:] if "--junitxml" not in word)]
    print(f"    {' '.join(shown)}", flush=True, file=out)
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=out, stderr=out and subprocess.STDOUT
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def environment() -> dict[str, str]:
    """Return our environment with Python's cache of compiled modules switched on.

    Tests start hundreds of processes: without it each would compile all of its modules again.
    Temporary files are in memory where there is room: databases and brokers wait for a disk all
    the time, which proves nothing, for no test cuts the power.
    """
    kept = {name: value for name, value in os.environ.items() if name != UNCACHED}
    return {"TMPDIR": str(MEMORY), **kept} if _has_room(MEMORY) else kept


def _has_room(folder: Path) -> bool:
    """Return whether files of tests, some of which are programs, may be in a folder."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    runs = not found.f_flag & os.ST_NOEXEC
    return runs and found.f_bavail * found.f_frsize >= MEMORY_BYTES_MIN


def counted(report: Path) -> Counter[str]:
    """Read how many tests passed, failed, erred or were skipped from pytest's own report."""
    if not report.exists():
        return Counter(errors=1)
    counts: Counter[str] = Counter()
    for suite in ET.parse(report).getroot().iter("testsuite"):
        not_passed = {kind: int(suite.get(kind, 0)) for kind in ("failures", "errors", "skipped")}
        passed = int(suite.get("tests", 0)) - sum(not_passed.values())
        counts += Counter(
            passed=passed,
            failed=not_passed["failures"],
            errors=not_passed["errors"],
            skipped=not_passed["skipped"],
        )
    return counts


def failures(report: Path) -> list[str]:
    """Name the tests that failed or erred, each with the beginning of its reason."""
    if not report.exists():
        return []
    return [
        f"{node_id(case.get('classname', ''), case.get('name', ''))}: "
        f"{' '.join(problem.get('message', '').split())[:REASON_CHARACTERS_MAX]}"
        for case in ET.parse(report).getroot().iter("testcase")
        for kind in ("failure", "error")
        for problem in case.iter(kind)
    ]


def node_id(classname: str, name: str) -> str:
    """Name a test as pytest takes it: a report has dots for what are folders and classes.

    A module that cannot be imported has no class name there, and is its name.
    """
    parts, tests = (classname.split("."), [name]) if classname else (name.split("."), [])
    last = len(parts) - 1
    module = max((at for at, part in enumerate(parts) if part.startswith("test_")), default=last)
    return "::".join([f"{'/'.join(parts[: module + 1])}.py", *parts[module + 1 :], *tests])


def again(outcomes: list[Outcome]) -> list[str]:
    """Name once more what failed, a line each."""
    lines = []
    for outcome in outcomes:
        lines += [f"{outcome.suite.name}: {each}" for each in outcome.failed[:REPEATED_MAX]]
        if more := outcome.failed[REPEATED_MAX:]:
            lines.append(f"{outcome.suite.name}: and {len(more)} more")
    return [*lines, ""] if lines else []


def table(outcomes: list[Outcome], seconds: float) -> str:
    """Show each suite's time against its budget, and how long all of them took."""
    lines = ["", f"{'suite':<14}{'result':<10}{'seconds':>9}{'cpu':>9}{'budget':>9}"]
    for outcome in outcomes:
        over = "  over its budget" if outcome.seconds > outcome.suite.budget_seconds else ""
        result = "passed" if outcome.passed else "FAILED"
        lines.append(
            f"{outcome.suite.name:<14}{result:<10}{outcome.seconds:>9.1f}"
            f"{outcome.cpu_seconds:>9.1f}{outcome.suite.budget_seconds:>9}{over}"
        )
    cpu_seconds = sum(outcome.cpu_seconds for outcome in outcomes)
    budget = budget_seconds([outcome.suite for outcome in outcomes])
    lines.append(f"{'all':<14}{'':<10}{seconds:>9.1f}{cpu_seconds:>9.1f}{budget:>9}")
    return "\n".join([*lines, ""])


def total(outcomes: list[Outcome], seconds: float) -> str:
    """Add all tests up, in one line of pytest's form."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts += outcome.counts
    parts = [f"{counts[kind]} {kind}" for kind in ("failed", "passed", "skipped", "errors")]
    shown = [text for text in parts if not text.startswith("0 ")] or ["0 passed"]
    return f"{', '.join(shown)} in {seconds:.2f}s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
