"""Places in topics and choices of records, as commands are given them."""

import pytest

from penstock.app.assembly.crash_points import observer_for
from penstock.app.repair.quarantine import spot_choice
from penstock.app.repair.replay_and_seek import Place, place_of, positions_of, ranges_of
from penstock.core.errors import InvalidError
from penstock.core.offsets import span
from penstock.landing.repair.replay import source_columns
from penstock.rows.options import RowOptions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", Place("orders")),
        ("shop.orders:1", Place("shop.orders", 1)),
        ("orders:1:20", Place("orders", 1, 20)),
        ("orders:1:20-30", Place("orders", 1, 20, 30)),
    ],
)
def test_a_place_is_read_as_it_is_written(text: str, expected: Place) -> None:
    assert expected == place_of(text)


@pytest.mark.parametrize("text", ["", "a b", "orders:x", "orders:0:5-5", "orders:0:9-5", "o:0:-5"])
def test_what_is_no_place_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        place_of(text)

    assert "P172" == raised.value.code
    assert "orders:0:100-200" in raised.value.hint


def test_replay_takes_ranges_and_seek_positions() -> None:
    position, stretch = place_of("orders:0:5"), place_of("orders:0:5-9")

    assert {("orders", 0): span(5, 9)} == ranges_of([stretch])
    assert {("orders", 0): 5} == positions_of([position])
    for refuse in (lambda: ranges_of([position]), lambda: positions_of([stretch])):
        with pytest.raises(InvalidError) as raised:
            refuse()
        assert "P172" == raised.value.code


@pytest.mark.parametrize("code", ["", "302", "p302", "P30", "reason"])
def test_what_is_no_code_of_a_record_is_refused(code: str) -> None:
    with pytest.raises(InvalidError) as raised:
        spot_choice([code], None)

    assert "P174" == raised.value.code


def test_a_table_whose_rows_do_not_report_their_source_is_refused() -> None:
    with pytest.raises(InvalidError, match="topic, partition") as raised:
        source_columns("lake.b.orders", RowOptions(source_columns={"offset": "_kafka_offset"}))

    assert "P186" == raised.value.code


@pytest.mark.parametrize("plan", ["nowhere", "commit.after:x", "commit.after:1:tickle"])
def test_a_plan_of_crash_points_that_there_are_not_is_refused(plan: str) -> None:
    with pytest.raises(InvalidError) as raised:
        observer_for(plan)

    assert "P188" == raised.value.code
