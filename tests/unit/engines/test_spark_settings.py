from pathlib import Path

import pytest

from penstock.engines.spark.settings import (
    SparkSettings,
    configuration,
    for_command_line,
    is_local,
    java_options_of,
    with_retries,
)

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("local[*, 2]", "local[*, 2]"),
        ("local-cluster[2,1,512]", "local-cluster[2,1,512]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_plain_local_master_gets_the_retries_of_a_cluster(master: str, expected: str) -> None:
    assert expected == with_retries(master)
    assert expected == configuration(SparkSettings(master=master), folder="/f")["spark.master"]


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local-cluster[1,1,1]", False), ("yarn", False)],
)
def test_local_means_workers_under_the_drivers_own_java(master: str, expected: bool) -> None:
    assert expected == is_local(master)


def test_the_users_configuration_wins_over_every_default() -> None:
    conf = {"spark.driver.memory": "7g", "spark.ui.retainedJobs": "99", "spark.mine": "x"}

    chosen = configuration(SparkSettings(conf=conf), folder="/f")

    assert conf == {name: chosen[name] for name in conf}


def test_java_options_are_added_up_with_the_users_last() -> None:
    chosen = configuration(SparkSettings(conf={OPTIONS: "-Xss4m"}), folder="/f")

    ours = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-Djava.io.tmpdir=/f"'
    assert f"{ours} -Xss4m" == chosen[OPTIONS]


def test_a_collector_of_the_users_replaces_ours() -> None:
    chosen = configuration(SparkSettings(conf={OPTIONS: "-XX:+UseZGC"}), folder="/f")

    assert "-XX:+UseSerialGC" not in chosen[OPTIONS]
    assert chosen[OPTIONS].endswith(" -XX:+UseZGC")


@pytest.mark.parametrize(
    "variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"]
)
def test_a_collector_that_the_environment_names_replaces_ours(
    variable: str, tmp_path: Path
) -> None:
    named = java_options_of({variable: "-Xss4m -XX:+UseG1GC"}, tmp_path)
    chosen = configuration(SparkSettings(), folder="/f", java_options=named)

    assert "-XX:+UseSerialGC" not in chosen[OPTIONS]
    assert "-XX:+UseG1GC" not in chosen[OPTIONS]


def test_a_collector_of_sparks_defaults_replaces_ours(tmp_path: Path) -> None:
    defaults = "spark.driver.defaultJavaOptions"
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    file.write_text(f"# -XX:+UseZGC\n{defaults}  -XX:+UseParallelGC\n")
    chosen = [
        configuration(SparkSettings(conf={defaults: "-XX:+UseG1GC"}), folder="/f"),
        configuration(SparkSettings(), folder="/f", java_options=java_options_of({}, tmp_path)),
        configuration(
            SparkSettings(),
            folder="/f",
            java_options=java_options_of({"SPARK_CONF_DIR": str(file.parent)}, Path("/none")),
        ),
    ]

    assert [] == [each[OPTIONS] for each in chosen if "-XX:+UseSerialGC" in each[OPTIONS]]


def test_an_environment_that_names_no_collector_leaves_ours(tmp_path: Path) -> None:
    named = java_options_of({"JAVA_TOOL_OPTIONS": "-Dfile.encoding=UTF-8"}, tmp_path)
    chosen = configuration(SparkSettings(), folder="/f", java_options=named)

    assert "-XX:+UseSerialGC" in chosen[OPTIONS]


def test_a_local_session_is_offline_and_keeps_to_its_folder() -> None:
    chosen = configuration(SparkSettings(), folder="/scratch")

    assert ["127.0.0.1", "127.0.0.1", "/scratch", "true"] == [
        chosen["spark.driver.host"],
        chosen["spark.driver.bindAddress"],
        chosen["spark.local.dir"],
        chosen["spark.python.unix.domain.socket.enabled"],
    ]


def test_a_cluster_does_not_get_the_drivers_folders_and_addresses() -> None:
    chosen = configuration(SparkSettings(master="yarn"), folder="/scratch")

    assert not {"spark.driver.host", "spark.local.dir"} & chosen.keys()
    assert "/scratch" not in chosen[OPTIONS]


def test_a_folder_too_long_for_sockets_falls_back_to_loopback() -> None:
    chosen = configuration(SparkSettings(), folder="/" + "x" * 90)

    assert "false" == chosen["spark.python.unix.domain.socket.enabled"]


def test_probable_secrets_stay_off_the_command_line_and_out_of_reprs() -> None:
    conf = {
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.hadoop.fs.s3a.access.key": "hush",
        "spark.ssl.keyPassword": "hush",
        "spark.hadoop.fs.azure.account.key.x": "hush",
        "spark.mine": "plain",
    }

    assert {"spark.mine": "plain"} == for_command_line(conf)
    assert "hush" not in repr(SparkSettings(conf=conf))


def test_what_spark_submit_is_given_is_what_sessions_of_our_own_have() -> None:
    conf = Path(__file__).parents[3] / "deploy" / "spark" / "submit.conf"
    lines = [line.split() for line in conf.read_text().splitlines() if line and line[0] != "#"]
    ours = configuration(SparkSettings(master="spark://m:1"), folder="/f")
    of_the_driver = {
        "spark.app.name",
        "spark.driver.memory",
        "spark.driver.maxResultSize",
        "spark.ui.enabled",
        "spark.sql.warehouse.dir",
        "spark.driver.extraJavaOptions",
        "spark.master",
    }

    assert {name: ours[name] for name in ours.keys() - of_the_driver} == dict(lines)


def test_classes_come_from_the_archive_unless_the_user_names_one(tmp_path: Path) -> None:
    archive = tmp_path / "with blanks" / "java.jsa"
    own = "-XX:SharedArchiveFile=/mine.jsa"

    ours = configuration(SparkSettings(), folder="/f", archive=archive)[OPTIONS]
    theirs = configuration(SparkSettings(conf={OPTIONS: own}), folder="/f", archive=archive)

    assert f'"-XX:SharedArchiveFile={archive}" -Xshare:auto' in ours
    assert str(archive) not in theirs[OPTIONS]
    assert theirs[OPTIONS].endswith(own)
