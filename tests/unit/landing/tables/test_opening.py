"""A table is opened only where its ledger is of what the rules say."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.story.backend import MemoryGround
from tests.story.keyed import KEYED, SOFT, KeyedWorld
from tests.story.world import ORDERS, PIPELINE, RULES, SOURCE, World

from penstock.connectors.memory.tables import MemoryTable
from penstock.core.commits import Keyed
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Struct
from penstock.core.serialization import ledger_from_json, ledger_to_json
from penstock.landing.epoch.runner import job_of
from penstock.landing.settings import TableLocation, TableTarget
from penstock.landing.tables.opening import require_columns, required_of_deleted
from penstock.ports.tables import not_created
from penstock.rows.options import RowOptions


def test_a_table_whose_rows_are_changed_by_keys_is_parked_where_the_rule_appends():
    ground = MemoryGround()
    world = World(ground)
    world.send("orders", 3)
    assert {} == world.run().parked
    rekey(ground, Keyed(("value",), compares_offsets=True))
    world.send("orders", 2)
    before = ground.warehouse.get("bronze.orders").contents.head
    life = world.run()

    assert {ORDERS: "P464"} == life.parked
    assert "by the keys value until now" in life.ended.parked[ORDERS].message
    assert [] == life.jobs  # nothing was read for it
    assert before == ground.warehouse.get("bronze.orders").contents.head

    rekey(ground, None)
    assert {} == world.run().parked
    assert [] == world.breaks()


@pytest.mark.parametrize(
    ("keyed", "said"),
    [
        (
            Keyed(("id",), True),
            "pipeline other changes rows of lake.bronze.orders by the keys id, ",
        ),
        (Keyed(("n",), True, sequence=("s",)), "keys n (sequence_by: [s]), and this one changes"),
        (Keyed(("n",), True), ""),
    ],
)
def test_two_pipelines_change_rows_of_a_table_by_the_same_columns_or_the_second_is_parked(
    keyed, said
):
    world = KeyedWorld(MemoryGround())
    world.change("orders", 0, 1, "put")
    assert {} == world.run().parked
    rekey(world.ground, keyed, chain="other")
    life = world.run()

    assert ({ORDERS: "P464"} if said else {}) == life.parked
    assert life.ended is not None
    assert not said or said in life.ended.parked[ORDERS].message

    world.appended = {ORDERS}
    rekey(world.ground, None)
    life = world.run()
    assert {ORDERS: "P464"} == life.parked
    assert "and this one appends" in life.ended.parked[ORDERS].message


@pytest.mark.parametrize(
    ("key", "said"),
    [("order_no", "has no column order_no"), ("price", "cannot be of its key: it is a double")],
)
def test_a_table_that_has_appended_is_not_opened_by_keys_that_it_cannot_have(key, said):
    world = KeyedWorld(MemoryGround())
    world.appended = {ORDERS}
    world.send_raw("orders", b'{"n": 1, "op": "put", "v": 1, "price": 1.5}')
    assert {} == world.run().parked

    world.appended = set()
    world.rulebook[RULES] = {"keyed": replace(KEYED, keys=(key,))}
    world.change("orders", 0, 1, "put", price=2.5)
    life = world.run()

    assert {ORDERS: "P434"} == life.parked
    assert said in life.ended.parked[ORDERS].message
    assert [] == life.jobs  # nothing was read for it


def test_a_table_is_opened_by_keys_only_where_rows_of_it_may_be_deleted(monkeypatch):
    world = KeyedWorld(MemoryGround())
    world.change("orders", 0, 1, "put")
    assert {} == world.run().parked

    def refuse(table, state, mode):
        del state, mode
        raise InvalidError(f"{table.name} keeps its rows", code="P436")

    monkeypatch.setattr(MemoryTable, "require_row_deletes", refuse)
    world.change("orders", 0, 1, "put")
    assert {ORDERS: "P436"} == world.run().parked


def test_the_columns_are_named_that_a_deleted_row_of_a_key_alone_would_need():
    columns = {"n": True, "op": False, "v": True, SOURCE["offset"]: True, "gone": False}
    fields = [Field(name, Kind.LONG, required=each) for name, each in columns.items()]
    state = SimpleNamespace(schema=Struct(tuple(fields)))
    location = TableLocation(ORDERS, "lake", "bronze.orders", "memory")
    soft, hard = (
        TableTarget(location, RowOptions(SOURCE, keyed=keyed), create=True)
        for keyed in (SOFT, KEYED)
    )

    assert ["v"] == required_of_deleted(soft, state)
    assert [] == required_of_deleted(hard, state)


def rekey(ground, keyed, *, chain=PIPELINE):
    """Let the ledger of a chain in the table say by which keys its rows are changed."""
    stored = ground.warehouse.get("bronze.orders")
    contents = stored.contents
    ledger = replace(ledger_from_json(contents.ledgers[PIPELINE]), chain=chain, keyed=keyed)
    ledgers = {**contents.ledgers, chain: ledger_to_json(ledger)}
    stored.apply(contents, replace(contents, ledgers=ledgers))


@pytest.mark.parametrize(
    ("other_names", "code"),
    [(None, "P457"), ({"": {"a": ("b", "c")}}, "P435"), ({"": {"a": ("b",)}}, "")],
)
def test_a_rule_that_goes_by_a_name_mapping_needs_one_that_is_clear(other_names, code):
    location = TableLocation(ORDERS, "lake", "bronze.orders", "memory")
    options = RowOptions({}, match="name_mapping")
    target = TableTarget(location, options, create=False)
    state = replace(not_created(Struct(())), other_names=other_names)
    if not code:
        require_columns(target, state)
        assert {"": {"a": "b"}} == job_of(target, state, ()).options.names
        by_name = replace(target, options=RowOptions({}))
        assert {} == job_of(by_name, state, ()).options.names
        return
    with pytest.raises(InvalidError) as raised:
        require_columns(target, state)
    assert code == raised.value.code
