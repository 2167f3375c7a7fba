"""Every documented option of the systems that people come from is taken, left with a reason, or
undecided; and a spec with something undecided is refused, until somebody has decided.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.app import documented_options as documented
from tests.unit.app.documented_options import ASKED, LEFT, TAKEN

from penstock.app.init.draft import translated
from penstock.app.init.migrate.account import Migrated
from penstock.cli.init import init
from penstock.spec.load import loads
from penstock.spec.problems import SpecError

Option = tuple[str, str, str]

BASE = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "events",
    "iceberg.tables": "shop.events",
    "iceberg.catalog.type": "sql",
    "iceberg.catalog.uri": "sqlite:///./c.db",
    "iceberg.catalog.warehouse": "./lake",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "consumer.override.auto.offset.reset": "earliest",
}
SOURCE = {
    "connector": "kafka",
    "topic": "events",
    "format": "json",
    "scan.startup.mode": "earliest-offset",
}
SINK = {
    "connector": "iceberg",
    "catalog-type": "sql",
    "uri": "sqlite:///./c.db",
    "warehouse": "./lake",
}


def of_connect(*options: Option) -> str:
    given = BASE | {name: value for name, value, _ in options}
    if "topics.regex" in given:
        del given["topics"]
    return "\n".join(f"{name}={value}" for name, value in given.items())


def of_flink(
    *source: Option, sink: tuple[Option, ...] = (), hints: tuple[Option, ...] = (), job: str = ""
) -> str:
    hinted = f"/*+ OPTIONS({pairs({}, *hints)}) */" if hints else ""
    return (
        f"{job}\nCREATE TABLE s (id BIGINT) WITH ({pairs(SOURCE, *source)});\n"
        f"CREATE TABLE t (id BIGINT) WITH ({pairs(SINK, *sink)});\n"
        f"INSERT INTO t {hinted} SELECT * FROM s;"
    )


def pairs(base: dict[str, str], *options: Option) -> str:
    reported = base | {name: value for name, value, _ in options}
    return ", ".join(f"'{name}' = '{value}'" for name, value in reported.items())


def of_ingest(*options: Option) -> str:
    said = {name for name, _, _ in options} & {"--auto_offset_reset", "-o", "--seek_offsets"}
    said |= {name for name, value, _ in options if value.startswith("auto.offset.reset")}
    words = [word for name, value, _ in options for word in (name, value) if word]
    reset = [] if said else ["-o", "earliest"]
    return shlex.join(["kafka-delta-ingest", "ingest", "events", "./lake/a/b", *words, *reset])


def what_became(found: Migrated, name: str) -> set[str]:
    """Return where an option is accounted for; kafka-delta-ingest's are with what they name."""

    def reported(option: str) -> bool:
        return option == name or option.startswith(f"{name} ")

    return {
        *(TAKEN for option, setting in found.mapped if reported(option) and setting),
        *(LEFT for option, why in found.unmapped if reported(option) and why),
        *(ASKED for each in found.questions() if reported(each.option) and each.decide),
    }


CASES = [
    *(("connect", of_connect(each), each) for each in documented.CONNECT),
    *(("source", of_flink(each), each) for each in documented.FLINK_SOURCE),
    *(("sink", of_flink(sink=(each,)), each) for each in documented.FLINK_SINK),
    *(("hint", of_flink(hints=(each,)), each) for each in documented.FLINK_WRITE_HINTS),
    *(
        ("job", of_flink(job=f"SET '{each[0]}' = '{each[1]}';"), each)
        for each in documented.FLINK_JOB
    ),
    *(("ingest", of_ingest(each), each) for each in documented.INGEST),
]


@pytest.mark.parametrize(
    ("text", "option"),
    [(text, option) for _, text, option in CASES],
    ids=[f"{system} {name}={value}" for system, _, (name, value, _) in CASES],
)
def test_a_documented_option_is_taken_left_or_undecided(
    tmp_path: Path, text: str, option: Option
) -> None:
    name, _, expected = option
    written, found = translated(text)

    became = what_became(found, name)
    if name in ("topics", "iceberg.tables", "topic"):
        assert TAKEN in became
    elif expected == LEFT:
        assert {LEFT} == became
    else:
        assert expected in became
        assert expected == ASKED or ASKED not in became, "taken, and not asked about as well"
    assert (expected == ASKED) == (codes_of(written, tmp_path) == {"P175"})


def codes_of(written: str, base: Path) -> set[str]:
    try:
        loads(written, base=base)
    except SpecError as error:
        return {each.code for each in error.problems if each.severity == "error"} & {"P175"}
    return set()


@given(
    st.lists(st.sampled_from(documented.CONNECT), max_size=8, unique_by=lambda each: each[0]),
    st.dictionaries(
        st.from_regex(r"[a-z]{1,6}(\.[a-z]{1,6}){1,3}", fullmatch=True),
        st.from_regex(r"[ -\[\]-~]{0,8}", fullmatch=True),
        max_size=3,
    ),
)
def test_no_option_of_a_connector_goes_without_account(
    options: list[Option], unknown: dict[str, str]
) -> None:
    text = of_connect(*options, *((name, value, ASKED) for name, value in unknown.items()))
    written, found = translated(text)

    names = {line.partition("=")[0] for line in text.splitlines()}
    assert set() == {name for name in names if not what_became(found, name)}
    entries = yaml.safe_load(written).get("undecided", [])
    assert [each.option for each in found.questions()] == [each["option"] for each in entries]


@given(
    st.lists(st.sampled_from(documented.FLINK_SOURCE), max_size=6, unique_by=lambda each: each[0]),
    st.lists(st.sampled_from(documented.FLINK_SINK), max_size=6, unique_by=lambda each: each[0]),
    st.lists(st.sampled_from(documented.INGEST), max_size=6, unique_by=lambda each: each[0]),
)
def test_no_option_of_flink_or_kafka_delta_ingest_goes_without_account(
    source: list[Option], sink: list[Option], words: list[Option]
) -> None:
    _, of_script = translated(of_flink(*source, sink=tuple(sink)))
    _, of_command = translated(of_ingest(*words))

    names = {name for name, _, _ in (*source, *sink)}
    assert set() == {name for name in names if not what_became(of_script, name)}
    assert set() == {name for name, _, _ in words if not what_became(of_command, name)}


def test_a_migration_never_moves_a_start_in_silence(tmp_path: Path) -> None:
    """Plain lines of a connector that say nothing of a start go on at its group; so it asks."""
    plain = of_connect().replace("consumer.override.auto.offset.reset=earliest", "")
    written, found = translated(plain)

    with pytest.raises(SpecError) as refused:
        loads(written, base=tmp_path)
    (problem,) = refused.value.problems
    assert ("P175", ("undecided", 0)) == (problem.code, problem.path)
    lines = written.splitlines()
    at = lines.index("undecided:") + 2
    assert problem.place is not None
    assert (at, 3) == (problem.place.line, problem.place.column)
    assert "kafka.start" in problem.message
    assert ("earliest", "(not set)") == (found.spec["kafka"]["start"], found.beginning[0].value)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t (id) SELECT * FROM s;",
        "INSERT INTO t SELECT DISTINCT * FROM s;",
        "INSERT INTO t SELECT id FROM s;",
        "INSERT INTO t SELECT * FROM s WHERE id > 4;",
        "INSERT INTO t SELECT * FROM s LIMIT 4;",
        "INSERT INTO t SELECT * FROM s, u;",
        "INSERT INTO t SELECT * FROM s; INSERT OVERWRITE t SELECT * FROM s;",
        "INSERT INTO t SELECT * FROM s; CREATE VIEW v AS SELECT 1;",
        "INSERT INTO t SELECT * FROM s; INSERT INTO t SELECT * FROM v;",
        "INSERT INTO t SELECT * FROM s; ALTER TABLE s SET ('x' = 'y');",
    ],
)
def test_what_a_script_does_beyond_taking_records_is_undecided(
    tmp_path: Path, statement: str
) -> None:
    text = of_flink().replace("INSERT INTO t  SELECT * FROM s;", statement)
    assert statement in text

    assert {"P175"} == codes_of(translated(text)[0], tmp_path)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("late AS id + 1", ASKED),
        ("`at` TIMESTAMP(3) METADATA FROM 'timestamp'", ASKED),
        ("`offset` BIGINT METADATA VIRTUAL", ASKED),
        ("WATERMARK FOR at AS at - INTERVAL '5' SECOND", ASKED),
        ("PRIMARY KEY (id) NOT ENFORCED", ASKED),
        ("CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED", ASKED),
        ("tags MAP<STRING, ROW<a INT, b DECIMAL(10, 2)>> COMMENT 'a, b'", LEFT),
    ],
)
def test_a_column_that_is_no_field_of_the_record_is_undecided(
    tmp_path: Path, column: str, kind: str
) -> None:
    text = of_flink().replace("s (id BIGINT)", f"s (id BIGINT, {column})")
    written, found = translated(text)

    assert (kind == ASKED) == (codes_of(written, tmp_path) == {"P175"})
    reported = [option for option, _ in found.unmapped if option.startswith("CREATE TABLE s: ")]
    assert (["CREATE TABLE s: id"] + (["CREATE TABLE s: tags"] if kind == LEFT else [])) == reported


def test_a_table_without_a_pattern_takes_no_record_of_those_that_are_routed(
    tmp_path: Path,
) -> None:
    more = (
        ("iceberg.tables", "shop.a,shop.b", TAKEN),
        ("iceberg.tables.route-field", "kind", TAKEN),
        ("iceberg.table.shop.a.route-regex", "a", TAKEN),
    )
    written, found = translated(of_connect(*more))

    assert ["iceberg.table.shop.b.route-regex"] == [each.option for each in found.questions()]
    assert {"P175"} == codes_of(written, tmp_path)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("bucket(id, 16)", ["bucket(16, id)"]),
        ("truncate(name , 4),bucket( id,8 )", ["truncate(4, name)", "bucket(8, id)"]),
        ("bucket(16, id)", ["bucket(16, id)"]),
        ("days(at),hour(at),id", ["day(at)", "hour(at)", "id"]),
    ],
)
def test_arguments_of_partition_fields_are_turned_round(theirs: str, ours: list[str]) -> None:
    _, found = translated(of_connect(("iceberg.tables.default-partition-by", theirs, TAKEN)))

    assert ours == found.spec["tables"][0]["partition_by"]


def test_a_transform_is_asked_about_once_with_its_own_options() -> None:
    more = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "email",
        "transforms.mask.predicate": "p",
        "transforms.gone.type": "x",
    }
    _, found = translated(of_connect(*((name, value, ASKED) for name, value in more.items())))

    (question,) = found.questions()
    assert "transforms.mask.type" == question.option
    assert "MaskField$Value fields=email predicate=p" in question.value
    assert {"transforms", "transforms.mask.fields", "transforms.gone.type"} <= {
        *dict(found.unmapped)
    }


def test_an_envelope_under_a_predicate_is_not_taken_for_all_records() -> None:
    more = {
        "transforms": "d",
        "transforms.d.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.d.predicate": "p",
    }
    _, found = translated(of_connect(*((name, value, ASKED) for name, value in more.items())))

    assert ["transforms.d.type"] == [each.option for each in found.questions()]
    assert "debezium" == found.spec["records"]["envelope"]


def test_variables_before_a_command_are_accounted_for_without_their_values() -> None:
    text = f"AWS_SECRET_ACCESS_KEY=hunter2 RUST_LOG=debug {of_ingest()} surplus"
    written, found = translated(text)

    asked = [each.option for each in found.questions()]
    assert ["words after the table's place", "AWS_SECRET_ACCESS_KEY"] == asked
    assert "hunter2" not in written
    assert "RUST_LOG" in dict(found.unmapped)


def test_a_references_of_the_other_system_stays_text_in_the_entry(tmp_path: Path) -> None:
    written, found = translated(of_connect(("tasks.max", "${file:/etc/x:tasks}", ASKED)))

    assert "${file:/etc/x:tasks}" == found.questions()[0].value
    assert {"P175"} == codes_of(written, tmp_path)
    with pytest.raises(SpecError) as refused:
        loads(written, base=tmp_path)
    assert ["P175"] == [each.code for each in refused.value.problems]


@pytest.mark.parametrize(
    ("reset", "code", "undecided"), [("earliest", 0, []), ("latest", 2, ["latest"])]
)
def test_init_ends_with_2_while_something_is_undecided_and_reports_where(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reset: str,
    code: int,
    undecided: list[str],
) -> None:
    spec, theirs = tmp_path / "new.yaml", tmp_path / "sink.properties"
    theirs.write_text(of_connect(("consumer.override.auto.offset.reset", reset, ASKED)))

    assert code == init(spec, from_config=theirs, json=True)
    reported = json.loads(capsys.readouterr().out)
    assert undecided == [each["value"] for each in reported["undecided"]]
    assert (code == 0) == reported["valid"]
    spec.unlink()
    assert code == init(spec, from_config=theirs)
    shown = capsys.readouterr()
    line = spec.read_text().splitlines().index("undecided:") + 2 if undecided else 0
    assert (code == 2) == (f"new.yaml:{line}:3" in shown.err)
    assert (code == 2) == ("not complete" in shown.out)
