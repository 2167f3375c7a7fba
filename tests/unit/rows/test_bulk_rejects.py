"""Many bad records: what columns can find is not left to the converter of single records."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.schema import Decimal, Field, Kind, List, Struct
from penstock.rows.block_result import BlockResult
from penstock.rows.cast.rescued_column import as_json
from penstock.rows.convert import blocks
from penstock.rows.convert.blocks import ConversionPlan, convert_json_block, convert_records
from penstock.rows.convert.bulk_rejects import classify_similar
from penstock.rows.convert.left_out_columns import CUT_AT_ONCE, LeftOutColumn, raw_texts
from penstock.rows.convert.sampled_shape import sample_positions
from penstock.rows.decode.json.parser import parse_value
from penstock.rows.options import Policy, RowOptions
from penstock.rows.reject_codes import RejectCode

SCHEMA = Struct((Field("id", Kind.LONG), Field("ok", Kind.BOOLEAN), Field("at", Kind.DATE)))
FAULTS = {
    b'{"id":1,"ok":"yes"}': RejectCode.UNREADABLE,
    b'{"id":99999999999999999999,"ok":true}': RejectCode.OUT_OF_RANGE,
    b'{"id":1,"at":"26-01-01"}': RejectCode.UNREADABLE,
    b'{"id":1,"colour":"red"}': RejectCode.UNKNOWN_FIELD,
}
CENTS = Decimal(9, 2)
BROKEN = b'{"id":1,"ok":'


@pytest.mark.parametrize("rounds", [96, 100, 768])
def test_alternating_faults_are_found_by_columns(rounds: int) -> None:
    kinds = [*FAULTS, BROKEN]
    values = pa.array(kinds * rounds, pa.binary())

    pieces, rest = classify_similar(values, np.arange(len(values)), SCHEMA, RowOptions({}))

    assert [BROKEN] * rounds == [values[at].as_py() for at in rest.tolist()]
    expected = {
        at: FAULTS[kinds[at % len(kinds)]]
        for at in range(len(values))
        if kinds[at % len(kinds)] != BROKEN
    }
    assert expected == {at: reject.code for piece in pieces for at, reject in piece.rejects.items()}


@pytest.mark.parametrize("policy", ["drop_value", "rescue"])
def test_values_that_do_not_fit_are_left_out_by_columns(policy: Policy) -> None:
    kinds = [*FAULTS, b'{"id":[1, 2],"ok":true,"place":{"x":"far\\n"}}']
    values = pa.array(kinds * 100, pa.binary())
    options = RowOptions({}, columns=policy, types=policy)
    plan = ConversionPlan.of(Struct((*SCHEMA.fields, Field("_rescued", Kind.STRING))), options)

    pieces, rest = classify_similar(values, np.arange(len(values)), plan.payload, options)

    by_column = BlockResult.concat(pieces, plan.payload)
    by_record = convert_records(values, np.arange(len(values)), plan)
    assert [] == rest.tolist()
    assert by_record.rows.to_pylist() == by_column.rows.to_pylist()
    assert by_record.dropped == by_column.dropped
    assert by_record.rescued == by_column.rescued
    assert {} == by_column.rejects
    assert bool(by_column.rescued) == (policy == "rescue")


@pytest.mark.parametrize("policy", ["quarantine", "drop_value", "rescue"])
def test_lists_of_scalars_leave_nothing_to_the_record_converter(policy: Policy) -> None:
    schema = Struct((*SCHEMA.fields, Field("tags", List(Kind.STRING)), Field("sizes", List(CENTS))))
    kinds = [each[:-1] + b',"tags":["a",null],"sizes":[1.5,"2",null]}' for each in FAULTS]
    values = pa.array(kinds * 100, pa.binary())
    options = RowOptions({}, columns=policy, types=policy)
    plan = ConversionPlan.of(Struct((*schema.fields, Field("_rescued", Kind.STRING))), options)

    pieces, rest = classify_similar(values, np.arange(len(values)), plan.payload, plan.options)

    by_column = BlockResult.concat(pieces, plan.payload)
    by_record = convert_records(values, np.arange(len(values)), plan)
    assert [] == rest.tolist()
    assert by_record.rows.to_pylist() == by_column.rows.to_pylist()
    assert by_record.rescued == by_column.rescued
    assert {at: each.message for at, each in by_record.rejects.items()} == {
        at: each.message for at, each in by_column.rejects.items()
    }


@pytest.mark.parametrize("policy", ["quarantine", "drop_value", "rescue"])
def test_a_text_is_no_number_though_numbers_are_next_to_it(policy: Policy) -> None:
    """Decimals are read from texts as well: `"5"` fits a column of texts, and 5 does not."""
    schema = Struct((Field("name", Kind.STRING), Field("at", Kind.DATE)))
    texts = [b'{"name":5,"at":"2026-01-01"}', b'{"name":"5","at":"26-01-01"}']
    values = pa.array(texts * 100, pa.binary())
    options = RowOptions({}, columns=policy, types=policy)
    plan = ConversionPlan.of(Struct((*schema.fields, Field("_rescued", Kind.STRING))), options)

    by_column = convert_json_block(values, plan)
    by_record = convert_records(values, np.arange(len(values)), plan)

    assert by_record.rows.to_pylist() == by_column.rows.to_pylist()
    assert by_record.rescued == by_column.rescued
    assert {at: reject.message for at, reject in by_record.rejects.items()} == {
        at: reject.message for at, reject in by_column.rejects.items()
    }


def test_only_records_with_a_key_twice_are_left_to_the_record_converter() -> None:
    """Among 3,000 records each third one is enough that no part of a block parses as it is."""
    kinds = [b'{"id":1,"ok":null}', b'{"at" : "2026-01-01"}', b'{"id":1,"ok":true,"id":1}']
    values = pa.array(kinds * 1000, pa.binary())

    pieces, rest = classify_similar(values, np.arange(len(values)), SCHEMA, RowOptions({}))

    assert 2000 == len(BlockResult.concat(pieces, SCHEMA).positions)
    assert [*range(2, 3000, 3)] == rest.tolist()


@pytest.mark.parametrize("name", ["x", "é", 'q"', "\n"])
def test_the_text_of_a_member_is_found_by_any_name(name: str) -> None:
    values = pa.array([json.dumps({"id": 1, name: [1, "a"]}).encode()] * 2, pa.binary())
    member = LeftOutColumn((name,), pa.nulls(2), np.ones(2, np.bool_), "rescue")

    assert [['[1,"a"]'] * 2] == raw_texts(values, [(member, np.arange(2))])


@pytest.mark.parametrize("type_", [Decimal(38, 1), Decimal(1, 1)])
def test_a_decimal_fits_or_not_whatever_is_next_to_it(type_: Decimal) -> None:
    """Arrow cuts digits after the point of some numbers wrongly, this one among them."""
    plan = ConversionPlan.of(Struct((Field("a", type_),)), RowOptions({}))
    values = pa.array([b'{"a":9223372036854775806}', b'{"a":1,"z":1}', b'{"a":0.12}'] * 100)

    by_column = convert_json_block(values.cast(pa.binary()), plan)
    by_record = convert_records(values.cast(pa.binary()), np.arange(len(values)), plan)

    assert by_record.rows.to_pylist() == by_column.rows.to_pylist()
    assert {at: reject.message for at, reject in by_record.rejects.items()} == {
        at: reject.message for at, reject in by_column.rejects.items()
    }


def member(names: tuple[str, ...], places) -> tuple[LeftOutColumn, Any]:
    return LeftOutColumn(names, pa.nulls(0), np.zeros(0, np.bool_), "rescue"), places


@pytest.mark.parametrize(
    "text",
    [
        '"a"',
        '"a\\u0041\\n"',
        "1.50e3",
        "[1, 2]",
        '{"b": "\\"", "c":[{}]}',
        '["a b"]',
        '"[ "',
        "true",
    ],
)
def test_a_text_cut_out_is_the_one_that_the_parsed_value_shows(text: str) -> None:
    record = f'{{"x":1, "a" : {{"b":{text} , "y":[2]}}}}'.encode()
    values = pa.array([record, b"{}", b'{"a":{"b":7}}'], pa.binary())
    places = np.array([0, 2])

    assert [[as_json(parse_value(text.encode())), "7"]] == raw_texts(
        values, [member(("a", "b"), places)]
    )


def test_members_of_any_name_are_cut_out_of_the_records_that_have_them() -> None:
    count = 2 * CUT_AT_ONCE + 3
    record = json.dumps({"": 1, 'q"': 2, "\n": {"\\": 3}}).encode()
    some = np.array([CUT_AT_ONCE - 1, CUT_AT_ONCE, count - 1])
    wanted = [member(("",), some), member(('q"',), np.arange(count)), member(("\n", "\\"), some)]
    found = raw_texts(pa.array([record] * count, pa.binary()), wanted)

    assert [["1"] * 3, ["2"] * count, ["3"] * 3] == found


@pytest.mark.parametrize("policy", ["quarantine", "drop_value", "rescue"])
def test_large_doubles_next_to_faults_are_landed_by_columns(policy: Policy, monkeypatch) -> None:
    plan = ConversionPlan.of(
        Struct((Field("d", Kind.DOUBLE), Field("n", Kind.LONG), Field("_rescued", Kind.STRING))),
        RowOptions({}, types=policy),
    )
    good, large, bad = b'{"d":1.5e17,"n":1}', b'{"d":9007199254740993,"n":1}', b'{"d":1e17,"n":"x"}'
    values = pa.array([bad if at % 5 == 0 else good for at in range(2000)] + [large], pa.binary())
    alone: list[int] = []
    real = blocks.convert_records

    def noted(taken, positions, *given):
        alone.extend(positions.tolist())
        return real(taken, positions, *given)

    monkeypatch.setattr(blocks, "convert_records", noted)
    found = blocks.convert_json_block(values, plan)

    assert [2000] == alone, "the one with an integer that a double would round"
    monkeypatch.undo()
    expected = real(values, np.arange(len(values)), plan)
    assert expected.rows.to_pylist() == found.rows.to_pylist()
    assert expected.rejects.keys() == found.rejects.keys()
    assert expected.rescued == found.rescued


def test_dropped_paths_are_printable_however_records_are_read() -> None:
    plan = ConversionPlan.of(Struct((Field("a", Kind.LONG),)), RowOptions({}, columns="drop_value"))
    values = pa.array([b'{"a":1,"x\\u0001":2}'] * 17, pa.binary())
    alone = blocks.convert_records(values, np.arange(17), plan)

    assert alone.dropped == blocks.convert_json_block(values, plan).dropped
    assert "x\x01" not in alone.dropped


@pytest.mark.parametrize("rhythm", range(2, 16))
@pytest.mark.parametrize("count", [65, 100, 1000, 1024, 49_152, 50_000])
def test_a_sample_meets_all_kinds_that_come_in_turn(rhythm: int, count: int) -> None:
    places = sample_positions(count)

    assert set(range(rhythm)) == {place % rhythm for place in places}
    assert all(0 <= place < count for place in places)
    assert (64, True) == (len(places), places[-1] > 0.8 * count)


def test_a_sample_of_few_is_all_of_them() -> None:
    assert [[], [0], [0, 1, 2]] == [sample_positions(count) for count in (0, 1, 3)]
