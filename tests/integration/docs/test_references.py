"""What the pages refer to is there: pages, headings, files, tests, rooms."""

from __future__ import annotations

import ast
import re

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
    """Give the anchors of a page's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def known_tests() -> set[str]:
    """Name all tests, those of the contract suites and stories included."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/penstock/testing").rglob("*.py")]
    return {
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    } | {path.stem for path in files}


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page: str) -> None:
    for found in LINK.finditer(TEXTS[page]):
        path, _, anchor = found["target"].partition("#")
        if "://" in path:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        name = target.resolve().relative_to(ROOT).as_posix()
        if name in WRITTEN_LATER:
            continue
        assert target.exists(), f"{page}: {found['target']}"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{page}: {found['target']}"


@pytest.mark.parametrize("page", TEXTS)
def test_every_path_that_is_named_exists(page: str) -> None:
    named = [found["text"] for found in CODE.finditer(TEXTS[page])]
    paths = [text for text in named if PATH.fullmatch(text) and "<" not in text]

    assert [] == [path for path in paths if not [*ROOT.glob(path.rstrip("/"))]]


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

    assert numbered == listed


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
