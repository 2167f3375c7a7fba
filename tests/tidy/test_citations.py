"""What code, tests and pages cite of docs/design is there: pages, sections, ids, decisions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("src", "tests", "benchmarks", "examples", "deploy")
DESIGN = ROOT / "docs/design"
INDEX = DESIGN / "README.md"
NORMATIVE = ("protocol", "data", "failure-modes", "interface", "spark")

ID = r"^\| ([A-Z]\d+) \|"
PAGE = re.compile(r"(?<![\w/.-])(?:docs/design/)?([a-z-]+)\.md\)?((?:,?(?: and)? [A-Z]?\d+\b)*)")
DECISION = re.compile(
    r"docs/design/(?=\d)([\d, ]*\d{4})\b"
    r"|\b[Dd]ecisions? (\d{4}(?:, \d{4})*)"
    r"|[(;] ?(0[0-2]\d\d(?:, 0[0-2]\d\d)*)\)"
)
MODULE = re.compile(r"[(`]([\w/.-]+\.py)[)`]")
OF_FIGURES = ROOT / "docs/reference/verification.md"  # names modules as they were when measured
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


def missing_modules(text: str, modules: list[str]) -> list[str]:
    """Find modules that a text names, by a path or its end, and that are not there."""
    return [
        name
        for name in MODULE.findall(text)
        if not any(each.endswith(f"/{name}") for each in modules)
    ]


def files() -> list[Path]:
    code = [path for room in ROOMS[:3] for path in (ROOT / room).rglob("*.py")]
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


def test_every_module_that_is_named_exists() -> None:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for path in paths]

    assert [] == missing_modules("`land.py` (core/decide.py)", modules)
    assert ["core/nowhere.py"] == missing_modules("see `core/nowhere.py`", modules)
    assert {} == {
        path.relative_to(ROOT).as_posix(): missing
        for path in files()
        if ROOT / "tests" not in path.parents
        and path != OF_FIGURES
        and (missing := missing_modules(path.read_text(), modules))
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
        ("as ever (0004, 0199)", ["0199"]),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(known, text: str, found: list[str]) -> None:
    assert found == broken(text, *known)
