"""The pages are in four folders and the design, and each is found from the front page."""

import os
import re

ROOMS = {"tutorial", "how-to", "reference", "explanation", "design", "images"}
INDEXES = ("README.md", "reference/README.md", "design/README.md")
LINK = re.compile(r"\]\(([^)#:]+)")


def test_every_page_is_in_a_known_folder(root) -> None:
    docs = root / "docs"
    assert {"README.md", *ROOMS} == {each.name for each in docs.iterdir()}


def test_every_page_is_found_from_the_front_page(root) -> None:
    docs = root / "docs"
    linked = {
        os.path.normpath(os.path.join(os.path.dirname(index), target))  # noqa: PTH118, PTH120
        for index in INDEXES
        for target in LINK.findall((docs / index).read_text())
    }
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}

    assert set() == pages - linked - {"README.md"}


def test_every_command_and_every_code_named_in_a_page_is_there(root) -> None:
    from penstock.app.explain import manual

    pages = (root / "docs" / "how-to").glob("*.md")
    named = {code for page in pages for code in re.findall(r"\bP\d{3}\b", page.read_text())}

    assert set() == named - set(manual())
