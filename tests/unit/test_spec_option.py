"""Every command is reported of its spec in the same way."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App

from penstock.cli import COMMANDS, NAMING, application
from penstock.cli.parameters import SPEC
from penstock.cli.specs import with_spec_named

OPTIONS = {"purge": ["--older-than", "30d"]}
"""Options that a command does not go without."""
OF_NO_SPEC = {"prepare", "schema", "explain", "completion", "demo", "dev"}


def functions() -> dict[str, Any]:
    """Every command, and every command of a command, that takes a spec."""
    found = {}
    for name, (path, _) in COMMANDS.items():
        module, _, attribute = path.partition(":")
        command = getattr(import_module(module), attribute)
        if name in OF_NO_SPEC:
            continue
        if isinstance(command, App):
            for inner in command.resolved_commands():
                if not inner.startswith("-"):
                    found[f"{name} {inner}"] = command[inner].default_command
        else:
            found[name] = command
    return found


@pytest.mark.parametrize(("name", "command"), functions().items())
@pytest.mark.parametrize("reported", ["a word", "--spec", "PENSTOCK_SPEC", "nothing"])
def test_every_command_takes_the_spec_in_the_same_ways(
    name: str, command: Any, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    required = [
        each.name
        for each in inspect.signature(command).parameters.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    names = ["lake.shop.orders" for _ in required]
    words = [*name.split(), *names, *OPTIONS.get(name, [])]
    match reported:
        case "a word":
            words = [*name.split(), "shop.yaml", *names, *OPTIONS.get(name, [])]
        case "--spec":
            words += ["--spec", "shop.yaml"]
        case "PENSTOCK_SPEC":
            monkeypatch.setenv("PENSTOCK_SPEC", "shop.yaml")
    if name.split(maxsplit=1)[0] in NAMING:
        words = with_spec_named(words)

    _, bound, *_ = application(name.split(maxsplit=1)[0]).parse_args(words, print_error=False)

    default = None if name in {"doctor", "upgrade-check"} else SPEC
    expected = default if reported == "nothing" else Path("shop.yaml")
    bound.apply_defaults()
    assert expected == bound.arguments["spec"]
    assert all(bound.arguments[each] == "lake.shop.orders" for each in required)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("audit penstock.yaml", "audit --spec penstock.yaml"),
        ("audit --count shop.yml", "audit --count --spec shop.yml"),
        ("audit lake.a.b shop.yaml --json", "audit lake.a.b --json --spec shop.yaml"),
        ("quarantine shop.yaml list", "quarantine list --spec shop.yaml"),
        ("audit lake.shop.yaml --spec shop.yaml", "audit lake.shop.yaml --spec shop.yaml"),
        ("audit lake.shop.yaml --spec=s.yaml", "audit lake.shop.yaml --spec=s.yaml"),
        ("audit lake.a.b", "audit lake.a.b"),
        ("audit one.yaml two.yaml", "audit two.yaml --spec one.yaml"),
    ],
)
def test_a_word_that_ends_as_yaml_is_the_spec_unless_it_is_named_already(
    words: str, expected: str
) -> None:
    assert expected.split() == with_spec_named(words.split())
