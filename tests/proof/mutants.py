"""Mutation testing of core/ and commit/: each small change of the code must make a test fail.

    python tests/proof/mutants.py 60            go on where the last run ended, for 60 minutes
    python tests/proof/mutants.py 5 decide.py   only in files whose names end so

- A mutant is one changed place: a comparison, a sign, a number, a condition or a part of one, a
  filter, a call left out, the smaller for the larger.
- It is killed when a stage fails or hangs; the module's own tests come first, then the quickest,
  the next only if it lives. Nothing is drawn at random: the same mutant meets the same tests.
- Verdicts are kept in docs/design/spec/results/mutants.txt, one line each; what stands there is not
  tried again while its file is the same. Survivors need a reason in tests/proof/survivors.txt.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib
import importlib.abc
import importlib.util
import math
import os
import random  # noqa: TID251  the order of trial, from a fixed seed
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
KEPT = Path(os.environ.get("MUTANTS_KEPT", ROOT / "docs/design/spec/results/mutants.txt"))
REASONS = ROOT / "tests/proof/survivors.txt"
ROOMS = ("core", "commit")
Stage = tuple[str, ...]
OWN: dict[str, Stage] = {
    "core/accounting.py": ("tests/unit/core/test_accounting.py",),
    "core/commits.py": ("tests/unit/core/test_commits.py",),
    "core/decide.py": ("tests/unit/core/test_decide.py",),
    "core/audit.py": ("tests/proof/test_audit.py",),
    "core/closings.py": ("tests/simulation/test_closings.py",),
    "core/errors.py": ("tests/unit/core",),
    "core/offsets.py": ("tests/properties/test_offsets.py",),
    "core/planning.py": ("tests/properties/test_planning.py",),
    "core/replaying.py": ("tests/simulation/test_replays.py",),
    "core/schema.py": ("tests/unit/core/test_schema.py", "tests/unit/rows/test_infer.py"),
    "core/scratch.py": ("tests/contracts/test_memory_tables.py",),
    "core/wire.py": ("tests/properties/test_wire.py",),
    "commit/beginnings.py": ("tests/simulation/test_stories.py",),
    "commit/once.py": ("tests/unit/commit", "tests/simulation/test_stories.py"),
    "commit/two_phase.py": ("tests/simulation/test_stories.py",),
    "commit/by_hand.py": (
        *("tests/simulation/test_changes_by_hand.py", "tests/simulation/test_seeks.py"),
        *("tests/simulation/test_closings.py", "tests/simulation/test_replays.py"),
    ),
    "commit/rehearsal.py": ("tests/unit/commit/test_rehearsal.py",),
    "commit/widening.py": ("tests/simulation/test_evolution.py",),
}
STAGES: tuple[Stage, ...] = (
    ("tests/unit/core", "tests/unit/commit", "tests/unit/landing"),
    tuple(f"tests/properties/test_{name}.py" for name in ("offsets", "planning", "wire")),
    ("tests/simulation/test_stories.py",),
    ("tests/simulation/test_histories.py", "-k", "whatever"),
    ("tests/contracts/test_memory_tables.py", "tests/proof/test_audit.py"),
    ("tests/simulation/test_found_by_the_specification.py", "tests/simulation/test_life.py"),
)
RISK = ("decide", "once", "two_phase", "offsets", "commits", "wire", "audit", "beginnings")
"""Files that are tried first."""
HISTORIES = "150"
SECONDS_MIN, TIMES_MAX = 20.0, 6.0
"""A stage that takes so many times as long as without a mutant, and this long, hangs."""
BYTES_MAX = 12 << 30
VERBOSE = "MUTANTS_TOLD" in os.environ
FOREIGN = (
    *("hypothesis.strategies", "hypothesis.extra.pandas", "msgspec", "numpy", "pandas"),
    *("pyarrow.compute", "pyarrow.json", "pyarrow.parquet", "pydantic", "pytest", "yaml"),
    *("xdist.plugin", "pytest_timeout", "pygments.lexers", "concurrent.futures.process"),
)
"""Imported once, before the processes of the stages are forked; nothing of ours is."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}
TWINS = {"max": "min", "min": "max", "any": "all", "all": "any"}
ALONE = {"sorted", "set", "frozenset"}
"""Calls that are left out around what they are given."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one file."""

    path: str
    place: int
    text: str

    def __str__(self) -> str:
        return f"{self.path} #{self.place} {self.text}"

    @property
    def module(self) -> str:
        """Name the module that is changed."""
        return self.path.removesuffix(".py").replace("/", ".")


def mutants_of(path: str, source: str) -> list[Mutant]:
    """List all mutants of a file."""
    return [
        Mutant(path, number, text) for number, (text, _) in enumerate(_changes(ast.parse(source)))
    ]


def mutated(mutant: Mutant, source: str) -> ast.Module:
    """Give a file with its one change."""
    tree = ast.parse(source)
    for number, (_, change) in enumerate(_changes(tree)):
        if number == mutant.place:
            change()
            return ast.fix_missing_locations(tree)
    raise LookupError(str(mutant))


def _changes(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Give every change of a tree: what it is, and the act that makes it."""
    for parent in _worth_it(tree):
        for name, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            for at, node in enumerate(nodes):
                for text, new in _replacements(node):
                    line = getattr(node, "lineno", getattr(parent, "lineno", 0))
                    yield f"line {line}: {text}", _replacing(parent, name, value, at, new)


def _replacing(parent: ast.AST, name: str, value: object, at: int, new: ast.AST):
    def change() -> None:
        if isinstance(value, list):
            value[at] = new
        else:
            setattr(parent, name, new)

    return change


def _worth_it(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what decides something: no assertions, annotations, raised messages."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(
                node, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr
            ):
                yield from _worth_it(node)


def _replacements(node: object) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.AST) and type(node) in SWAPS:
        new = SWAPS[type(node)]
        yield f"{type(node).__name__} to {new.__name__}", new()
    match node:
        case ast.Constant(value=bool(value)):
            yield f"{value} to {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} to {value + 1}", ast.Constant(value + 1)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield "not left out", inner
        case ast.If(test=test, body=body, orelse=other) if not _is_for_types(test):
            negated = ast.UnaryOp(ast.Not(), copy.deepcopy(test))
            yield "if negated", ast.copy_location(ast.If(negated, body, other), node)
        case ast.IfExp(test=test, body=body, orelse=other):
            yield "if-else turned", ast.copy_location(ast.IfExp(test, other, body), node)
        case ast.Expr(value=ast.Call()):
            yield "call left out", ast.copy_location(ast.Pass(), node)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "None returned", ast.copy_location(ast.Return(ast.Constant(None)), node)
        case _:
            yield from _parts(node)


def _parts(node: object) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.BoolOp(op=op, values=values):
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                one = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                yield f"part {at} left out", one
        case ast.comprehension(target, source, ifs, kind) if ifs:
            yield "filter left out", ast.comprehension(target, source, [], kind)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=named) if name in TWINS:
            yield f"{name} to {TWINS[name]}", ast.Call(ast.Name(TWINS[name]), given, named)
        case ast.Call(func=ast.Name(id=name), args=[given]) if name in ALONE:
            yield f"{name} left out", given
        case ast.Slice(lower=ast.Constant() | ast.UnaryOp(), upper=upper, step=step):
            yield "slice from the start", ast.Slice(None, upper, step)


def _is_for_types(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


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
        path = SOURCE / self.mutant.path
        tree = mutated(self.mutant, path.read_text())
        exec(compile(tree, str(path), "exec"), module.__dict__)


def tried(mutant: Mutant | None, stage: Stage) -> int:
    """Start a stage in a process of its own; give its pid. It ends with 0 when all tests pass."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_MAX, BYTES_MAX))
    os.environ["PENSTOCK_HISTORIES"] = HISTORIES
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    if mutant is not None:
        sys.meta_path.insert(0, Changed(mutant))
    import pytest

    words = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
    os._exit(int(pytest.main([*words, *stage])))


def passes(mutant: Mutant | None, stage: Stage, seconds_max: float) -> bool:
    """Tell whether a stage passes, in time."""
    pid, deadline = tried(mutant, stage), time.monotonic() + seconds_max
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.02)


@dataclass(slots=True)
class Patience:
    """How long each stage takes without a mutant, found out when it is first needed."""

    seconds: dict[Stage, float] = field(default_factory=dict)

    def for_stage(self, stage: Stage) -> float:
        """Give the time after which a stage hangs."""
        if stage not in self.seconds:
            begun = time.monotonic()
            assert passes(None, stage, math.inf), f"{stage} fails without any mutant"
            self.seconds[stage] = time.monotonic() - begun
        return max(SECONDS_MIN, TIMES_MAX * self.seconds[stage])


def killer(mutant: Mutant, patience: Patience) -> str:
    """Name the stage that kills a mutant by its first words; "" when it lives through all."""
    own = OWN.get(mutant.path.removeprefix("penstock/"))
    for stage in (own, *STAGES) if own else STAGES:
        if not passes(mutant, stage, patience.for_stage(stage)):
            return stage[0]
    return ""


def digest(path: str) -> str:
    """Give a short mark of a file, so that verdicts of another text of it count no more."""
    return hashlib.sha256((SOURCE / path).read_bytes()).hexdigest()[:8]


def verdicts() -> dict[str, str]:
    """Read what was found out before, of files that are the same."""
    if not KEPT.exists():
        return {}
    found = {}
    for line in KEPT.read_text().splitlines():
        verdict, mark, rest = line.split(" ", 2)
        path = rest.split(" ", 1)[0]
        if (SOURCE / path).exists() and digest(path) == mark:
            found[rest] = verdict
    return found


def summary(found: dict[str, str], total: int) -> str:
    """Tell the share that was killed."""
    killed = sum(verdict == "killed" for verdict in found.values())
    share = 100 * killed / max(len(found), 1)
    return f"{killed:,} of {len(found):,} killed ({share:.1f} %), of {total:,} mutants in all"


def main(words: list[str]) -> int:
    """Try mutants until the time is up: files of risk first, and in a fixed random order."""
    deadline = time.monotonic() + 60 * float(words[0])
    ending = words[1] if len(words) > 1 else ""
    paths = [
        path.relative_to(SOURCE).as_posix()
        for room in ROOMS
        for path in sorted((SOURCE / "penstock" / room).glob("*.py"))
    ]
    every = [each for p in paths for each in mutants_of(p, (SOURCE / p).read_text())]
    chosen = [each for each in every if each.path.endswith(ending)]
    random.Random(0).shuffle(chosen)
    chosen.sort(key=lambda each: Path(each.path).stem not in RISK)
    found = verdicts()
    os.chdir(ROOT)
    for name in FOREIGN:
        importlib.import_module(name)
    waiting = [each for each in chosen if str(each) not in found]
    patience = Patience()
    for mutant in waiting:
        if time.monotonic() > deadline:
            break
        by = killer(mutant, patience)
        verdict = "killed" if by else "survived"
        found[str(mutant)] = verdict
        with KEPT.open("a") as kept:
            kept.write(f"{verdict} {digest(mutant.path)} {mutant}\n")
        if verdict == "survived":
            print(f"survived: {mutant}", flush=True)
        elif VERBOSE:
            print(f"killed by {by}: {mutant}", flush=True)
    print(summary(found, len(every)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
