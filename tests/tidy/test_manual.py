"""The manual of `penstock explain` has a page for every code, and a test expects every code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.app.explain import ENDINGS, manual, read_subject
from penstock.core.type_text import TYPE_WORDS, parse_type

MADE = ("Error", "Parked", "Quarantined", "Status")
"""Calls of these names make an error or an event that a test needs."""


def written(root) -> dict[str, tuple[str, str, str, str]]:
    found = {}
    for path in sorted((root / "src/penstock/app/manual").glob("P*.md")):
        found |= read_subject(path.read_text())
    return found


@pytest.fixture
def raised(uses) -> set[str]:
    return {use.code for use in uses}


def expected(tree: ast.Module, pages) -> Iterator[str]:
    """Yield the codes that a test's texts name, but for those of what it makes itself."""
    made = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(MADE)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in made:
            yield from pages.CODE.findall(node.value)


def expected_by_tests(root: Path, pages) -> set[str]:
    suites = [each for each in (root / "tests").iterdir() if each.name != "tidy"]
    modules = [path for each in suites for path in each.rglob("*.py")]
    modules += (root / "src/penstock/testing").rglob("*.py")
    golden = [path.read_text() for path in (root / "tests/golden").glob("*.jsonl")]
    return {code for path in modules for code in expected(ast.parse(path.read_text()), pages)} | {
        code for text in golden for code in pages.CODE.findall(text)
    }


def test_every_code_raised_is_expected_by_a_test(root, pages, raised) -> None:
    assert set() == raised - expected_by_tests(root, pages)


def test_a_code_that_a_test_only_makes_is_not_expected_by_it(pages) -> None:
    tree = ast.parse('raise InvalidError("x", code="P201")\nassert "P202" == raised.code')

    assert ["P202"] == [*expected(tree, pages)]


def test_every_code_raised_has_its_page_with_cause_and_example(root, raised) -> None:
    complete = {code for code, (_, cause, example, _) in written(root).items() if cause and example}

    assert set() == raised - complete, "write a section in src/penstock/app/manual"


def test_every_page_is_of_a_code_that_is_raised(root, raised) -> None:
    assert set() == written(root).keys() - raised


def test_a_code_is_defined_once_in_the_file_of_its_subject(root) -> None:
    for path in (root / "src/penstock/app/manual").glob("P*.md"):
        codes = [line[3:] for line in path.read_text().splitlines() if line.startswith("## ")]
        assert sorted(set(codes)) == codes, path.name
        assert {path.stem} == {code[:2] for code in codes}


def test_every_page_says_what_to_do_or_that_nothing_is_to_be_done() -> None:
    assert [] == [page.code for page in manual().values() if not page.does]


def test_every_page_says_how_the_command_ends() -> None:
    endings = {each for page in manual().values() for each in page.ending.split(", ")}

    assert set() == endings - ENDINGS.keys()


def test_the_page_of_types_names_those_that_are_read_and_no_others() -> None:
    """Offered to the parser itself, with numbers and a type in the places for them."""
    (does,) = [each for each in manual()["P116"].does if each.startswith("write ")]
    offered = does.removeprefix("write ").partition(";")[0].replace(" or ", ", ").split(", ")
    example = manual()["P116"].example

    assert sorted(TYPE_WORDS) == sorted(offered)
    for word in offered:
        within = {"map<…>": "string, int", "struct<…>": "a: int, b: date"}.get(word, "int")
        text = word.replace("(p,s)", "(10,2)").replace("[n]", "[4]").replace("…", within)
        assert text == str(parse_type(text))
    example_type = re.search(r"it is `(.+)`", example)
    assert example_type is not None
    assert parse_type(example_type[1])


def test_every_code_that_help_and_pages_explain_has_its_page(root) -> None:
    places = [*(root / "src/penstock").rglob("*.py"), *(root / "docs").rglob("*.md")]
    texts = [path.read_text() for path in [*places, root / "README.md"]]
    named = {code for text in texts for code in re.findall(r"penstock explain (P\d{3})", text)}

    assert "P116" in named
    assert set() == named - manual().keys()


def test_a_section_is_read_in_its_parts() -> None:
    text = "# Kafka\n\n## P201\nNo broker\nanswers.\nExample: `x: y`.\nDo: wait.\n\n## P202\nNo.\n"

    assert {
        "P201": ("Kafka", "No broker answers.", "`x: y`.", "wait."),
        "P202": ("Kafka", "No.", "", ""),
    } == read_subject(text)
