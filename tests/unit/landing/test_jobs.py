"""Jobs as they travel."""

from penstock.core.accounting import Tally
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.core.planning import Lane
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.jobs import (
    Destination,
    Job,
    LaneResult,
    Result,
    TableJob,
    job_from_json,
    job_to_json,
    result_from_json,
    result_to_json,
)
from penstock.rows.options import RowOptions

AT = TopicPartition("AAAAAAAAAAAAAAAAAAAAAQ", 0, "orders")
LANE = Lane(AT, span(0, 10), ("lake.bronze.orders",))


def test_a_job_is_read_as_it_was_written() -> None:
    options = RowOptions({"offset": "_offset"}, types="drop_value", not_empty=("place", "country"))
    table = TableJob(
        schema=Struct((Field("place", Kind.STRING),)),
        options=options,
        destination=Destination("delta", "{}"),
        already=frozenset({(AT.topic_id, 0, 3)}),
    )
    job = Job(
        pipeline="shop",
        epoch=1,
        number=2,
        survey=False,
        prefix="shop-1-2-",
        lanes=(LANE,),
        tables={"lake.bronze.orders": table},
        quarantine=Destination("delta", "{}"),
        timeout_seconds=30.0,
        now_ms=1,
        log={"topics": ["orders"]},
        leader_epochs={AT: 4},
    )

    assert job == job_from_json(job_to_json(job))


def test_a_result_is_read_as_it_was_written() -> None:
    result = Result(
        number=2,
        lanes=(LaneResult(LANE, Offset(9), 9, 900, 1_000, 4),),
        tallies={"lake.bronze.orders": {AT: Tally(9, 7, 1, 1)}},
    )

    assert result == result_from_json(result_to_json(result))
