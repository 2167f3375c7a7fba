"""What a mutant is: one changed place of a file, named so that it is known again.

- A mutant is one changed place: a comparison, a sign, a number, a condition or a part of one, a
  filter, a call left out, the smaller for the larger.
- It is named by its file, its unit (the outermost function or method, or the whole file) and its
  number in there: lines may move, docstrings, comments and other functions may change meanwhile.
- `mark` gives texts of a unit that do not do the same different marks.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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
SHOWN_MAX = 60
ALONE = {"sorted", "set", "frozenset"}
"""Calls that are left out around what they are given."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one file."""

    path: str
    unit: str
    place: int
    text: str
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.path} {self.unit or '-'} #{self.place} {self.text}"

    @property
    def module(self) -> str:
        """Name the module that is changed."""
        return self.path.removesuffix(".py").replace("/", ".")


def mutants_of(path: str, source: str) -> list[Mutant]:
    """List all mutants of a file."""
    return [mutant for mutant, _ in _mutants(path, ast.parse(source))]


def mutated(mutant: Mutant, source: str) -> ast.Module:
    """Return a file with its one change."""
    tree = ast.parse(source)
    for each, change in _mutants(mutant.path, tree):
        if each == mutant:
            change()
            return ast.fix_missing_locations(tree)
    raise LookupError(str(mutant))


def mark(unit: str, source: str) -> str:
    """Return a short mark of what a unit does, so that verdicts of another text count no more."""
    tree = ast.parse(source)
    whole = dict(_units(tree)).get(unit, tree)
    for node in ast.walk(whole):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body) | ast.FunctionDef(body=body):
                body[:] = [each for each in body if not _is_text(each)] or [ast.Pass()]
    return hashlib.sha256(ast.dump(whole).encode()).hexdigest()[:8]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _mutants(path: str, tree: ast.Module) -> Iterator[tuple[Mutant, Callable[[], None]]]:
    units, counted = list(_units(tree)), Counter[str]()
    for line, text, change in _changes(tree):
        inside = (name for name, node in units if node.lineno <= line <= (node.end_lineno or 0))
        unit = next(inside, "")
        yield Mutant(path, unit, counted[unit], text, line), change
        counted[unit] += 1


def _units(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield the outermost functions and the methods, by their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _units(node, f"{prefix}{node.name}.")


def _changes(tree: ast.Module) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """Yield every change of a tree: its line, what it is, and the act that makes it."""
    for parent in _worth_it(tree):
        for name, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            for at, node in enumerate(nodes):
                for text, new in _replacements(node):
                    line = getattr(node, "lineno", getattr(parent, "lineno", 0))
                    description = f"{text}: {_shown(node, parent)}"
                    yield line, description, _replacing(parent, name, value, at, new)


def _shown(node: object, parent: ast.AST) -> str:
    """Show the code that is changed, in one line."""
    match node:
        case ast.If(test=shown):
            pass
        case ast.expr() | ast.stmt() | ast.comprehension():
            shown = node
        case _:
            shown = parent
    return " ".join(ast.unparse(shown).split())[:SHOWN_MAX]


def _replacing(
    parent: ast.AST, name: str, value: object, at: int, new: ast.AST
) -> Callable[[], None]:
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
            yield (
                f"{name} to {TWINS[name]}",
                ast.Call(ast.Name(TWINS[name], ast.Load()), given, named),
            )
        case ast.Call(func=ast.Name(id=name), args=[given]) if name in ALONE:
            yield f"{name} left out", given
        case ast.Slice(lower=ast.Constant() | ast.UnaryOp(), upper=upper, step=step):
            yield "slice from the start", ast.Slice(None, upper, step)


def _is_for_types(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
