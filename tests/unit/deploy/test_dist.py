"""A release holds what an installation needs, and is the same whenever it is made."""

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from deploy import dist

from penstock.core.version import __version__

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "penstock"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return dist.build(ROOT, tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(built[1]).namelist())
    files = {
        f"penstock/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    information = f"penstock-{__version__}.dist-info"

    assert files == {name for name in names if not name.startswith(information)}
    assert {
        "penstock/py.typed",
        "penstock/web/static/page.css",
        "penstock/app/manual/P1.md",
    } < files
    assert f"{information}/licenses/LICENSE" in names


def test_the_wheel_names_its_command_and_asks_for_spark_only_as_an_extra(
    built: tuple[Path, Path],
) -> None:
    wheel = zipfile.ZipFile(built[1])
    information = f"penstock-{__version__}.dist-info"
    metadata = Parser().parsestr(wheel.read(f"{information}/METADATA").decode())
    spark = [each for each in metadata.get_all("Requires-Dist", []) if each.startswith("pyspark")]

    assert {"demo", "msk", "page", "protobuf", "spark"} == set(metadata.get_all("Provides-Extra", []))
    assert ["extra == 'spark'"] == [each.partition("; ")[2] for each in spark]
    assert b"penstock = penstock.cli:console" in wheel.read(f"{information}/entry_points.txt")


def test_the_sources_can_be_tested_and_shipped_again(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}

    assert {"tests/suites.py", "Makefile", "deploy/dist.py", "requirements/runtime.lock"} < names
    assert {"deploy/helm/penstock/templates/_spec.tpl", ".ci/install", "LICENSE"} < names


def test_a_release_that_is_made_again_has_the_same_bytes(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    again = dist.build(ROOT, tmp_path)

    assert [path.read_bytes() for path in built] == [path.read_bytes() for path in again]
