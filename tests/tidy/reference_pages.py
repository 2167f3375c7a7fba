"""The generated pages of docs/reference: `make docs` writes them, a test compares them.

    errors.md   every code that the source raises, with what is said and what to do
    events.md   every event with its fields
    suites.md   the suites of `make test` with their time budgets
    spec.md     every setting of a spec with its default
    cli.md      every command with its parameters
    conversions.md  what each JSON value becomes in a column of each type
    penstock.schema.json, at the root: the JSON Schema of a spec

and src/penstock/app/manual/facts.json, from which `penstock explain` prints the same offline.

- Made from the source alone, so that no page can promise what the code does not do.
- A text with parts that are known only at run time shows them as `…`.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import runpy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli import COMMANDS, application
from penstock.spec.json_schema import SCHEMA_FILE, json_schema
from penstock.spec.settings.fields import NOT_YET

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"P[1-8]\d\d")
MARKED = "Written by `make docs` from the source; do not edit."

SUBJECTS = {
    "P1": "Spec and input",
    "P2": "Kafka",
    "P3": "Records",
    "P4": "Tables and catalogs",
    "P5": "Pending store and ownership",
    "P6": "Engine, Java and the local broker",
    "P7": "Our own bugs",
    "P8": "Publishing",
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
ENDING_OF_SUBJECT = {
    "P1": "2",
    "P26": "2",
    "P530": "2",
    "P82": "2",
    "P83": "2",
    "P84": "2",
    "P85": "2",
    "P86": "2",
    "P87": "2",
    "P88": "2",
    "P3": "quarantined",
}


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


@functools.cache
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
        "next command or act. What a process ends with is explained in [exit codes](exit-codes.md).",
        "",
        "*Tried again* and *found out* are handled internally; they appear in the log only.",
        "Cause and example of each, without a network: `penstock explain CODE`.",
    ]
    for prefix, subject in SUBJECTS.items():
        codes = sorted({use.code for use in found if use.code.startswith(prefix)})
        if codes:
            lines += ["", f"## {prefix}xx {subject}", "", "| code | exit | says | do |"]
            lines.append("|---|---|---|---|")
            lines += [_row(code, [use for use in found if use.code == code]) for code in codes]
    return "\n".join([*lines, ""])


def facts(found: list[Use]) -> str:
    """Write what the manual of `penstock explain` takes from the source."""
    table = {}
    for code in sorted({use.code for use in found}):
        of = [use for use in found if use.code == code]
        says = dict.fromkeys(" ".join(use.message.split()) for use in of if use.message)
        does = dict.fromkeys(" ".join(use.hint.split()) for use in of if use.hint)
        table[code] = {"exit": _ending(code, of), "says": [*says], "does": [*does]}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def events_page(source: str) -> str:
    """Write the page of events from the text of their modules."""
    lines = [
        "# Events",
        "",
        MARKED,
        "",
        "Everything that a pipeline reports. The JSON log has one object a line, with `time` (UTC),",
        "`level`, `event` (the name below) and the fields of the event. Durations are seconds, sizes",
        "bytes, times epoch milliseconds. Fields may be added; none is renamed or removed.",
    ]
    kinds = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    bases = {ast.unparse(base) for node in kinds.values() for base in node.bases}
    for node in kinds.values():
        if node.name not in bases:
            promise = " ".join((ast.get_docstring(node) or "").split())
            lines += ["", f"## {node.name}", "", promise, ""]
            inherited = kinds[ast.unparse(node.bases[0])].body
            lines += [
                f"- `{field.target.id}`: {ast.unparse(field.annotation)}"
                for field in [*inherited, *node.body]
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            ]
    return "\n".join([*lines, ""])


def suites_page() -> str:
    """Write the page of suites from tests/suites.py."""
    suites = runpy.run_path(str(ROOT / "tests/suites.py"), run_name="suites")
    listed = suites["SUITES"]
    lines = [
        "# Test suites",
        "",
        MARKED,
        "",
        "`make test` runs all of them in this order, on two cores, and shows the time of each next to",
        "its budget. Suites of one core run two at a time; one of no core waits for processes and clocks",
        "most of the time, and runs beside the one before it. `make NAME` runs one suite, `make check`",
        "those to run before each commit: lint, types, layers, unit and properties.",
        "",
        "| suite | checks | cores | budget |",
        "|---|---|---|---|",
        *(
            f"| `{each.name}` | {each.what} | {each.cores} | {each.budget_seconds} s |"
            for each in listed
        ),
        f"| all | | | {suites['budget_seconds'](listed)} s |",
        "",
        "Not part of it: `make crash` (every crash point in every way, a hundred kills), `make storm`",
        "(faults of all kinds on real pipelines, for as long as you like) and `make bench`.",
    ]
    return "\n".join([*lines, ""])


def spec_page(schema: Mapping[str, Any]) -> str:
    """Write the page of settings from the JSON Schema of a spec."""
    lines = [
        "# The spec",
        "",
        MARKED,
        "",
        "A spec is one YAML file (YAML 1.2 scalars: `no` and `12:30` are text). Unknown settings are",
        "errors. Durations, sizes and shares have units: `30s`, `256MB`, `1%`. Relative paths start at",
        "the spec file. Any text may contain `${env:NAME}`, `${env:NAME:-default}` or `${file:/path}`.",
        "For checks in your editor run `penstock schema > penstock.schema.json` and write the first line",
        "`# yaml-language-server: $schema=./penstock.schema.json`.",
        "",
        "A setting whose default is *required* must be given; one marked *later* is refused by name",
        "until a release supports it.",
    ]
    for path, block in blocks(schema):
        about = block["description"] if path else "The blocks and settings of the file's top level."
        lines += ["", f"## {path or 'Top level'}", "", " ".join(about.split("\n\n")[0].split())]
        lines += ["", "| setting | default | meaning |", "|---|---|---|"]
        required = _required(block)
        for name, setting in block["properties"].items():
            default = required.get(name) or _default(setting)
            lines.append(f"| `{name}` | {default} | {_holds(setting, schema)} |")
    return "\n".join([*lines, ""])


def _required(block: Mapping[str, Any]) -> dict[str, str]:
    """Say which settings must be given, and which must only to land, or only to publish."""
    words = dict.fromkeys(block.get("required", ()), "*required*")
    for act, each in zip(("land", "publish"), block.get("anyOf", ()), strict=False):
        words = {**dict.fromkeys(each["required"], f"*required* to {act}"), **words}
    return words


def blocks(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the blocks of settings in the order of a spec, each with its path, outer ones first."""
    waiting = [("", schema)]
    while waiting:
        path, block = waiting.pop(0)
        yield path, block
        inner = []
        for name, setting in block["properties"].items():
            step, found = _below(setting)
            whole = f"{path}.{name}{step}".removeprefix(".")
            named = [schema["$defs"][each.rsplit("/", 1)[-1]] for each in found]
            kinds = {_kind(each): each for each in reversed(named)}  # of a kind the first is shown
            inner += [
                (f"{whole} ({kind})" if len(kinds) > 1 else whole, kinds[kind])
                for kind in reversed(kinds)
            ]
        waiting = [*inner, *waiting]


def _kind(block: Mapping[str, Any]) -> str:
    """Say by what a block differs from others in its place: a type, or its first setting."""
    constant = block["properties"].get("type", {}).get("const", "")
    return f"type: {constant}" if constant else str(next(iter(block["properties"])))


def cli_page() -> str:
    """Write the page of commands from what they say as help."""
    says_nothing = " *[default: False]*"
    lines = [
        "# Commands",
        "",
        MARKED,
        "",
        "Every command takes the spec in the same way: a YAML file as an argument",
        "(`penstock run shop.yaml`, `penstock audit shop.yaml lake.bronze.orders`) or with `--spec`;",
        "else the file in the environment variable `PENSTOCK_SPEC`; else `./penstock.yaml`.",
        "",
        "`--json` prints JSON; results go to stdout, messages to stderr. `NO_COLOR` is honoured. All",
        "commands have the same [exit codes](exit-codes.md).",
    ]
    for name in COMMANDS:
        text = application(name).generate_docs()
        section = re.search(rf"^## penstock {name}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        assert section is not None, f"the help of {name} has a section"
        text = re.sub(r"^Example: (.+)$", r"Example: `\1`", section[0], flags=re.MULTILINE)
        lines += ["", text.replace(says_nothing, "").strip()]
    return "\n".join([*lines, ""])


def conversions() -> Iterator[str]:
    """Write the page of golden conversions."""
    golden = runpy.run_path(str(ROOT / "tests/golden/conversions.py"), run_name="conversions")
    yield from golden["page"]()


def verification_page() -> str:
    """Write the page of models, histories, crashes, storms and mutants from their kept results."""
    path = ROOT / "tests/proof/verification_page.py"
    return str(runpy.run_path(str(path), run_name=path.stem)["page"](MARKED))


def pages() -> dict[str, str]:
    """Return every generated page by its path."""
    places = ("events", "maintenance_events", "publication_events", "outlook_events")
    events = "".join((ROOT / f"src/penstock/core/{each}.py").read_text() for each in places)
    found = collected(ROOT / "src")
    return {
        "docs/reference/errors.md": errors_page(found),
        "src/penstock/app/manual/facts.json": facts(found),
        "docs/reference/events.md": events_page(events),
        "docs/reference/suites.md": suites_page(),
        "docs/reference/spec.md": spec_page(json_schema()),
        "docs/reference/cli.md": cli_page(),
        "docs/reference/conversions.md": "\n".join(conversions()),
        "docs/reference/verification.md": verification_page(),
        SCHEMA_FILE: json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
    }


def _below(setting: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return how a setting leads to blocks: as itself, as entries of a list, or by name."""
    step, value = "", setting
    if "items" in setting:
        step, value = "[]", setting["items"]
    elif isinstance(setting.get("additionalProperties"), dict):
        step, value = ".<name>", setting["additionalProperties"]
    return step, [*_references(value)]


def _references(value: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in value:
        yield value["$ref"]
    for each in (*value.get("oneOf", ()), *value.get("anyOf", ())):
        yield from _references(each)


def _default(setting: Mapping[str, Any]) -> str:
    if NOT_YET in setting.get("description", ""):
        return "*later*"
    value = setting.get("default")
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`[{', '.join(value)}]`"
    return "" if value is None else f"`{value}`"


def _holds(setting: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    kind = setting.get("$ref", "").rsplit("/", 1)[-1]
    about = setting.get("description") or schema["$defs"][kind]["description"].split("\n\n")[0]
    words = [_cell(about).replace(f"This setting {NOT_YET}: ", "Planned: ")]
    inner = next(iter(setting.get("anyOf", ())), {})
    choices = setting.get("enum") or inner.get("enum") or setting.get("items", {}).get("enum", ())
    if choices:
        words.append(f"One of {', '.join(f'`{each}`' for each in choices)}.")
    elif "const" in setting and "default" in setting:
        words.append("No other value in this release.")
    elif "const" in setting:
        words.append(f"`{setting['const']}`.")
    if setting.get("maximum", 2**53) < 2**53:
        words.append(f"At most {setting['maximum']}.")
    if "examples" in setting and "default" not in setting:
        words.append(f"Such as `{_cell(setting['examples'][0])}`.")
    return " ".join(words)


def _constants(tree: ast.Module) -> dict[str, str]:
    """Find `RETENTION = "P221"` and, in a class, `RejectCode.EMPTY`, with their codes."""
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
    """Return the code that an expression is, or nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if CODE.fullmatch(node.value) else ""
    if isinstance(node, ast.Name | ast.Attribute):
        return named.get(ast.unparse(node), "")
    return ""


def _local_texts(tree: ast.Module) -> dict[int, dict[str, str]]:
    """Return, by the id of each call, the texts last put into variables of its function before it,
    and into those of its module.
    """
    found: dict[int, dict[str, str]] = {}
    shared = _assigned(tree.body)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        texts = [*shared, *_assigned(ast.walk(function))]
        for call in ast.walk(function):
            if isinstance(call, ast.Call):
                before = sorted(each for each in texts if each[0] <= call.lineno and each[2])
                found[id(call)] = {name: text for _, name, text in before}
    return found


def _assigned(nodes: Iterable[ast.AST]) -> list[tuple[int, str, str]]:
    """List the texts that are put into variables: line, name and text."""
    return [
        (node.lineno, node.targets[0].id, _text(node.value))
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]


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


def _ending(code: str, of: list[Use]) -> str:
    kinds = sorted({ENDINGS[use.kind] for use in of if use.kind in ENDINGS})
    of_subject = (each for begin, each in ENDING_OF_SUBJECT.items() if code.startswith(begin))
    return ", ".join(kinds) or next(of_subject, "")


def _row(code: str, of: list[Use]) -> str:
    says = list(dict.fromkeys(_cell(use.message) for use in of if use.message))
    does = list(dict.fromkeys(_cell(use.hint) for use in of if use.hint))
    return f"| `{code}` | {_ending(code, of)} | {'<br>'.join(says)} | {'<br>'.join(does)} |"


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
