"""What peeked changes would do is found in the table's live rows, or said not to be known."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
import yaml
from tests.forecasts import Place

from penstock.app.inspect import peek, row_effects
from penstock.app.inspect.peek import Peeked
from penstock.app.inspect.read_only_world import DryRun, read_world
from penstock.app.inspect.row_effects import FoundRow, RowChange
from penstock.cli.peek import _lines
from penstock.connectors.memory.cluster import Message
from penstock.ports.row_deletes import LiveFile
from penstock.rows.keyed.file_bounds import KeyBounds

ORDERS = "lake.shop.orders"
OPERATION = {"field": "op", "map": {"U": "update", "D": "delete"}}
RULE = {"from": "orders", "into": ORDERS, "mode": "cdc", "keys": ["id"], "operation": OPERATION}
SPEC = {
    "name": "shop",
    "kafka": {"brokers": "nowhere:9092", "topics": ["orders"]},
    "catalogs": {"lake": {"type": "sql", "uri": "sqlite:///./c.db", "warehouse": "./l"}},
    "quarantine": {"into": "lake.ops.quarantine"},
    "spark": {"master": "inline"},
}


@pytest.fixture
def place() -> Place:
    schema = {"create": True, "columns": "drop_value"}
    return Place(yaml.safe_dump({**SPEC, "tables": [{**RULE, "schema": schema}]}), ["orders"])


def send(place: Place, *changes: tuple[int, str], **more: object) -> None:
    for key, op in changes:
        value = json.dumps({"id": key, "op": op, **more}).encode()
        place.cluster.send("orders", Message(value), partition=0)


def peeked(place: Place) -> Sequence[Peeked]:
    trial = DryRun()
    world = place.environment(trial.engine)
    view = read_world(place.settings, world, trial, place.reader())
    found = peek._newest(view, view.listing, 10, world.clock.monotonic() + 10)
    return peek._followed(view, {at: batch for at, batch in found.items() if batch is not None})


def changes(place: Place) -> list[tuple[RowChange, ...]]:
    return [each.outcomes[0].changes for each in peeked(place)]


def test_of_a_table_to_create_all_rows_are_new(place: Place) -> None:
    send(place, (1, "U"), (1, "D"))

    assert [
        (RowChange("upsert", {"id": 1}, "inserts"),),
        (RowChange("delete", {"id": 1}, "finds no row"),),
    ] == changes(place)


def test_a_change_before_the_row_that_is_there_is_late(place: Place) -> None:
    send(place, (1, "U"), (1, "D"), (1, "U"))
    assert 0 == place.run().code
    row = (FoundRow("orders", 0, 2),)

    assert ["is late", "is late", "is the row already"] == [c.effect for (c,) in changes(place)]
    assert [row] * 3 == [c.rows for (c,) in changes(place)]
    text = [line.plain for line in _lines(peeked(place)[1])]
    said = 'delete of {"id": 1}: is late: the row of orders[0] offset 2 stays'
    assert f"  → {ORDERS}  {said}" in text


def test_a_delete_deletes_the_row_that_its_own_record_was_appended_as(place: Place) -> None:
    keyed = place.settings
    appends = {"from": "orders", "into": ORDERS}
    schema = {"create": True, "columns": "drop_value"}
    place.settings = Place(
        yaml.safe_dump({**SPEC, "tables": [{**appends, "schema": schema}]}), []
    ).settings
    send(place, (1, "U"), (1, "D"))
    assert 0 == place.run().code
    place.settings = keyed
    send(place, (2, "U"))
    assert 0 == place.run().code

    assert ["deletes"] == [c.effect for (c,) in changes(place) if c.change == "delete"]


def test_rows_that_are_too_many_are_not_looked_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(place, (1, "U"))
    assert 0 == place.run().code
    monkeypatch.setattr(row_effects, "ROWS_MAX", 0)

    ((change,),) = changes(place)
    assert ("not looked up", ()) == (change.effect, change.rows)
    assert "1 row in 1 file may have these keys" == change.detail


def test_a_file_is_read_only_where_its_bounds_leave_room_for_a_key() -> None:
    file = LiveFile("a", 1, 1, bounds={"id": (1, 5), "name": ("a", None)})

    def may_hold(**key: object) -> bool:
        columns = [pa.array([value]) for value in key.values()]
        return KeyBounds([*key], columns).may_be_in(file.bounds)

    assert [False, True, True, False] == [may_hold(id=n) for n in (0, 1, 5, 6)]
    assert may_hold(id="x", name="b", other=1)
    assert not may_hold(id=2, name="A")


def test_values_that_a_change_drops_are_named_as_a_run_drops_them(place: Place) -> None:
    send(place, (1, "U"))
    assert 0 == place.run().code
    send(place, (1, "U"), (1, "D"), coupon="x")

    dropped = [each.outcomes[0].dropped for each in peeked(place)]
    assert [(), ("coupon",), ()] == dropped


def test_a_change_of_a_lower_sequence_is_late_and_a_delete_flags_its_row() -> None:
    schema = {"create": True, "hints": {"id": "long", "no": "long"}}
    rule = {**RULE, "schema": schema, "deletes": "soft", "sequence_by": ["no"]}
    place = Place(yaml.safe_dump({**SPEC, "tables": [rule]}), ["orders"])
    for key, op, number in ((1, "U", 5), (2, "U", 7)):
        send(place, (key, op), no=number)
    assert 0 == place.run().code
    for key, op, number in ((1, "U", 4), (2, "D", 7), (1, "D", 6), (3, "D", 1), (2, "U", 8)):
        send(place, (key, op), no=number)

    found = [(c.change, c.key["id"], c.effect) for (c,) in changes(place)]
    assert [
        ("upsert", 1, "is the row already"),
        ("upsert", 2, "is the row already"),
        ("upsert", 1, "is late"),
        ("delete", 2, "flags"),
        ("delete", 1, "flags"),
        ("delete", 3, "inserts flagged"),
        ("upsert", 2, "replaces"),
    ] == found
    assert (5,) == changes(place)[2][0].rows[0].sequence
    text = [line.plain for each in peeked(place) for line in _lines(each)]
    said = 'delete of {"id": 2}: flags the row of orders[0] offset 1 as deleted'
    assert f"  → {ORDERS}  {said}" in text
    assert f'  → {ORDERS}  delete of {{"id": 3}}: inserts a row that is flagged as deleted' in text
