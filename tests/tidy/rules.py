"""House rules that no other tool checks, each a function from modules to findings.

- A finding is one line: path, line number, what is wrong.
- Each rule was shown a planted fault (test_rules.py) before it was let loose on the tree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}
PROMISES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

# The rooms that may ask for the time, for randomness, for another's work.
MAY_ASK_THE_WORLD = ("app", "connectors", "sources", "engines", "dev", "testing")
MAY_CATCH_ALL = ("app",)
OUTERMOST = "penstock/cli/output.py"  # what nobody caught becomes exit code 70 there
ENDS_TRANSACTIONS = "penstock/commit/transactions.py"
ENDS = {"end": 2, "append": 3}

MAY_COMMIT = ("commit", "connectors", "testing")

WORLDLY_MODULES = {"time", "random", "secrets"}
WORLDLY_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
    "os.urandom",
}
# `connection.commit` and the like outside of those rooms, one reason each.
OTHER_COMMITS: frozenset[tuple[str, str]] = frozenset(
    {
        ("penstock/app/spec_tests/running.py", "cluster.create"),  # a topic of a cluster in memory
    }
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """Hold one source file: `name` is its path below `src`, with slashes."""

    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """Name the package it is in: `core` for penstock/core/offsets.py."""
        parts = self.name.split("/")
        return parts[1] if len(parts) > 2 else ""


def module(name: str, text: str) -> Module:
    """Parse one source file."""
    return Module(name, text, ast.parse(text))


def modules_under(source: Path) -> list[Module]:
    """Parse all Python files of a directory, in order."""
    return [
        module(path.relative_to(source).as_posix(), path.read_text())
        for path in sorted(source.rglob("*.py"))
    ]


def too_long(modules: list[Module]) -> list[str]:
    """Find modules and functions beyond the limits."""
    found = []
    for each in modules:
        lines = len(each.text.splitlines())
        if lines > MODULE_LINES_MAX:
            found.append(f"{each.name}: {lines} lines")
        for node in ast.walk(each.tree):
            if isinstance(node, Function):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found.append(f"{each.name}:{node.lineno}: {node.name} has {lines} lines")
    return found


def nameless(modules: list[Module]) -> list[str]:
    """Find modules and packages whose name says nothing."""
    return [
        f"{each.name}: say what it holds"
        for each in modules
        if NAMELESS & set(each.name.removesuffix(".py").split("/"))
    ]


def promises(modules: list[Module]) -> list[str]:
    """Find work put off in the text."""
    return [
        f"{each.name}:{number}: {line.strip()}"
        for each in modules
        for number, line in enumerate(each.text.splitlines(), start=1)
        if PROMISES.search(line)
    ]


def without_docstring(modules: list[Module]) -> list[str]:
    """Find modules, and public classes, functions and methods, that promise nothing.

    A test of a contract suite is a sentence by its name.
    """
    found = []
    for each in modules:
        if ast.get_docstring(each.tree) is None:
            found.append(f"{each.name}:1: the module")
        found += [
            f"{each.name}:{node.lineno}: {node.name}"
            for node in _public(each.tree)
            if ast.get_docstring(node) is None and not node.name.startswith("test_")
        ]
    return found


def commits_elsewhere(modules: list[Module]) -> list[str]:
    """Find calls of commit, create and evolve on others outside the room that commits."""
    return [
        f"{each.name}:{node.lineno}: {ast.unparse(node.func)}"
        for each in modules
        if each.room not in MAY_COMMIT
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"commit", "create", "evolve"}
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "self")
        and (each.name, ast.unparse(node.func)) not in OTHER_COMMITS
    ]


def transactions_elsewhere(modules: list[Module]) -> list[str]:
    """Find calls of `Terms.end` and `Ledger.append` outside the module that ends transactions.

    They are known by the number of their arguments: the end of a match and a list's append have fewer.
    """
    return [
        f"{each.name}:{node.lineno}: {ast.unparse(node.func)}"
        for each in modules
        if each.room not in {"connectors", "testing"} and each.name != ENDS_TRANSACTIONS
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and len(node.args) + len(node.keywords) == ENDS.get(node.func.attr)
    ]


def imports_of_testing(modules: list[Module]) -> list[str]:
    """Find production code that imports what is made for tests."""
    return [
        f"{each.name}:{line}: {name}"
        for each in modules
        if each.room != "testing"
        for line, name in _imports(each.tree)
        if name == "penstock.testing" or name.startswith("penstock.testing.")
    ]


def worldly(modules: list[Module]) -> list[str]:
    """Find rooms that ask for time or randomness instead of being given them."""
    found = []
    for each in modules:
        if each.room in MAY_ASK_THE_WORLD:
            continue
        found += [
            f"{each.name}:{line}: {name}"
            for line, name in _imports(each.tree)
            if name.split(".")[0] in WORLDLY_MODULES
        ]
        found += [
            f"{each.name}:{node.lineno}: {ast.unparse(node.func)}"
            for node in ast.walk(each.tree)
            if isinstance(node, ast.Call) and _names_of(node.func) & WORLDLY_CALLS
        ]
    return found


def catch_alls(modules: list[Module]) -> list[str]:
    """Find handlers that swallow whatever comes, outside the composition root.

    `except BaseException` may clean up and raise again; ruff sees to it that it does.
    """
    return [
        f"{each.name}:{node.lineno}: {_caught(node)}"
        for each in modules
        if each.room not in MAY_CATCH_ALL and each.name != OUTERMOST
        for node in ast.walk(each.tree)
        if isinstance(node, ast.ExceptHandler)
        and {"", "Exception"} & set(_caught(node).strip("()").split(", "))
    ]


def _names_of(function: ast.expr) -> set[str]:
    """Name a function as it is called, with and without the module it is in."""
    called = ast.unparse(function)
    return {called, called.removeprefix("datetime.")}


def _caught(node: ast.ExceptHandler) -> str:
    return "" if node.type is None else ast.unparse(node.type)


def _public(parent: ast.AST) -> Iterator[Function | ast.ClassDef]:
    """Yield what others can name: also below conditions, not what is local to a function."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function | ast.ClassDef):
            if not node.name.startswith("_"):
                yield node
                if isinstance(node, ast.ClassDef):
                    yield from _public(node)
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _public(node)


def parameters_untold(modules: list[Module]) -> list[str]:
    """Find parameters of commands that their help says nothing of.

    The help of one is in the docstring, in its annotation, or in that of a shared parameter.
    """
    rooms = [each for each in modules if each.room == "cli"]
    shared = {
        name.id
        for each in rooms
        for node in each.tree.body
        if isinstance(node, ast.Assign) and "help=" in ast.unparse(node.value)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    found = []
    for each in rooms:
        for node in _public(each.tree):
            docstring = ast.get_docstring(node) or ""
            if isinstance(node, Function) and (
                "Example: " in docstring or "Parameters\n" in docstring
            ):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given += [node.args.vararg] if node.args.vararg else []
                listed = set(re.findall(r"^(\w+)$", docstring.partition("-----")[2], re.MULTILINE))
                listed |= {one.arg for one in given if _has_help(one.annotation, shared)}
                found += [
                    f"{each.name}:{node.lineno}: {node.name} {one.arg}"
                    for one in given
                    if one.arg not in listed
                ]
    return found


def _has_help(annotation: ast.expr | None, shared: set[str]) -> bool:
    text = "" if annotation is None else ast.unparse(annotation)
    return "help=" in text or text in shared


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            yield node.lineno, node.module
