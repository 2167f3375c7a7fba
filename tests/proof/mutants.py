"""Mutation testing of core/ and commit/: each small change of the code must make a test fail.

    python tests/proof/mutants.py 60            go on where the last run ended, for 60 minutes
    python tests/proof/mutants.py 5 decide.py   only in files whose names end so

- Tests are collected once; each mutant gets a process of its own, forked from there, with the code
  of one function changed. What is changed outside of functions is tried in a process that
  imports the changed file from the start.
- It is killed when a test fails or hangs; the module's own tests come first, then the quickest.
  Nothing is drawn at random: the same mutant meets the same tests.
- A hang is detected by the process's own clock or by its sleeping on, never by a busy machine's.
- Verdicts are kept in docs/design/spec/results/mutants.txt, one line each; what is listed there is not
  tried again while its function is the same. Survivors need a reason in tests/proof/survivors.txt;
  those without one are tried again each time.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import multiprocessing as mp
import os
import random  # noqa: TID251  the order of trial, from a fixed seed
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.proof.mutating import Mutant, mark, mutants_of, mutated  # noqa: E402

SOURCE = ROOT / "src"
KEPT = Path(os.environ.get("MUTANTS_KEPT", ROOT / "docs/design/spec/results/mutants.txt"))
REASONS = ROOT / "tests/proof/survivors.txt"
ROOMS = ("core", "commit")
OWN: dict[str, tuple[str, ...]] = {
    "core/accounting.py": ("tests/unit/core/test_accounting.py",),
    "core/commits.py": ("tests/unit/core/test_commits.py",),
    "core/decide.py": ("tests/unit/core/test_decide.py",),
    "core/receipts.py": ("tests/unit/core/test_receipts.py",),
    "core/resuming.py": ("tests/unit/core/test_resuming.py",),
    "core/audit.py": ("tests/proof/test_audit.py",),
    "core/resolutions.py": ("tests/simulation/test_resolutions.py",),
    "core/offsets.py": ("tests/properties/test_offsets.py",),
    "core/planning.py": ("tests/properties/test_planning.py",),
    "core/file_ranges.py": ("tests/simulation/test_replays.py",),
    "core/schema.py": (
        "tests/unit/core/test_schema.py",
        "tests/unit/rows/schema/test_inference.py",
    ),
    "core/scratch.py": ("tests/contracts/test_memory_tables.py",),
    "core/plain_data.py": ("tests/properties/test_wire.py",),
    "core/serialization.py": ("tests/properties/test_wire.py",),
    "commit/land.py": ("tests/unit/commit", "tests/simulation/test_stories.py"),
    "commit/attempt.py": ("tests/unit/commit", "tests/simulation/test_stories.py"),
    "commit/fence.py": ("tests/unit/commit", "tests/simulation/test_stories.py"),
    "commit/manual.py": (
        *("tests/simulation/test_changes_by_hand.py", "tests/simulation/test_seeks.py"),
        *("tests/simulation/test_resolutions.py", "tests/simulation/test_replays.py"),
    ),
    "commit/catalog_probe.py": ("tests/unit/commit/test_catalog_probe.py",),
    "commit/transactions.py": ("tests/unit/commit/test_transactions.py",),
    "commit/evolution.py": ("tests/simulation/test_evolution.py",),
}
"""What is tried first; of the others the order is that of TESTS."""
HISTORIES = "tests/simulation/test_histories.py::test_whatever"
TESTS = (
    *(
        "tests/unit/core",
        "tests/unit/commit",
        "tests/unit/landing",
        "tests/unit/rows/schema/test_inference.py",
    ),
    *(f"tests/properties/test_{name}.py" for name in ("offsets", "planning", "wire")),
    "tests/simulation/test_stories.py",
    *("tests/contracts/test_memory_tables.py", "tests/proof/test_audit.py"),
    "tests/simulation",
    HISTORIES,
)
LEFT_OUT = (
    *("test_fan_out.py", "test_many.py", "test_recovery_orders.py"),
    *("test_a_seed_is_the_same", "test_the_same_seed", "killed_anywhere"),
)
"""They prove sizes and the simulator itself, or take longer than all others together."""
HISTORIES_COUNT = "120"
RISK = ("decide", "land", "two_phase", "offsets", "commits", "serialization", "audit", "creation")
"""Files that are tried first."""
CPU_SECONDS_MAX = 20.0
"""A test that takes so much of a core hangs: without a mutant each takes less than a third."""
STILL_SECONDS_MAX = 90.0
"""So long a process sleeps on without a moment's work when it hangs."""
BYTES_MAX = 12 << 30
VERBOSE = "MUTANTS_VERBOSE" in os.environ
"""Let the tests talk."""
UNCHANGED = 99
"""How a process ends in which the code could not be changed."""
FOREIGN = (
    *("hypothesis.strategies", "hypothesis.extra.pandas", "msgspec", "numpy", "pandas"),
    *("pyarrow.compute", "pyarrow.json", "pyarrow.parquet", "pydantic", "pytest", "yaml"),
    *("xdist.plugin", "pytest_timeout", "pygments.lexers", "concurrent.futures.process"),
)
"""Imported once, before any process is forked; nothing of ours is."""
WORDS = (
    *("-x", "-q", "-s", "--tb=no", "--hypothesis-seed=0"),
    *("-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:xdist"),
)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import one module from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module that is changed, and no other."""
        del path, target
        if fullname != self.mutant.module:
            return None
        file = str(SOURCE / self.mutant.path)
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed tree."""
        exec(compiled(self.mutant), module.__dict__)


def compiled(mutant: Mutant) -> CodeType:
    """Compile a file with its one change."""
    path = SOURCE / mutant.path
    return compile(mutated(mutant, path.read_text()), str(path), "exec", dont_inherit=True)


def functions() -> dict[tuple[str, str], list[FunctionType]]:
    """Find all functions there are, by file and qualified name."""
    found = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    return found


def changed(mutant: Mutant, known: dict[tuple[str, str], list[FunctionType]]) -> bool:
    """Change the code of a function where it is; return whether that could be done."""
    here = known.get((str(SOURCE / mutant.path), mutant.unit), [])
    waiting = [compiled(mutant)]
    while waiting:
        code = waiting.pop()
        if code.co_qualname == mutant.unit:
            break
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    else:
        return False
    if any(code.co_freevars != each.__code__.co_freevars for each in here):
        return False
    if any(code == each.__code__ for each in here):  # it is a default that is changed
        return False
    for each in here:
        each.__code__ = code
    return bool(here)


class Watched:
    """Have the tests in order, each within its time; return the one that fails."""

    def __init__(self, teller: Connection, mutant: Mutant | None = None) -> None:
        self.teller = teller
        self.mutant = mutant

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let a failing property be: smaller examples kill no better, kept ones are chance."""
        from hypothesis import Phase, settings

        quick = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, phases=quick, database=None)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what takes long, and put the module's own first."""
        items[:] = [each for each in items if not any(name in each.nodeid for name in LEFT_OUT)]
        self.put_in_order(items)

    def put_in_order(self, items: list[pytest.Item]) -> None:
        """Put the module's own tests first."""
        own = OWN.get(self.mutant.path.removeprefix("penstock/"), ()) if self.mutant else ()
        items.sort(key=lambda each: _place(each.nodeid, (*own, *TESTS)))

    def pytest_runtest_logstart(self) -> None:
        """Begin a test's time: a signal ends the process when it is over."""
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report the first test that fails."""
        if report.failed:
            self.teller.send(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report the first file that cannot even be collected."""
        if report.failed:
            self.teller.send(report.nodeid)


def _place(test: str, places: Sequence[str]) -> int:
    if test.startswith(HISTORIES):
        return len(places)
    return next(at for at, each in enumerate(places) if test.startswith(each))


class Server(Watched):
    """Collect the tests, then fork one process after another that runs them."""

    def __init__(self, asked: Connection) -> None:
        super().__init__(asked)
        self.asked = asked

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Serve; in a child, change the code and let pytest go on."""
        known = functions()
        while True:
            self.mutant = self.asked.recv()
            listener, self.teller = mp.Pipe(duplex=False)
            pid = os.fork()
            if not pid:
                os.setsid()
                if self.mutant and not changed(self.mutant, known):
                    os._exit(UNCHANGED)
                self.put_in_order(session.items)
                return None
            self.teller.close()
            self.asked.send(awaited(pid, listener))


def awaited(pid: int, listener: Connection) -> tuple[int, str]:
    """Wait for the tests of a mutant. Gives how the process ended and the test that failed."""
    still = Stillness(pid)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if still.for_long():
            os.killpg(pid, signal.SIGKILL)
            return -os.waitpid(pid, 0)[1], "a test that waits for ever"
        time.sleep(0.01)
    code = os.waitstatus_to_exitcode(ended[1])
    try:
        by = listener.recv() if listener.poll() else ""
    except EOFError:
        by = ""
    listener.close()
    return code, by or ("a test that runs for ever" if code == -signal.SIGPROF else "")


class Stillness:
    """Whether a process does nothing for long: it sleeps, and its clock does not advance."""

    def __init__(self, pid: int) -> None:
        self.tasks = Path(f"/proc/{pid}/task")
        self.clock, self.since, self.looked = -1, time.monotonic(), time.monotonic()

    def for_long(self) -> bool:
        """Poll once a second; return whether nothing was done for STILL_SECONDS_MAX."""
        if time.monotonic() < self.looked + 1:
            return False
        self.looked = time.monotonic()
        try:
            texts = [each.read_text() for each in self.tasks.glob("*/stat")]
        except OSError:  # a thread that has just ended
            return False
        stats = [text.rpartition(")")[2].split() for text in texts]
        clock = sum(int(stat[11]) + int(stat[12]) for stat in stats)
        if clock != self.clock or any(stat[0] != "S" for stat in stats):
            self.clock, self.since = clock, time.monotonic()
        return time.monotonic() - self.since > STILL_SECONDS_MAX


def silenced() -> None:
    """Be quiet, within limits, on nobody's terminal."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_MAX, BYTES_MAX))
    os.environ["PENSTOCK_HISTORIES"] = HISTORIES_COUNT
    if VERBOSE:
        return
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)


def served() -> Connection:
    """Start the process in which tests are collected; give the line to ask it by."""
    ours, theirs = mp.Pipe()
    if not os.fork():
        ours.close()
        silenced()
        os._exit(int(pytest.main([*WORDS, *TESTS], plugins=[Server(theirs)])))
    theirs.close()
    return ours


def from_the_start(mutant: Mutant) -> tuple[int, str]:
    """Try a mutant in a process that imports all of ours, with the changed file."""
    listener, teller = mp.Pipe(duplex=False)
    if not (pid := os.fork()):
        os.setsid()
        silenced()
        sys.meta_path.insert(0, Changed(mutant))
        os._exit(int(pytest.main([*WORDS, *TESTS], plugins=[Watched(teller, mutant)])))
    teller.close()
    code, by = awaited(pid, listener)
    return code, by or ("an import that fails" if code == pytest.ExitCode.USAGE_ERROR else "")


def killer(mutant: Mutant, server: Connection) -> str:
    """Name the test that kills a mutant; "" when it lives through all."""
    if mutant.unit:
        server.send(mutant)
        code, by = server.recv()
        if code == UNCHANGED:
            code, by = from_the_start(mutant)
    else:
        code, by = from_the_start(mutant)
    assert by or code in {0, -signal.SIGSEGV, -signal.SIGABRT}, (
        f"{mutant}: the trial itself failed, with code {code}"
    )
    return (by or f"signal {-code}") if code else ""


def verdicts() -> dict[str, tuple[str, str]]:
    """Read what was found out before of functions that are the same: verdict, and its line."""
    if not KEPT.exists():
        return {}
    marks, found = {}, {}
    for mutant in every_mutant():
        unit = mutant.path, mutant.unit
        if unit not in marks:
            marks[unit] = mark(mutant.unit, (SOURCE / mutant.path).read_text())
        found[f"{marks[unit]} {mutant}"] = str(mutant)
    kept = {}
    for line in KEPT.read_text().splitlines():
        verdict, rest = line.split("  by ", 1)[0].split(" ", 1)
        if rest in found:
            kept[found[rest]] = verdict, line
    return kept


def reasons() -> dict[str, str]:
    """Read why mutants survive: a line is the mutant, two spaces, the reason."""
    return dict(line.split("  ", 1) for line in REASONS.read_text().splitlines() if line)


def every_mutant() -> list[Mutant]:
    """List all mutants there are."""
    paths = [
        path.relative_to(SOURCE).as_posix()
        for room in ROOMS
        for path in sorted((SOURCE / "penstock" / room).glob("*.py"))
    ]
    return [each for p in paths for each in mutants_of(p, (SOURCE / p).read_text())]


def summary(found: dict[str, tuple[str, str]], total: int) -> str:
    """Return the share that was killed."""
    killed = sum(verdict == "killed" for verdict, _ in found.values())
    share = 100 * killed / max(len(found), 1)
    return f"{killed:,} of {len(found):,} killed ({share:.1f} %), of {total:,} mutants in all"


def main(words: list[str]) -> int:
    """Try mutants until the time is up: files of risk first, and in a fixed random order."""
    deadline = time.monotonic() + 60 * float(words[0])
    ending = words[1] if len(words) > 1 else ""
    every, explained = every_mutant(), reasons()
    found = {
        name: each for name, each in verdicts().items() if each[0] == "killed" or name in explained
    }
    chosen = [each for each in every if each.path.endswith(ending) and str(each) not in found]
    random.Random(0).shuffle(chosen)
    chosen.sort(key=lambda each: Path(each.path).stem not in RISK)
    os.chdir(ROOT)
    KEPT.write_text("".join(f"{line}\n" for _, line in found.values()))
    for name in FOREIGN:
        importlib.import_module(name)
    server = served()
    server.send(None)
    assert (0, "") == (whole := server.recv()), f"without any mutant: {whole}"
    for mutant in chosen:
        if time.monotonic() > deadline:
            break
        by = killer(mutant, server)
        verdict = "killed" if by else "survived"
        line = f"{verdict} {mark(mutant.unit, (SOURCE / mutant.path).read_text())} {mutant}"
        found[str(mutant)] = verdict, line
        with KEPT.open("a") as kept:
            kept.write(f"{line}  by {by}\n" if by else f"{line}\n")
        if not by:
            print(f"survived: {mutant}  (line {mutant.line})", flush=True)
    print(summary(found, len(every)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
