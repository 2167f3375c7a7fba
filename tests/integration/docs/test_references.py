"""What the pages refer to is there: pages, headings, files, tests, rooms."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from tests.integration.docs.snippets import ROOT, pages

LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"`(?P<text>[^`\n]+)`")
PATH = re.compile(
    r"(?:src|tests|docs|benchmarks|requirements|\.ci)/[\w./*<>-]+|[A-Z]+\.md|Makefile"
)
TEST = re.compile(r"test_\w+")
# Written by `make bench`, from figures of the machine it ran on.
WRITTEN_LATER = {"docs/reference/performance.md"}

TEXTS = {page: (ROOT / page).read_text() for page in pages()}


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@cache
def known_tests() -> set[str]:
    """Name all tests, those of the contract suites and stories included."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/penstock/testing").rglob("*.py")]
    return {
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    } | {path.stem for path in files}


def broken_links(page: str, text: str) -> list[str]:
    """Find links to pages or headings that are not there."""
    broken = []
    for found in LINK.finditer(text):
        path, _, anchor = found["target"].partition("#")
        target = ((ROOT / page).parent / path if path else ROOT / page).resolve()
        if "://" in path or target.relative_to(ROOT).as_posix() in WRITTEN_LATER:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(found["target"])
    return broken


def missing_paths(text: str) -> list[str]:
    """Find paths of this repository that are named in a text and not there."""
    named = [found["text"] for found in CODE.finditer(text)]
    paths = [each for each in named if PATH.fullmatch(each) and "<" not in each]
    return [path for path in paths if not [*ROOT.glob(path.rstrip("/"))]]


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page: str) -> None:
    assert [] == broken_links(page, TEXTS[page])


def test_a_broken_link_is_found() -> None:
    text = "[a](nowhere.md) [b](README.md#nothing) [c](README.md#licence) [d](LICENSE)"

    assert ["nowhere.md", "README.md#nothing"] == broken_links("README.md", text)


@pytest.mark.parametrize("page", TEXTS)
def test_every_path_that_is_named_exists(page: str) -> None:
    assert [] == missing_paths(TEXTS[page])


def test_a_missing_path_is_found() -> None:
    assert ["src/nowhere.py"] == missing_paths("`src/nowhere.py` `tests/suites.py` `tests/*`")


@pytest.mark.parametrize("page", TEXTS)
def test_every_test_that_is_named_exists(page: str) -> None:
    named = {found["text"] for found in CODE.finditer(TEXTS[page])}

    assert set() == {text for text in named if TEST.fullmatch(text)} - known_tests()


def test_the_architecture_names_every_room_and_no_other() -> None:
    rooms = {path.parent.name for path in (ROOT / "src/penstock").glob("*/__init__.py")}
    named = re.findall(r"^\| `(\w+)/` \|", TEXTS["ARCHITECTURE.md"], re.MULTILINE)

    assert sorted(rooms) == sorted(named)


def test_every_decision_is_listed() -> None:
    numbered = sorted(path.name for path in (ROOT / "docs/design").glob("[0-9]*.md"))
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", TEXTS["docs/design/README.md"])

    assert numbered == sorted(listed)


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page not in TEXTS:
            continue
        reached.add(page)
        for found in LINK.finditer(TEXTS[page]):
            target = found["target"].partition("#")[0]
            if target and "://" not in target:
                path = ((ROOT / page).parent / target).resolve()
                waiting.append(path.relative_to(ROOT).as_posix())

    assert set() == TEXTS.keys() - reached
