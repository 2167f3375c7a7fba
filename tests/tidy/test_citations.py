"""What code, tests and pages cite of docs/design is there: pages, sections, ids, decisions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "docs/design"
INDEX = DESIGN / "README.md"
NORMATIVE = ("protocol", "data", "failure-modes", "interface", "spark")

ID = r"^\| ([A-Z]\d+) \|"
PAGE = re.compile(r"(?<![\w/.-])(?:docs/design/)?([a-z-]+)\.md\)?((?:,?(?: and)? [A-Z]?\d+\b)*)")
DECISION = re.compile(r"docs/design/(?=\d)([\d, ]*\d{4})\b|\b[Dd]ecisions? (\d{4}(?:, \d{4})*)")
SECTION_OF_PROTOCOL = re.compile(r"§(\d+)")


def places() -> dict[str, set[str]]:
    """Return what can be cited of each normative page: its sections and the ids of its tables."""
    texts = {name: (DESIGN / f"{name}.md").read_text() for name in NORMATIVE}
    return {
        name: {
            *re.findall(r"^(?:## )?(\d+)\. ", text, re.MULTILINE),
            *re.findall(ID, text, re.MULTILINE),
        }
        for name, text in texts.items()
    }


def decisions() -> set[str]:
    return set(re.findall(r"^\| \[?(\d{4})\b", INDEX.read_text(), re.MULTILINE))


def broken(text: str, pages: dict[str, set[str]], ids: set[str]) -> list[str]:
    """Find citations that lead nowhere; a citation may go over the end of a line."""
    flowing = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    found = []
    for page, cited in PAGE.findall(flowing):
        wanted = re.findall(r"[A-Z]?\d+", cited)
        if page in pages:
            found += [f"{page}.md {each}" for each in wanted if each not in pages[page]]
        elif wanted:
            found.append(f"{page}.md {wanted[0]}")
    numbers = (number for pair in DECISION.findall(flowing) for number in pair)
    found += [
        each for number in numbers for each in re.findall(r"\d{4}", number) if each not in ids
    ]
    return found


def files() -> list[Path]:
    code = [path for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [path for path in [*code, *pages] if path != Path(__file__).resolve()]


@pytest.fixture(scope="module")
def known() -> tuple[dict[str, set[str]], set[str]]:
    return places(), decisions()


def test_every_citation_leads_to_its_place(known) -> None:
    assert {} == {
        path.relative_to(ROOT).as_posix(): found
        for path in files()
        if (found := broken(path.read_text(), *known))
    }


def test_the_index_has_the_title_of_each_decision() -> None:
    titled = {path.read_text().splitlines()[0] for path in DESIGN.glob("[0-9]*.md")}
    rows = re.findall(
        r"^\| \[(\d{4})\]\S+ \| (.+?) \| (?:in force|amended)", INDEX.read_text(), re.MULTILINE
    )

    assert {f"# {number}: {title}".replace("\\|", "|") for number, title in rows} == titled


@pytest.mark.parametrize("page", ["protocol", "failure-modes"])
def test_every_section_sign_is_a_section_of_the_protocol(known, page: str) -> None:
    cited = set(SECTION_OF_PROTOCOL.findall((DESIGN / f"{page}.md").read_text()))

    assert cited
    assert set() == cited - known[0]["protocol"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(protocol.md 5) `protocol.md I5`, protocol.md 3 and 5, spark.md: data.md 2, rows", []),
        ("see docs/design/0225, docs/design/0110, 0111, and decisions 0051, 0212", []),
        ("protocol.md 10", ["protocol.md 10"]),
        ("(protocol.md 3, I12)", ["protocol.md I12"]),
        ("failure-modes.md\n    # W99", ["failure-modes.md W99"]),
        ("[protocol](protocol.md) 77", ["protocol.md 77"]),
        ("holes.md C8", ["holes.md C8"]),
        ("docs/design/0999", ["0999"]),
        ("docs/design/0110, 0998", ["0998"]),
        ("Decision 0997", ["0997"]),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(known, text: str, found: list[str]) -> None:
    assert found == broken(text, *known)
