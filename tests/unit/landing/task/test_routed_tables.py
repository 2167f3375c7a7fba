"""Tables of a route in one job get what each would get in a job of its own, whatever the records."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.story.clock import ManualClock

from penstock.core.accounting import Tally
from penstock.core.offsets import span
from penstock.core.planning import Lane
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.landing.task.context import TaskContext
from penstock.landing.task.messages import Job, PoisonKind, TableJob, WriteTarget
from penstock.landing.task.sink import TaskSink
from penstock.rows.options import RowOptions
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import part

AT = part(0)
TEMPLATE = "lake.b.of_{kind}"
KINDS = ("a", "b", "c")
NAMES = [TEMPLATE.replace("{kind}", each) for each in KINDS]
BY_OFFSET = "['a', 'b', 'c', 'd'][1 + _kafka_offset % 4]"  # so bad records have tables as well
ROUTE = DynamicRoute(
    TEMPLATE,
    {"kind": SqlExpression(BY_OFFSET, Struct(()), "tables[0].route.kind")},
    unknown="create",
)
NARROW = Struct((Field("n", Kind.LONG),))
WIDE = Struct((*NARROW.fields, Field("more", Kind.STRING), Field("rescued", Kind.STRING)))

contents = st.sampled_from(
    [{"n": 1}, {"n": 2**40}, {"n": "x"}, {"n": 1.5}, {}, {"more": "y"}, {"more": {}, "n": 2}]
)
values = st.one_of(
    contents.map(lambda content: json.dumps(content).encode()),
    st.sampled_from([None, b"", b"no json", b'{"n": 1} x', b"[1]"]),
)
policies = st.sampled_from(["quarantine", "drop_value", "rescue", "evolve", "freeze"])
options = st.builds(
    lambda columns, types, tombstones: RowOptions(
        {}, columns=columns, types=types, tombstones=tombstones, rescued_column="rescued"
    ),
    policies,
    policies,
    st.sampled_from(["quarantine", "skip"]),
)
offsets = st.integers(0, 11)


@dataclass
class Kept:
    """A writer that keeps what it is given."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def abandon(self) -> None:
        self.batches.clear()


def table_job(name: str, schema: Schema, of: RowOptions, known: frozenset[int]) -> TableJob:
    return TableJob(
        schema,
        of,
        WriteTarget("memory", name),
        quarantined=frozenset((AT.topic_id, AT.partition, offset) for offset in known),
        filters={AT.topic: RecordFilter(route=ROUTE, share=name)},
        tables_max=5,
    )


jobs = st.builds(
    lambda shared, given_: {
        name: table_job(name, *(shared if own is None else own), known)
        for name, (own, known) in zip(NAMES, given_, strict=True)
    },
    st.tuples(st.sampled_from([NARROW, WIDE]), options),
    st.tuples(
        *[
            st.tuples(
                st.one_of(
                    st.none(), st.none(), st.tuples(st.sampled_from([NARROW, WIDE]), options)
                ),
                st.frozensets(offsets, max_size=2),
            )
        ]
        * len(NAMES)
    ),
)


def landed(
    tables: dict[str, TableJob], batch: pa.RecordBatch, poison: set[int]
) -> dict[str, dict[str, Any]]:
    """Return what a job of some tables makes of records, by table."""
    kept: dict[str, list[Kept]] = defaultdict(list)

    def opened(target: str, **_given: object) -> Kept:
        kept[target].append(Kept())
        return kept[target][-1]

    job = Job(
        pipeline="shop",
        epoch=1,
        number=0,
        survey=False,
        prefix="x",
        lanes=(Lane(AT, span(0, len(batch)), (*tables,)),),
        tables=tables,
        quarantine=WriteTarget("memory", "q"),
        timeout_seconds=1.0,
        now_ms=0,
        log={},
        poison={(AT.topic_id, AT.partition, offset): PoisonKind.CONVERTED for offset in poison},
    )
    sink = TaskSink(job, TaskContext(None, {"memory": opened}, Quiet(), ManualClock()))
    sink.write(job.lanes[0], batch)
    rows = {
        name: [
            row for each in kept[name] for written in each.batches for row in written.to_pylist()
        ]
        for name in (*tables, "q")
    }
    rejects = [(row["table"], row["offset"], row["code"], row["message"]) for row in rows.pop("q")]
    output = sink.output
    return {
        name: {
            "rows": rows[name],
            "rejects": sorted(each for each in rejects if each[0] == name),
            "books": output.tallies.get(name, {}).get(AT, Tally()),
            "schema": sink.schemas.get(name),
            "failed": output.failed[name].code if name in output.failed else "",
        }
        for name in tables
    }


@given(st.lists(values, min_size=1, max_size=12), jobs, st.sets(offsets, max_size=2))
@settings(max_examples=60)
def test_a_table_of_a_route_gets_what_it_would_get_in_a_job_of_its_own(values_, tables, poison):
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(len(values_)), pa.int64()),
            "timestamp": pa.array([0] * len(values_), pa.timestamp("ms", "UTC")),
            "key": pa.array([None] * len(values_), pa.binary()),
            "value": pa.array(values_, pa.binary()),
        }
    )
    alone = {name: landed({name: job}, batch, poison)[name] for name, job in tables.items()}

    assert alone == landed(tables, batch, poison)
