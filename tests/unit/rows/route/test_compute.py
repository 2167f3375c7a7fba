"""Computed columns: expressions and functions, one row for one record, or a refusal with a code."""

import json
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct
from penstock.landing.task.convert import convert_for_table
from penstock.landing.task.message_json import job_from_json, job_to_json
from penstock.landing.task.messages import Job, PoisonKind, TableJob, WriteTarget
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.route import sql_values
from penstock.rows.route.compute import FunctionError, no_functions
from penstock.rows.route.filters import ComputedColumns, SqlExpression

AT = TopicPartition("id", 0, "orders")
N = Struct((Field("n", Kind.LONG),))
TS = Struct((Field("ts", Kind.TIMESTAMPTZ),))


def batch(*values):
    return pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000] * len(values), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(
                [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values],
                pa.binary(),
            ),
        }
    )


def look(sql, fields, name="it"):
    return SqlExpression(sql, fields, f"tables[0].transform.columns.{name}")


def table(*fields, computed):
    return TableJob(
        Struct(fields), RowOptions(source_columns={}), WriteTarget("c", "t"), computed=computed
    )


def landed(job, *values, functions=no_functions):
    return convert_for_table(job, batch(*values), AT, ReaderCache(), functions)


def test_an_expression_fills_a_column_from_fields_and_from_the_record() -> None:
    job = table(
        Field("ts", Kind.TIMESTAMPTZ),
        Field("day", Kind.DATE),
        Field("at", Kind.LONG),
        computed=ComputedColumns(
            {
                "day": look("cast(ts as date)", TS),
                "at": look("_kafka_offset * 10", Struct(())),
            }
        ),
    )
    done = landed(job, {"ts": "2024-02-29T23:59:00Z"}, {"ts": "2024-03-01T00:30:00+01:00"}, {})

    assert [date(2024, 2, 29), date(2024, 2, 29), None] == done.rows.column("day").to_pylist()
    assert [0, 10, 20] == done.rows.column("at").to_pylist()
    assert ["ts", "day", "at"] == done.rows.schema.names
    assert () == done.rejects


def test_a_record_for_which_it_cannot_be_computed_is_refused_alone() -> None:
    job = table(
        Field("n", Kind.LONG),
        Field("it", Kind.LONG),
        computed=ComputedColumns(
            {"it": look("cast(replace(cast(n as varchar), '2', 'x') as bigint)", N)}
        ),
    )
    done = landed(job, {"n": 1}, {"n": 2}, {"n": 3}, b"no json")

    assert [1, 3] == done.rows.column("it").to_pylist()
    assert [0, 2] == done.offsets.tolist()
    assert [(1, "P380"), (3, "P302")] == [(each.offset, each.code) for each in done.rejects]


def test_a_field_of_a_computed_column_s_name_is_an_unknown_field() -> None:
    job = table(
        Field("n", Kind.LONG),
        Field("it", Kind.LONG),
        computed=ComputedColumns({"it": look("n", N)}),
    )
    done = landed(job, {"n": 1, "it": 5}, {"n": 2})

    assert [2] == done.rows.column("it").to_pylist()
    assert ["P361"] == [each.code for each in done.rejects]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("case n when 1 then 'inf'::double else 0.5 end", Kind.DOUBLE),
        ("case n when 1 then 'nan'::double else 0.5 end", Kind.DOUBLE),
        ("case n when 1 then 'infinity'::date else '2024-01-01'::date end", Kind.DATE),
        ("case n when 1 then '0044-03-15 (BC)'::date else '2024-01-01'::date end", Kind.DATE),
        ("case n when 1 then '12024-01-01'::timestamp else '2024-01-01' end", Kind.TIMESTAMP),
        ("cast(case n when 1 then '24:00:00' else '23:59:59.999999' end as time)", Kind.TIME),
        ("[null, cast(case n when 1 then '24:00' else '23:59' end as time)]", List(Kind.TIME)),
        (
            "[{'at': case n when 1 then 'infinity'::date else '2024-01-01'::date end}]",
            List(Struct((Field("at", Kind.DATE),))),
        ),
        (
            "map {'a': 0.5::double, 'b': case n when 1 then 'nan'::double else 0 end}",
            Map(Kind.STRING, Kind.DOUBLE),
        ),
    ],
)
def test_a_value_that_no_column_holds_refuses_its_record(sql, kind) -> None:
    job = table(
        Field("n", Kind.LONG), Field("it", kind), computed=ComputedColumns({"it": look(sql, N)})
    )
    done = landed(job, {"n": 1}, {"n": 2})

    assert [1] == done.offsets.tolist()
    assert [(0, "P364")] == [(each.offset, each.code) for each in done.rejects]


def test_an_empty_text_that_the_format_reads_as_null_refuses_its_record() -> None:
    job = replace(CALLED_BY_TEXT, options=replace(CALLED_BY_TEXT.options, not_empty=("it", "by")))
    texts = [{"s": " a "}, {"s": " "}, {}, {"s": "b"}, {"s": "none"}]
    done = landed(job, *texts, functions=lambda _: named)

    assert ["a", None, "b"] == done.rows.column("it").to_pylist()
    assert ["by a", "by ?", "by b"] == done.rows.column("by").to_pylist()
    assert [(1, "P372"), (4, "P372")] == [(each.offset, each.code) for each in done.rejects]


def named(rows):
    """Fill `by`, with an empty text for `none`."""
    texts = [text or "?" for text in rows.column("it").to_pylist()]
    return pa.record_batch({"by": pa.array(["" if t == "none" else f"by {t}" for t in texts])})


CALLED_BY_TEXT = table(
    *(Field(name, Kind.STRING) for name in ("s", "it", "by")),
    computed=ComputedColumns(
        {"it": look("trim(s)", Struct((Field("s", Kind.STRING),)))}, "m:f", ("by",)
    ),
)


def test_null_for_a_required_column_refuses_its_record() -> None:
    job = table(
        Field("n", Kind.LONG),
        Field("it", Kind.LONG, required=True),
        computed=ComputedColumns({"it": look("nullif(n, 1)", N)}),
    )
    done = landed(job, {"n": 1}, {"n": 2})

    assert [(0, "P362")] == [(each.offset, each.code) for each in done.rejects]
    assert [2] == done.rows.column("it").to_pylist()


@pytest.mark.parametrize(
    ("kind", "sql", "fits"),
    [
        (Kind.LONG, "cast(n as integer)", True),
        (Decimal(12, 4), "cast(n as decimal(5, 2))", True),
        (Decimal(5, 2), "cast(n as decimal(12, 4))", False),
        (Kind.STRING, "n", False),
        (Kind.INT, "n", False),
    ],
)
def test_a_column_of_another_type_is_refused_by_name_unless_it_holds_all(kind, sql, fits) -> None:
    job = table(
        Field("n", Kind.LONG), Field("it", kind), computed=ComputedColumns({"it": look(sql, N)})
    )
    if fits:
        assert 1 == landed(job, {"n": 7}).rows.num_rows
        return
    with pytest.raises(InvalidError, match="the column it is") as refused:
        landed(job, {"n": 7})
    assert "P493" == refused.value.code


def test_a_column_that_the_table_lacks_is_named() -> None:
    job = table(Field("n", Kind.LONG), computed=ComputedColumns({"it": look("n", N)}))
    with pytest.raises(InvalidError, match="has no column it"):
        landed(job, {"n": 7})


def halved(rows):
    """Fill `half` for even numbers, and raise for odd ones."""
    numbers = rows.column("n").to_pylist()
    if any(number % 2 for number in numbers):
        raise FunctionError
    return pa.record_batch({"half": pa.array([number // 2 for number in numbers], pa.int64())})


CALLED = table(
    Field("n", Kind.LONG), Field("half", Kind.LONG), computed=ComputedColumns({}, "m:f", ("half",))
)


def test_a_function_fills_columns_and_the_records_it_raises_for_are_refused_alone() -> None:
    done = landed(CALLED, *({"n": n} for n in (2, 4, 5, 6, 7)), functions=lambda _: halved)

    assert [1, 2, 3] == done.rows.column("half").to_pylist()
    assert [0, 1, 3] == done.offsets.tolist()
    assert [(2, "P383"), (4, "P383")] == [(each.offset, each.code) for each in done.rejects]


def test_a_function_that_raises_for_anything_is_not_asked_when_no_record_is_left() -> None:
    def raising(_rows):
        raise FunctionError

    fields = (Field("n", Kind.LONG), Field("it", Kind.LONG), Field("half", Kind.LONG))
    undecided = {"it": look("cast('x' || n as bigint)", N)}
    job = table(*fields, computed=ComputedColumns(undecided, "m:f", ("half",)))
    done = landed(job, {"n": 1}, {"n": 2}, functions=lambda _: raising)

    assert 0 == done.rows.num_rows
    assert ["P380", "P380"] == [each.code for each in done.rejects]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda _: None, "a NoneType"),
        (lambda rows: halved(rows).slice(1), "got 2 rows and returned 1"),
        (lambda rows: rows.select(["n"]), "no column half"),
    ],
)
def test_a_function_that_keeps_no_promise_stops_its_table(given, message) -> None:
    with pytest.raises(InvalidError, match=message) as refused:
        landed(CALLED, {"n": 2}, {"n": 4}, functions=lambda _: given)
    assert "P494" == refused.value.code


def test_a_batch_without_rows_has_the_table_s_columns() -> None:
    done = landed(CALLED, b"no json", functions=lambda _: halved)

    assert (0, ["n", "half"]) == (done.rows.num_rows, done.rows.schema.names)


def test_a_record_for_which_an_expression_takes_too_long_is_refused_alone(monkeypatch) -> None:
    for limit in ("BATCH_SECONDS_MAX", "PART_SECONDS_MAX", "RECORD_SECONDS_MAX"):
        monkeypatch.setattr(sql_values, limit, 1.0)
    hashes = "list_sum(list_transform(range(n), lambda x: length(md5(x::varchar))))"
    long = look(f"cast({hashes} as bigint)", N)
    job = table(
        Field("n", Kind.LONG), Field("it", Kind.LONG), computed=ComputedColumns({"it": long})
    )

    done = landed(job, *({"n": n} for n in (1, 2, 10**8, 3)))

    assert [1, 2, 3] == done.rows.column("n").to_pylist()
    assert [(2, "P314")] == [(reject.offset, reject.code) for reject in done.rejects]
    alone = landed(job, {"n": 10**8})
    assert (0, ["P314"]) == (alone.rows.num_rows, [reject.code for reject in alone.rejects])


def test_what_is_computed_travels_in_a_job() -> None:
    computed = ComputedColumns({"it": look("n", N)}, "m:f", ("half",))
    job = Job(
        pipeline="p",
        epoch=1,
        number=0,
        survey=False,
        prefix="x",
        lanes=(),
        tables={"t": table(Field("n", Kind.LONG), computed=computed)},
        quarantine=WriteTarget("c", "q"),
        timeout_seconds=1.0,
        now_ms=0,
        log={},
        poison={("id", 0, 7): PoisonKind.CONVERTED},
    )

    assert job == job_from_json(job_to_json(job))
