import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def script(path: Path) -> SimpleNamespace:
    """Load a file that is no part of a package by running it under its own name."""
    return SimpleNamespace(**runpy.run_path(str(path), run_name=path.stem))


@pytest.fixture(scope="session")
def rules() -> SimpleNamespace:
    return script(ROOT / "tests/tidy/rules.py")


@pytest.fixture(scope="session")
def pages() -> SimpleNamespace:
    return script(ROOT / "tests/tidy/reference_pages.py")


@pytest.fixture(scope="session")
def uses(pages: SimpleNamespace) -> list:
    """All uses of error codes in the source."""
    return pages.collected(ROOT / "src")


@pytest.fixture(scope="session")
def suites() -> SimpleNamespace:
    return script(ROOT / "tests/suites.py")


@pytest.fixture(scope="session")
def modules(rules: SimpleNamespace) -> list:
    return rules.modules_under(ROOT / "src")
