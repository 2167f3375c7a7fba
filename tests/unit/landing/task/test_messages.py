"""Jobs and results cross processes as JSON, and come back as they were."""

import json
from decimal import Decimal

import pytest

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.exchange import Block, ExchangeFile
from penstock.core.offsets import Offset, span
from penstock.core.planning import Lane
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.message_json import (
    job_from_json,
    job_to_json,
    result_from_json,
    result_to_json,
)
from penstock.landing.task.messages import Job, LaneResult, TableJob, TaskResult, WriteTarget
from penstock.landing.task.share import ShareJob, ShareResult
from penstock.landing.task.share_json import (
    any_job_from_json,
    share_job_to_json,
    share_result_from_json,
    share_result_to_json,
)
from penstock.ports.writers import Distribution, Placing
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.testing.prepared import part

LANE = Lane(part(3), span(5, 9), ("lake.a", "lake.b"))
AHEAD = Lane(part(3), span(9, 12), ("lake.c",))
SCHEMA = Struct((Field("n", Kind.LONG),))
OPTIONS = RowOptions(
    {"topic": "_kafka_topic"},
    columns="drop_value",
    not_empty=("place", "country"),
    reserved=("_file",),
)
KEYED = RowOptions(
    {},
    tombstones="delete",
    keyed=KeyedOptions(
        ("country", "id"),
        {"U": "upsert", "D": "delete"},
        operation_header="op",
        ignores_truncates=True,
    ),
)
HASHED = Placing(Distribution.HASH)
JOB = Job(
    pipeline="shop",
    epoch=7,
    number=2,
    survey=False,
    prefix="shop-7-2-x",
    lanes=(LANE, AHEAD),
    tables={
        "lake.a": TableJob(SCHEMA, OPTIONS, WriteTarget("iceberg", "{}"), frozenset({("t", 3, 6)})),
        "lake.d": TableJob(
            SCHEMA, OPTIONS, WriteTarget("iceberg", "{}", Placing(Distribution.LATE, True))
        ),
        "lake.b": TableJob(SCHEMA, OPTIONS, None, least={("place", "price"): Decimal("-9.90")}),
        "lake.c": TableJob(SCHEMA, KEYED, WriteTarget("iceberg", "{}"), only={("t", 3): "x"}),
    },
    quarantine=WriteTarget("iceberg", '{"v": 1}'),
    timeout_seconds=120.0,
    now_ms=1_700_000_000_000,
    log={"brokers": "here:9092"},
    leader_epochs={LANE: 4},
    exchanged=frozenset({"lake.a"}),
)
SHARED = ExchangeFile("x.exchange", (Block(63, 0, 100, 2, 7),), {part(3): span(5, 8)})
SHARE = ShareJob(9, "shop-7-9-x", "lake.e", WriteTarget("delta", "{}", HASHED), (SHARED,), "plan")
RESULT = TaskResult(
    number=2,
    lanes=(LaneResult(LANE, Offset(8), 3, 300, 17, 4),),
    files={"lake.a": (DataFile("a", 2, 100, {part(3): span(5, 8)}),)},
    exchanged={"lake.e": (SHARED,)},
    rejects={"lake.a": (DataFile("q", 1, 100, {part(3): span(5, 8)}),)},
    tallies={"lake.a": {part(3): Tally(3, 2, {}, {"P302": 1})}},
    schemas={"lake.b": SCHEMA},
    touched={"lake.a": (b"\x00\xff", b"")},
    seconds=0.5,
)


def test_a_job_comes_back_as_it_was():
    assert JOB == job_from_json(job_to_json(JOB))


def test_a_job_of_either_stage_of_an_exchange_is_known_again():
    assert [JOB, SHARE] == [
        any_job_from_json(job_to_json(JOB)),
        any_job_from_json(share_job_to_json(SHARE)),
    ]


@pytest.mark.parametrize(
    "error", [None, UnavailableError("gone", code="P481", hint="look")], ids=str
)
def test_a_result_of_a_share_comes_back_as_it_was(error):
    result = ShareResult(9, (DataFile("a", 2, 100, {part(3): span(5, 8)}),), error)
    read = share_result_from_json(share_result_to_json(result))

    assert (result.number, result.files, str(error)) == (read.number, read.files, str(read.error))


def test_a_result_comes_back_as_it_was():
    assert RESULT == result_from_json(result_to_json(RESULT))


def test_a_table_whose_operation_is_in_a_header_wants_headers():
    wants = {name: table.wants_headers("orders") for name, table in JOB.tables.items()}

    assert [name for name, wanted in wants.items() if wanted] == ["lake.c"]


@pytest.mark.parametrize("kind", [InvalidError, UnavailableError, DecisionNeededError])
def test_errors_come_back_with_kind_code_and_hint(kind):
    error = kind("it is so", code="P402", hint="do this")
    read = result_from_json(result_to_json(TaskResult(0, failed={"lake.a": error}, error=error)))

    for back in (read.error, read.failed["lake.a"]):
        assert (kind, "it is so", "P402", "do this") == (
            type(back),
            back.message,
            back.code,
            back.hint,
        )


@pytest.mark.parametrize(
    ("text", "read"),
    [(job_to_json(JOB), job_from_json), (result_to_json(RESULT), result_from_json)],
)
def test_another_version_is_refused_by_name(text, read):
    other = json.dumps({**json.loads(text), "v": 99})

    with pytest.raises(InvalidError, match="version 99") as caught:
        read(other)
    assert "P620" == caught.value.code
