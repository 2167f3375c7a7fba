"""On an unexpected error for one record, it alone is refused, and nothing is guessed of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.rows.test_connect import batch

from penstock.core.errors import UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows import bisection
from penstock.rows.bisection import KINDS, bisect_on_error
from penstock.rows.convert import batch as conversion
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.schema import evolution
from penstock.rows.schema import survey as surveying
from penstock.rows.schema.evolution import requested_schema
from penstock.rows.schema.survey import survey

AT = TopicPartition("id", "orders", 0)
OPTIONS = RowOptions(source_columns={"offset": "_kafka_offset"})
TABLE: Schema = Struct((Field("n", Kind.LONG), Field("_kafka_offset", Kind.LONG)))

pytestmark = pytest.mark.usefixtures("fence")


def stumble(monkeypatch, room, *offsets: int, error: type[BaseException] = TypeError) -> None:
    """Let what opens records in a room raise at some of them."""
    whole: Callable[..., Any] = room.decode_values

    def decode_values(records: pa.RecordBatch, *given: Any, **named: Any) -> Any:
        if {*offsets} & {*records.column("offset").to_pylist()}:
            raise error("a value")
        return whole(records, *given, **named)

    monkeypatch.setattr(room, "decode_values", decode_values)


def records(count: int) -> pa.RecordBatch:
    """Return records; those of offsets that end in 5 do not fit, those in 6 are tombstones."""
    values = {5: b'{"n": "five"}', 6: None}
    return batch(*(values.get(n % 10, b'{"n": %d}' % n) for n in range(count)))


@pytest.mark.parametrize("raising", [(0,), (7,), (5, 6), (99,), (0, 1, 50, 98, 99)])
def test_all_others_have_the_outcome_that_they_would_have_without_it(monkeypatch, raising) -> None:
    options = replace(OPTIONS, columns="drop_value")
    before = convert_batch(records(100), at=AT, schema=TABLE, options=options)
    stumble(monkeypatch, conversion, *raising)
    after = convert_batch(records(100), at=AT, schema=TABLE, options=options)

    rows = zip(before.offsets.tolist(), before.rows.to_pylist(), strict=True)
    assert [row for offset, row in rows if offset not in raising] == after.rows.to_pylist()
    assert [n for n in before.offsets.tolist() if n not in raising] == after.offsets.tolist()
    assert [*raising] == [each.offset for each in after.rejects if each.code == "P344"]
    others = [each for each in after.rejects if each.code != "P344"]
    assert [each for each in before.rejects if each.offset not in raising] == others
    assert sorted(after.rejects) == [*after.rejects]
    assert 100 == len(after.rows) + len(after.rejects) + sum(after.filtered.values())


@pytest.mark.parametrize("error", KINDS)
def test_the_message_names_error_and_line_and_holds_no_value(monkeypatch, error) -> None:
    stumble(monkeypatch, conversion, 0, error=error)
    (reject,) = convert_batch(records(1), at=AT, schema=TABLE, options=OPTIONS).rejects

    assert ("P344", "limit") == (reject.code, reject.stage)
    assert f": {error.__name__} in rows.convert.batch:" in reject.message
    assert "a value" not in reject.message
    assert "\n" not in reject.message


def test_rows_without_columns_are_counted_too(monkeypatch) -> None:
    stumble(monkeypatch, conversion, 3)
    done = convert_batch(
        batch(*[b"{}"] * 8), at=AT, schema=Struct(()), options=replace(OPTIONS, source_columns={})
    )

    assert (7, 1) == (done.rows.num_rows, len(done.rejects))


def test_values_that_were_left_out_are_added_up(monkeypatch) -> None:
    stumble(monkeypatch, conversion, 3)
    extra = batch(*[b'{"n": 1, "colour": "red"}'] * 8)
    done = convert_batch(extra, at=AT, schema=TABLE, options=replace(OPTIONS, columns="drop_value"))

    assert Counter(colour=7) == Counter(done.dropped)


def test_all_that_raise_are_refused_however_many(monkeypatch) -> None:
    stumble(monkeypatch, conversion, *range(500))
    done = convert_batch(records(500), at=AT, schema=TABLE, options=OPTIONS)

    assert 500 == sum(each.code == "P344" for each in done.rejects)
    assert (0, 0) == (done.rows.num_rows, len(done.offsets))


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError, OSError, KeyboardInterrupt])
def test_what_the_machine_refuses_is_raised(monkeypatch, error) -> None:
    stumble(monkeypatch, conversion, 3, error=error)
    with pytest.raises(error):
        convert_batch(records(8), at=AT, schema=TABLE, options=OPTIONS)


def test_errors_of_ours_are_raised() -> None:
    def down(_: pa.RecordBatch) -> None:
        raise UnavailableError("the registry does not answer", code="P220", hint="look")

    with pytest.raises(UnavailableError):
        bisect_on_error(records(8), down)


def test_what_is_raised_for_no_record_at_all_is_raised() -> None:
    def broken(_: pa.RecordBatch) -> None:
        raise ValueError("of none")

    with pytest.raises(ValueError, match="of none"):
        bisect_on_error(records(0), broken)


def test_a_combination_that_raises_is_made_in_parts() -> None:
    def alone(part: pa.RecordBatch) -> list[int]:
        assert len(part) < 3
        return part.column("offset").to_pylist()

    made = bisect_on_error(records(7), alone)

    assert [*range(7)] == [offset for part in made.parts for offset in part]
    assert {} == made.errors


def test_a_table_is_created_from_the_other_records(monkeypatch) -> None:
    stumble(monkeypatch, surveying, 1)
    seen = survey(
        batch(b'{"a": 1}', b'{"b": 1}', b'{"c": 1}'), OPTIONS, ReaderCache(), columns_max=100
    )

    assert ("a", "c") == seen.names


def test_a_table_is_widened_for_the_others(monkeypatch) -> None:
    stumble(monkeypatch, evolution, 1)
    refused = batch(b'{"a": 1}', b'{"b": 1}', b'{"c": 1}')
    wide = requested_schema(refused, TABLE, replace(OPTIONS, columns="evolve"), ReaderCache(), 2)

    assert (*TABLE.names, "a", "c") == wide.names


def test_the_fence_is_down_in_tests_that_do_not_ask_for_it(monkeypatch) -> None:
    monkeypatch.undo()
    assert () == bisection.UNEXPECTED_ERRORS
