"""Parts of the Spark engine that need no Spark: daemon, task outcomes, versions, sessions."""

import gc
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import penstock
from penstock.core.errors import (
    BugError,
    ConflictError,
    DecisionNeededError,
    FencedError,
    InvalidError,
    OutcomeUnknownError,
    PenstockError,
    UnavailableError,
)
from penstock.engines.spark.daemon import SHARED_LIBRARIES, import_shared, spare_archives
from penstock.engines.spark.engine import _results, require_classic
from penstock.engines.spark.session import OutputTail, require_same_spark
from penstock.engines.spark.task import _settle, error_from_text, error_to_text, perform
from penstock.engines.spark.versions import ABSENT, disagreements, versions_here

KINDS = (
    InvalidError,
    FencedError,
    DecisionNeededError,
    BugError,
    UnavailableError,
    ConflictError,
    OutcomeUnknownError,
)


def archive(path: Path, members: dict[str, str]) -> str:
    with zipfile.ZipFile(path, "w") as opened:
        for name, text in members.items():
            opened.writestr(name, text)
    return str(path)


def package(folder: Path, members: dict[str, str]) -> str:
    for name, text in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


SPARK = {"pyspark/__init__.py": "", "pyspark/version.py": "V = 1"}


def test_sparks_own_archive_is_spare_when_the_same_release_imports_without_it(
    tmp_path: Path,
) -> None:
    zipped = archive(tmp_path / "pyspark.zip", SPARK)
    site = package(tmp_path / "site", SPARK)

    assert [zipped] == spare_archives([zipped, site])
    assert [] == spare_archives([zipped])


def test_the_archives_of_the_spark_that_is_installed_are_spare() -> None:
    home = Path(pyspark.__file__).parent
    archives = [str(each) for each in (home / "python" / "lib").glob("*.zip")]

    assert 2 == len(archives)
    assert archives == spare_archives([*archives, str(home.parent)])


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ({**SPARK, "pyspark/version.py": "V = 2"}, SPARK),
        ({**SPARK, "py4j/__init__.py": "", "py4j/version.py": ""}, SPARK),
        ({**SPARK, "eggs/__init__.py": ""}, {**SPARK, "eggs/__init__.py": ""}),
        ({**SPARK, "prices.json": "{}"}, SPARK),
        ({"single.py": ""}, {"single.py": ""}),
        (
            {"shop_rules/__init__.py": "", "shop_rules/prices.py": "VAT = 7"},
            {"shop_rules/__init__.py": "", "shop_rules/prices.py": "VAT = 19"},
        ),
        ({"prices.json": "{}"}, {}),
    ],
    ids=[
        "another release",
        "one package more",
        "a user's package too",
        "a user's data too",
        "a single module",
        "a user's newer package",
        "a user's data",
    ],
)
def test_an_archive_stays_when_anything_would_be_lost(
    tmp_path: Path, inside: dict[str, str], outside: dict[str, str]
) -> None:
    zipped = archive(tmp_path / "spam.zip", inside)
    site = package(tmp_path / "site", outside)

    assert [] == spare_archives([zipped, site])


def test_a_jar_without_modules_is_spare_and_folders_and_missing_files_are_no_archives(
    tmp_path: Path,
) -> None:
    jar = archive(tmp_path / "core.jar", {"org/apache/Thing.class": "x"})

    assert [jar] == spare_archives([jar, str(tmp_path), str(tmp_path / "python311.zip")])


def test_what_does_not_survive_a_fork_is_not_shared() -> None:
    assert not {name.partition(".")[0] for name in SHARED_LIBRARIES} & {"deltalake", "grpc"}


def test_a_library_that_is_missing_is_no_matter_for_the_daemon() -> None:
    import_shared(("no_such_library",))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_crosses_from_worker_to_driver_unchanged(kind: type[PenstockError]) -> None:
    error = error_from_text(error_to_text(kind("So.", code="P123", hint="do")))

    assert (kind, "So.", "P123", "do") == (
        type(error),
        error.message,
        error.code,
        error.hint,
    )


def test_a_special_error_counts_as_the_kind_it_is() -> None:
    class DiskFullError(UnavailableError):
        pass

    assert UnavailableError is type(
        error_from_text(error_to_text(DiskFullError("Full.", code="P499")))
    )


def test_equal_versions_agree_and_each_difference_is_named() -> None:
    here = versions_here()

    assert [] == disagreements(here, versions_here())
    assert ["pyarrow 26 here, 25 there", "pyiceberg 1 here, absent there"] == disagreements(
        {"pyarrow": "26", "pyiceberg": "1", "x": ABSENT}, {"pyarrow": "25"}
    )


def test_a_worker_that_differs_from_the_driver_does_nothing_and_says_what_differs() -> None:
    driver = versions_here() | {"penstock": "9.9.9"}
    numbers = iter([pa.record_batch([pa.array([0, 1])], names=["id"])])
    rows = [
        each
        for batch in perform(driver, "no:work", ["", ""], numbers)
        for each in batch.to_pylist()
    ]
    errors = [error_from_text(row["error"]) for row in rows]

    assert [("P608", None)] * 2 == [
        (e.code, r["result"]) for e, r in zip(errors, rows, strict=True)
    ]
    assert (
        f"Driver and executors differ: penstock 9.9.9 here, {penstock.__version__} there."
        == errors[0].message
    )


def test_a_spark_home_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    with pytest.raises(InvalidError) as raised:
        require_same_spark({"SPARK_HOME": str(tmp_path)})

    assert "P603" == raised.value.code
    require_same_spark({})


def test_a_spark_connect_session_is_refused_by_name() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})

    with pytest.raises(InvalidError, match=r"A Spark Connect session cannot run workers") as raised:
        require_classic(remote())

    assert "P604" == raised.value.code


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Picked up x\nError occurred during initialization of VM\nMultiple garbage collectors selected",
            "Error occurred during initialization of VM: Multiple garbage collectors selected",
        ),
        (
            "Error occurred during initialization of VM\n",
            "Error occurred during initialization of VM",
        ),
        ("Exception in thread x\n\tat y\ngoodbye\n", "Exception in thread x"),
        ("all is well\n", ""),
    ],
)
def test_javas_last_words_are_the_line_with_the_cause(said: str, expected: str) -> None:
    assert expected == OutputTail(io.BytesIO(said.encode())).last_error()


@pytest.mark.parametrize("jobs", [[], [0], [0, 0, 1], [0, 2]])
def test_results_of_other_jobs_than_were_given_are_a_bug(jobs: list[int]) -> None:
    rows = [{"job": number, "result": "", "error": None} for number in jobs]

    with pytest.raises(BugError) as raised:
        _results(rows, 2, 1000)
    assert "P712" == raised.value.code


def test_a_driver_without_a_limit_takes_all_results() -> None:
    rows = [{"job": 0, "result": "x" * 2_000, "error": None}]

    assert ["x" * 2_000] == _results(rows, 1, None)
    with pytest.raises(InvalidError) as raised:
        _results(rows, 1, 1_000)
    assert "P607" == raised.value.code


@pytest.fixture
def first_job() -> Iterator[None]:
    """Let the next job be the first of its process, and leave the collector as it was."""
    _settle.cache_clear()
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("first_job")
def test_what_the_first_job_imported_is_spared_from_later_collections() -> None:
    def done() -> list[str]:
        numbers = pa.record_batch({"id": [0]})
        (reported,) = perform({}, "builtins:str", ["x"], iter([numbers]))
        return list(reported["result"].to_pylist())

    assert ["x"] == done()
    assert gc.get_freeze_count() > 0

    gc.unfreeze()
    assert ["x"] == done()
    assert 0 == gc.get_freeze_count()
