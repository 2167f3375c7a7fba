"""The generated pages of docs/reference: `make docs` writes them, a test compares them.

    errors.md   every code that the source raises, with what is said and what to do
    events.md   every event with its fields
    suites.md   the suites of `make test` with their time budgets

- Made from the source alone, so that no page can promise what the code does not do.
- A text with parts that are known only at run time shows them as `…`.
"""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"P[1-7]\d\d")
MARKED = "Written by `make docs` from the source; do not edit."

SUBJECTS = {
    "P1": "Spec and input",
    "P2": "Kafka",
    "P3": "Records",
    "P4": "Tables and catalogs",
    "P5": "Pending store and ownership",
    "P6": "Engine, Java and the local broker",
    "P7": "Our own bugs",
}

# How a process ends by the kind of its error (core/errors.py); the kinds of the first and third
# subject are not raised one by one: spec findings are collected, records are quarantined.
ENDINGS = {
    "InvalidError": "2",
    "FencedError": "3",
    "DecisionNeededError": "4",
    "BugError": "70",
    "UnavailableError": "75",
    "ConflictError": "tried again",
    "OutcomeUnknownError": "found out",
}
ENDING_OF_SUBJECT = {"P1": "2", "P3": "quarantined"}


@dataclass(frozen=True, slots=True)
class Use:
    """Hold one place that names a code."""

    code: str
    kind: str
    message: str
    hint: str
    where: str


def uses(where: str, tree: ast.Module) -> Iterator[Use]:
    """Find the places of one module where a code, or a constant that holds one, is put to use."""
    named, texts = _constants(tree), _local_texts(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _given(node, named, texts.get(id(node), {}), where)
        elif isinstance(node, ast.Dict):
            yield from _explained(node, named, where)
        elif isinstance(node, ast.Constant) and _code(node, {}):
            yield Use(_code(node, {}), "", "", "", where)


def collected(source: Path) -> list[Use]:
    """Find all places under a source directory that name a code, in the order of codes."""
    found = [
        use
        for path in sorted(source.rglob("*.py"))
        if path.relative_to(source).parts[1:2] != ("testing",)
        for use in uses(path.relative_to(source).as_posix(), ast.parse(path.read_text()))
    ]
    return sorted(found, key=lambda use: (use.code, use.where))


def ambiguous(found: list[Use]) -> list[str]:
    """Find codes that are raised as errors of several kinds: one code has one meaning."""
    kinds: dict[str, set[str]] = {}
    for use in found:
        if use.kind in ENDINGS:
            kinds.setdefault(use.code, set()).add(use.kind)
    return [f"{code}: {', '.join(sorted(of))}" for code, of in kinds.items() if len(of) > 1]


def errors_page(found: list[Use]) -> str:
    """Write the page of error codes."""
    lines = [
        "# Error codes",
        "",
        MARKED,
        "",
        "Every error is a sentence of fact, a code that never changes its meaning, and a hint: the",
        "next command or act. How the process ends:",
        "",
        "| exit | means |",
        "|---|---|",
        "| 0 | done, or stopped on request with a clean hand-over |",
        "| 2 | your input: the spec, a missing topic, a refused permission, an unsupported feature |",
        "| 3 | fenced by a newer owner: do not restart |",
        "| 4 | a human must decide: a gap, a rollback, something re-created, a broken chain |",
        "| 10, 11 | `plan --exit-code`: there are changes, destructive ones |",
        "| 70 | a bug of ours: please report it |",
        "| 75 | try again later: broker, catalog, store, Java, disk, another owner alive |",
        "| 130 | a second Ctrl-C |",
        "",
        "*Tried again* and *found out* are settled inside; they reach you only in the log.",
    ]
    for prefix, subject in SUBJECTS.items():
        codes = sorted({use.code for use in found if use.code.startswith(prefix)})
        if codes:
            lines += ["", f"## {prefix}xx {subject}", "", "| code | exit | says | do |"]
            lines.append("|---|---|---|---|")
            lines += [_row(code, [use for use in found if use.code == code]) for code in codes]
    return "\n".join([*lines, ""])


def events_page(source: str) -> str:
    """Write the page of events from the text of core/events.py."""
    lines = [
        "# Events",
        "",
        MARKED,
        "",
        "Everything that a pipeline tells. The JSON log has one object a line, with `time` (UTC),",
        "`level`, `event` (the name below) and the fields of the event. Durations are seconds, sizes",
        "bytes, times epoch milliseconds. Fields may be added; none is renamed or removed.",
    ]
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name != "Event":
            promise = " ".join((ast.get_docstring(node) or "").split())
            lines += ["", f"## {node.name}", "", promise, ""]
            lines += [
                f"- `{field.target.id}`: {ast.unparse(field.annotation)}"
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            ]
    return "\n".join([*lines, ""])


def suites_page() -> str:
    """Write the page of suites from tests/suites.py."""
    listed = runpy.run_path(str(ROOT / "tests/suites.py"), run_name="suites")["SUITES"]
    lines = [
        "# Test suites",
        "",
        MARKED,
        "",
        "`make test` runs all of them in this order, on two cores, and shows the time each took",
        "against its budget. `make NAME` runs one.",
        "",
        "| suite | checks | budget |",
        "|---|---|---|",
        *(f"| `{each.name}` | {each.what} | {each.budget_seconds} s |" for each in listed),
        f"| all | | {sum(each.budget_seconds for each in listed)} s |",
        "",
        "Apart from these: `make crash` (a hundred rounds of kill -9 and more) and `make bench`.",
    ]
    return "\n".join([*lines, ""])


def pages() -> dict[str, str]:
    """Give every generated page by its path."""
    events = (ROOT / "src/penstock/core/events.py").read_text()
    return {
        "docs/reference/errors.md": errors_page(collected(ROOT / "src")),
        "docs/reference/events.md": events_page(events),
        "docs/reference/suites.md": suites_page(),
    }


def _constants(tree: ast.Module) -> dict[str, str]:
    """Find `RETENTION = "P221"` and, in a class, `Code.EMPTY`, with their codes."""
    named = {}
    for parent in ast.walk(tree):
        if not isinstance(parent, ast.Module | ast.ClassDef):
            continue
        prefix = f"{parent.name}." if isinstance(parent, ast.ClassDef) else ""
        for node in parent.body:
            if isinstance(node, ast.Assign) and _code(node.value, {}):
                named[prefix + ast.unparse(node.targets[0])] = _code(node.value, {})
    return named


def _code(node: ast.expr | None, named: dict[str, str]) -> str:
    """Give the code that an expression is, or nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if CODE.fullmatch(node.value) else ""
    if isinstance(node, ast.Name | ast.Attribute):
        return named.get(ast.unparse(node), "")
    return ""


def _local_texts(tree: ast.Module) -> dict[int, dict[str, str]]:
    """Give, by the id of each call, the texts last put into variables of its function before it."""
    found: dict[int, dict[str, str]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        texts = [
            (node.lineno, node.targets[0].id, _text(node.value))
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        ]
        for call in ast.walk(function):
            if isinstance(call, ast.Call):
                before = sorted(each for each in texts if each[0] <= call.lineno and each[2])
                found[id(call)] = {name: text for _, name, text in before}
    return found


def _given(
    call: ast.Call, named: dict[str, str], texts: dict[str, str], where: str
) -> Iterator[Use]:
    """Find a code among the arguments: what is said comes right after it, or first."""

    def text(node: ast.expr | None) -> str:
        return texts.get(node.id, "") if isinstance(node, ast.Name) else _text(node)

    kind = ast.unparse(call.func).split(".")[-1]
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    hint = text(by_name.get("hint"))
    code = _code(by_name.get("code"), named)
    if code:
        yield Use(code, kind, "".join(map(text, call.args[:1])), hint, where)
    for place, value in enumerate(call.args):
        code = _code(value, named)
        if code:
            says, does = (*map(text, call.args[place + 1 : place + 3]), "", "")[:2]
            yield Use(code, kind, says, hint or does, where)


def _explained(table: ast.Dict, named: dict[str, str], where: str) -> Iterator[Use]:
    """Find codes that are keys of a table of meanings: texts of the value, in order."""
    for key, value in zip(table.keys, table.values, strict=True):
        code = _code(key, named)
        if code and isinstance(value, ast.Call):
            texts = [_text(each) for each in value.args if _text(each)]
            says, does = (*texts, "", "")[:2]
            yield Use(code, "", says, does, where)


def _text(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case ast.IfExp(body=body, orelse=orelse):
            return " / ".join(filter(None, (_text(body), _text(orelse))))
        case _:
            return ""


def _row(code: str, of: list[Use]) -> str:
    kinds = sorted({ENDINGS[use.kind] for use in of if use.kind in ENDINGS})
    ending = ", ".join(kinds) or ENDING_OF_SUBJECT.get(code[:2], "")
    says = list(dict.fromkeys(_cell(use.message) for use in of if use.message))
    does = list(dict.fromkeys(_cell(use.hint) for use in of if use.hint))
    return f"| `{code}` | {ending} | {'<br>'.join(says)} | {'<br>'.join(does)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write the pages again."""
    for name, text in pages().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
