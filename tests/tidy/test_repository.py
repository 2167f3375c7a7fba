"""The repository's own files: locks, licence, suites, recipes."""

import ast
import hashlib
import re
import tomllib

import pytest

LOCKS = [
    f"requirements/{name}.lock" for name in ("bootstrap", "build", "all", "fuzz", "ship", "runtime")
]
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # apache.org's file
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def pins(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in PINNED.findall(text):
        found.setdefault(name, set()).add(version)
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_host(root, lock: str) -> None:
    text = (root / lock).read_text()

    assert [] == re.findall(r"\S*://\S*|--(?:index-url|find-links|trusted-host)\S*", text)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(root, lock: str) -> None:
    blocks = re.split(r"\n(?=\S)", (root / lock).read_text().strip())

    assert [] == [block for block in blocks if "==" not in block or "--hash=sha256:" not in block]


def test_sources_are_built_with_the_versions_that_are_installed(root) -> None:
    build, everything = (pins((root / lock).read_text()) for lock in LOCKS[1:3])

    assert build.items() <= everything.items()


def test_a_release_is_installed_with_the_versions_that_are_tested(root) -> None:
    shipped, everything = (
        pins((root / f"requirements/{name}.lock").read_text()) for name in ("runtime", "all")
    )

    assert shipped.items() <= everything.items()
    assert {"pyspark", "starlette", "protobuf", "pyarrow"} < shipped.keys()


def test_every_direct_dependency_is_pinned_and_explained(root) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    names = {re.split(r"[<>=~!\[; ]", entry)[0].lower() for group in groups for entry in group}
    explained = (root / "docs/design/dependencies.md").read_text()

    pinned = {name for lock in LOCKS[2:] for name in pins((root / lock).read_text())}

    assert set() == names - pinned
    assert [] == sorted(name for name in names if f"| `{name}` |" not in explained)


def test_the_licence_is_apache_2_to_the_letter(root) -> None:
    assert APACHE_2 == hashlib.sha256((root / "LICENSE").read_bytes()).hexdigest()


def test_every_test_is_in_a_suite(root, suites) -> None:
    rooms = {suite.tests[0] for suite in suites.SUITES if suite.tests}
    found = {
        f"tests/{path.relative_to(root / 'tests').parts[0]}"
        for path in (root / "tests").rglob("test_*.py")
    }

    assert set() == found - rooms


def test_all_suites_together_take_twenty_minutes_at_most(suites) -> None:
    assert 20 * 60 >= suites.budget_seconds(suites.SUITES)


def test_what_is_checked_before_each_commit_takes_two_minutes_at_most(root, suites) -> None:
    recipe = re.search(
        r"^check:.*\n\t@\$\(SUITES\) (.+)$", (root / "Makefile").read_text(), re.MULTILINE
    )
    quick = [suite for suite in suites.SUITES if suite.name in recipe[1].split()]

    assert ["lint", "types", "layers", "unit", "properties"] == [suite.name for suite in quick]
    assert 2 * 60 >= suites.budget_seconds(quick)


def test_suites_of_one_core_run_two_at_a_time(suites) -> None:
    small = [
        suites.Suite(name, "", seconds, cores=1) for name, seconds in [("a", 3), ("b", 5), ("c", 4)]
    ]
    large = suites.Suite("d", "", 10)

    assert [small, [large], [large]] == suites.stages([*small, large, large])
    assert 7 + 10 == suites.budget_seconds([*small, large])


def test_every_suite_is_a_recipe_that_says_the_same(root, suites) -> None:
    recipes = dict(
        re.findall(r"^([\w-]+):.*?## (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    )

    for suite in suites.SUITES:
        assert suite.what == recipes[suite.name]


def test_every_recipe_is_phony(root) -> None:
    text = (root / "Makefile").read_text()
    recipes = re.findall(r"^([\w-]+):.*## ", text, re.MULTILINE)

    assert recipes == re.findall(r"^\.PHONY: ([\w-]+)$", text, re.MULTILINE)


def test_the_words_of_the_house_are_in_the_glossary(root) -> None:
    text = (root / "docs/reference/glossary.md").read_text()
    words = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)

    assert sorted(words) == words
    assert {"land", "publish", "pipeline", "table", "epoch", "range", "landed"} <= set(words)
    assert {"pending", "generation", "quarantine", "valid-through"} <= set(words)


def test_the_glossary_lists_every_public_class_of_the_central_packages_and_no_other(root) -> None:
    source = root / "src/penstock"
    paths = [
        path
        for package in ("core", "ports", "commit", "ownership", "rows", "landing", "publishing")
        for path in (source / package).rglob("*.py")
        if path.name
        not in (
            "events.py",
            "maintenance_events.py",
            "outlook_events.py",
            "publication_events.py",
        )  # docs/reference/events.md has these
    ]
    classes = {
        node.name
        for path in paths
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    text = (root / "docs/reference/glossary.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) - {"Event"}

    assert set() == classes - listed, "add a row to docs/reference/glossary.md"
    assert set() == listed - classes


CRASHED = "failed on setup with \"worker 'gw0' crashed\""
REPORT = """<testsuites><testsuite tests="4" failures="1" errors="2" skipped="0">
<testcase classname="tests.unit.test_a" name="test_one"/>
<testcase classname="tests.unit.test_a" name="test_two">
  <failure message="AssertionError: why&#10;  then">long</failure></testcase>
<testcase classname="tests.unit.test_b.TestThree" name="test_three[a.b]">
  <error message="failed on setup with &quot;worker 'gw0' crashed&quot;">long</error></testcase>
<testcase classname="" name="tests.unit.test_c">
  <error message="collection failure">ImportError</error></testcase>
</testsuite></testsuites>"""


def test_what_failed_is_named_again_at_the_end(suites, tmp_path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    failed = tuple(suites.failures(report))
    unit = next(suite for suite in suites.SUITES if suite.name == "unit")
    shown = suites.again([suites.Outcome(unit, 1.0, 2.0, suites.counted(report), failed)])
    assert shown == [
        "unit: tests/unit/test_a.py::test_two: AssertionError: why then",
        f"unit: tests/unit/test_b.py::TestThree::test_three[a.b]: {CRASHED}",
        "unit: tests/unit/test_c.py: collection failure",
        "",
    ]
    many = suites.Outcome(unit, 1.0, failed=failed[:2] * 20)
    assert "unit: and 20 more" == suites.again([many, many])[20]
    assert [] == suites.again([suites.Outcome(unit, 1.0)])


def test_a_tool_that_fails_and_a_suite_without_tests_fail_and_are_named(suites) -> None:
    odd = suites.Suite("odd", "nothing", 1, tools=(("penstock", "nowhere"),))
    assert ("penstock nowhere ended with 2",) == suites.run(odd).failed
    none = suites.Suite("none", "nothing", 1, tests=("tests/unit/dev", "-k", "nowhere_at_all"))
    outcome = suites.run(none)
    assert ("pytest ended with 5",) == outcome.failed
    assert not outcome.passed
