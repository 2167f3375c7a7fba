"""The generated pages say what the source says."""

import ast

import pytest

NAMES = [
    "docs/reference/errors.md",
    "src/penstock/app/manual/facts.json",
    "docs/reference/events.md",
    "docs/reference/suites.md",
    "docs/reference/spec.md",
    "docs/reference/cli.md",
    "docs/reference/conversions.md",
    "docs/reference/verification.md",
    "penstock.schema.json",
]

SOURCE = """
GAP = "P210"
AGAIN = "run it again"

class Code(StrEnum):
    EMPTY = "P301"

MEANINGS = {Code.EMPTY: Meaning(_DECODE, "the value has no bytes", "send none")}

def first(at):
    raise InvalidError(f"{at} is gone", code="P201", hint="bring " + "it back")

def second(at):
    fact = "two of them"
    yield Problem(at, "P104", fact, "keep one", "warning")

def third():
    raise DecisionNeededError("a gap", code=GAP, hint=AGAIN)
"""


@pytest.fixture(scope="module")
def made(pages) -> dict[str, str]:
    return pages.pages()


@pytest.fixture
def found(pages) -> list:
    return list(pages.uses("a.py", ast.parse(SOURCE)))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_in_step_with_the_source(root, made, name: str) -> None:
    assert made[name] == (root / name).read_text(), "run 'make docs'"


def test_every_generated_page_is_compared(made) -> None:
    assert NAMES == list(made)


@pytest.mark.parametrize(
    "use",
    [
        ("P201", "InvalidError", "… is gone", "bring it back", "a.py"),
        ("P104", "Problem", "two of them", "keep one", "a.py"),
        ("P210", "DecisionNeededError", "a gap", "run it again", "a.py"),
        ("P301", "", "the value has no bytes", "send none", "a.py"),
    ],
)
def test_a_code_is_found_with_what_is_said(pages, found, use) -> None:
    assert pages.Use(*use) in found


def test_a_code_of_two_kinds_is_found(pages) -> None:
    uses = [
        pages.Use("P201", "InvalidError", "", "", "a.py"),
        pages.Use("P201", "BugError", "", "", "b.py"),
        pages.Use("P202", "BugError", "", "", "b.py"),
    ]

    assert ["P201: BugError, InvalidError"] == pages.ambiguous(uses)


def test_one_code_has_one_meaning(pages, uses) -> None:
    assert [] == pages.ambiguous(uses)


def test_every_code_says_something(uses) -> None:
    described = {use.code for use in uses if use.message}
    assert set() == {use.code for use in uses} - described


def test_no_code_says_a_single_word(uses) -> None:
    """Such as the `table` of a call that puts its message together elsewhere."""
    assert [] == [use for use in uses if use.message and " " not in use.message]


def test_every_event_has_a_promise(root) -> None:
    places = ("events", "maintenance_events", "publication_events", "outlook_events")
    texts = [(root / f"src/penstock/core/{each}.py").read_text() for each in places]

    silent = [
        node.name
        for text in texts
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and ast.get_docstring(node) is None
    ]
    assert [] == silent
