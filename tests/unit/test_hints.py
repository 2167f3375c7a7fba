"""A command in a hint works when it is pasted: it names the spec that was named before."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextvars import copy_context
from functools import cache
from pathlib import Path

import pytest

import penstock
from penstock.cli import COMMANDS, NAMING, application
from penstock.cli.output import guarded, name_spec, pasteable
from penstock.cli.specs import named_again, with_spec_named
from penstock.core.errors import DecisionNeededError

OF_NO_SPEC = {"init", "prepare", "schema", "explain", "completion", "demo", "dev"}
PROSE = {
    "penstock peek  shows why; fix the rules or the table's columns, then try again",
    "its row went, and the table was put back: penstock seek",
}


def reported(path: str, hint: str) -> str:
    """A hint as a command says it that has loaded this spec."""

    def command() -> str:
        name_spec(named_again(Path(path)))
        return pasteable(hint)

    return copy_context().run(command)


def texts(node: ast.expr) -> Iterator[str]:
    """The constants of an expression, `x` for what is put in."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(each.value if isinstance(each, ast.Constant) else "x" for each in values)
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts(body)
            yield from texts(orelse)


def hints(tree: ast.Module) -> Iterator[str]:
    """What is given as a hint, or is a constant of its module that may be given as one."""
    for node in ast.walk(tree):
        for keyword in getattr(node, "keywords", ()):
            if keyword.arg == "hint":
                yield from texts(keyword.value)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from texts(statement.value)


@cache
def commands() -> list[str]:
    """Every command of one of our verbs that a hint of the sources ends with, or has in quotes."""
    sources = (path.read_text() for path in Path(penstock.__file__).parent.rglob("*.py"))
    naming = (text for text in sources if "penstock " in text)
    found = {each for text in naming for each in hints(ast.parse(text)) if "penstock " in each}
    ends = (each.rpartition("penstock ")[2].partition("`")[0] for each in found - PROSE)
    verbs = COMMANDS.keys() - OF_NO_SPEC
    return sorted({f"penstock {each}" for each in ends if each.split()[0] in verbs})


def test_the_hints_of_the_sources_are_found() -> None:
    assert {"penstock run --accept gap", "penstock status"} <= {*commands()}
    assert {"penstock run --accept rules", "penstock run"} <= {*commands()}  # of constants


@pytest.mark.parametrize("spec", ["my.yaml", "my.spec"])
@pytest.mark.parametrize("hint", commands())
def test_every_command_of_a_hint_works_with_the_spec_that_was_named(hint: str, spec: str) -> None:
    words = reported(spec, hint).split()[1:]
    name = words[0]
    words = with_spec_named(words) if name in NAMING else words

    _, bound, *_ = application(name).parse_args(words, exit_on_error=False, print_error=False)

    assert Path(spec) == bound.arguments["spec"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("penstock.yaml", "penstock run --accept gap"),
        ("./penstock.yaml", "penstock run --accept gap"),
        (str(Path("penstock.yaml").absolute()), "penstock run --accept gap"),
        ("a b.yaml", "penstock run 'a b.yaml' --accept gap"),
        ("my.spec", "penstock run --spec my.spec --accept gap"),
    ],
)
def test_the_spec_is_named_as_it_was_and_not_where_it_is_found_again(path, expected) -> None:
    assert expected == reported(path, "penstock run --accept gap")


def test_the_default_is_named_where_the_environment_names_another(monkeypatch) -> None:
    monkeypatch.setenv("PENSTOCK_SPEC", "shop.yaml")

    assert "" == named_again(Path("shop.yaml"))
    assert "penstock.yaml" == named_again(Path("penstock.yaml"))


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("see  penstock quarantine list", "see  penstock quarantine list my.yaml"),
        ("penstock explain P455; meant:  penstock seek lake.a.b", None),
        ("name it, as in  penstock plan FILE  or", "name it, as in  penstock plan FILE  or"),
        ("run the newer penstock that wrote them", "run the newer penstock that wrote them"),
        ("start `penstock run` again", "start `penstock run my.yaml` again"),
    ],
)
def test_only_commands_that_take_a_spec_are_changed(hint, expected) -> None:
    changed = "penstock explain P455; meant:  penstock seek my.yaml lake.a.b"
    assert (expected or changed) == reported("my.yaml", hint)


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_of_a_command_names_its_spec_and_no_later_one(
    capsys: pytest.CaptureFixture[str], as_json
) -> None:
    def fail() -> int:
        name_spec("my.yaml")
        raise DecisionNeededError("a gap", code="P252", hint="penstock run --accept gap")

    guarded(fail, ["plan", *(["--json"] if as_json else [])])
    out, err = capsys.readouterr()

    hint = json.loads(out)["error"]["hint"] if as_json else err.strip().splitlines()[-1]
    assert hint.endswith("penstock run my.yaml --accept gap")
    assert "penstock run" == pasteable("penstock run")
