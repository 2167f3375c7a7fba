"""Tables that grow with their records: one schema change an epoch, and every record once."""

import json
from dataclasses import replace

import pytest
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.world import ORDERS, RULES, SOURCE, World

from penstock.core.events import SchemaChanged, TableCommitted
from penstock.core.schema import Decimal, Field, Kind, Struct
from penstock.ports.tables import TableDefinition

pytestmark = pytest.mark.usefixtures("portion_bytes")
OTHER = f"{CATALOG}.bronze.other"
COLUMNS = Struct(
    (
        Field("n", Kind.INT),
        Field(SOURCE["topic"], Kind.STRING),
        Field(SOURCE["partition"], Kind.INT),
        Field(SOURCE["offset"], Kind.LONG),
    )
)


@pytest.fixture
def ground():
    return MemoryGround()


def growing(ground, *, columns="evolve", types="evolve", **given):
    world = World(ground, **given)
    world.rulebook[RULES] = {"columns": columns, "types": types}
    world.catalog().create(catalog_name(ORDERS), TableDefinition(COLUMNS), ())
    return world


def schema_of(world, name=ORDERS):
    return {field.name: field.type for field in world.table(name).state(_chain(name)).schema.fields}


def _chain(name):
    from tests.story.world import PIPELINE

    from penstock.core.commits import Chain

    return Chain(PIPELINE, name)


def send(world, *records, topic="orders"):
    world.send_raw(topic, *(json.dumps(record).encode() for record in records))


def test_three_changes_that_conflict_are_one_schema_change_and_one_commit(ground):
    world = growing(ground)
    send(world, {"n": 1, "a": 1}, {"n": 1 << 40}, {"a": "text"}, {"b": {"c": 1}}, {"n": None})
    life = world.run()

    assert 1 == len(life.of(SchemaChanged))
    assert {"n": Kind.LONG, "a": Kind.LONG} == {k: schema_of(world)[k] for k in ("n", "a")}
    assert [2] == [offset for _, _, offset in world.rejects()]
    assert [0, 1, 3, 4] == [offset for _, _, offset in world.rows()]
    assert [] == world.breaks(fitting=lambda held: b"text" not in held.value)


def test_topics_that_meet_in_one_table_change_it_together(ground):
    world = growing(ground, routes={"orders": (ORDERS,), "items": (ORDERS,)})
    send(world, {"a": 1})
    send(world, {"b": 1.5}, topic="items")
    life = world.run()

    assert 1 == len(life.of(SchemaChanged))
    assert {"a", "b"} < set(schema_of(world))
    assert [] == world.breaks()


@pytest.mark.parametrize(
    "crash",
    [
        "evolve.before",
        "evolve.after",
        "prepare.before",
        "prepare.after",
        "commit.before",
        "commit.after",
    ],
)
def test_a_crash_around_a_schema_change_lands_every_record_once(ground, crash):
    world = growing(ground)
    world.send("orders", 3)
    world.run()
    world.send("orders", 3, new=1)
    world.crash_at(crash)
    world.sleep()
    world.run()

    assert [] == world.breaks()
    assert "new" in schema_of(world)
    assert 6 == len(world.rows())


def test_a_column_that_another_adds_meanwhile_with_another_type_is_his(ground):
    world = growing(ground)
    world.send("orders", 1)
    world.run()
    send(world, {"new": 1}, {"new": "text"})

    def meddle():
        table = world.table()
        state = table.state(_chain(ORDERS))
        table.evolve(state, Struct((*state.schema.fields, Field("new", Kind.STRING))))

    world.faults.before_commit(catalog_name(ORDERS), meddle)
    world.run()

    assert Kind.STRING == schema_of(world)["new"]
    assert [1] == [offset for _, _, offset in world.rejects()]
    assert [] == world.breaks(fitting=lambda held: b'"new": 1' not in held.value)


def test_a_column_that_another_writer_drops_is_requested_again_only_by_its_records(ground):
    world = growing(ground)
    world.send("orders", 1, old=1)
    world.run()
    send(world, {"new": 1})

    def meddle():
        table = world.table()
        state = table.state(_chain(ORDERS))
        kept = tuple(field for field in state.schema.fields if field.name != "old")
        table.evolve(state, Struct(kept))

    world.faults.before_commit(catalog_name(ORDERS), meddle)
    world.run()

    assert "old" not in schema_of(world)
    assert "new" in schema_of(world)


def test_a_lost_answer_to_a_schema_change_makes_it_once(ground):
    from tests.story.faulty_catalog import Fault

    world = growing(ground)
    world.send("orders", 1)
    world.run()
    world.send("orders", 1, new=1)
    world.faults.queue(catalog_name(ORDERS), Fault.LOSE_ANSWER)
    life = world.run()

    assert 1 == len(life.of(SchemaChanged))
    assert [] == world.breaks()


def test_a_frozen_table_is_parked_and_loses_nothing(ground):
    world = growing(ground, columns="freeze", types="freeze", routes={"orders": (ORDERS, OTHER)})
    world.send("orders", 2)
    world.run()
    world.send("orders", 2, new=1)
    life = world.run()

    assert {ORDERS: "P467"} == {name: life.parked[name] for name in (ORDERS,)}
    assert {0: 2} == world.offsets()


def test_more_columns_than_an_hour_allows_are_quarantined_and_the_table_goes_on(ground):
    world = growing(ground, new_columns_per_hour=3)
    world.send("orders", 1, a=1, b=1)
    world.run()
    send(world, *({f"c{n}": 1} for n in range(10)))
    life = world.run()

    added = set(schema_of(world)) - {field.name for field in COLUMNS.fields}
    assert 3 + 2 == len(added)
    assert 7 == len(world.rejects())
    assert [] == life.parked or not life.parked


def test_a_table_gets_no_more_columns_than_allowed_and_goes_on(ground):
    width = len(COLUMNS.fields)
    world = growing(ground, columns_max=width + 2)
    world.send("orders", 1, a=1)
    world.run()
    send(world, *({f"c{n}": 1} for n in range(3)))
    life = world.run()

    assert width + 2 == len(schema_of(world))
    assert 2 == len(world.rejects())
    assert not life.parked


def test_a_table_that_waits_for_its_schema_holds_up_nobody(ground):
    world = growing(ground, routes={"orders": (ORDERS, OTHER)})
    world.send("orders", 4)
    world.run()
    world.send("orders", 4, new=1)
    life = world.run()

    assert {ORDERS, OTHER} == {event.table for event in life.of(TableCommitted)}
    assert [] == world.breaks()


def test_records_whose_names_no_table_can_carry_are_refused_and_give_no_table(ground):
    world = World(ground)
    world.send_raw("orders", b'{"a b": 1}', b'{"": 2}')
    life = world.run()

    assert ({}, 2) == (dict(life.parked), len(world.rejects()))
    world.send("orders", 1)
    world.run()
    assert 1 == len(world.rows())
    assert [] == world.breaks(fitting=lambda held: held.offset > 1)


class Hinted(World):
    """A world whose spec says what a price is."""

    def _target(self, topic, table, options):
        return replace(super()._target(topic, table, options), hints={"price": Decimal(12, 2)})


def test_a_hint_is_the_type_of_a_column_that_first_records_show_without_one(ground):
    world = Hinted(ground)
    send(world, {"price": None}, {"a": 1})
    world.run()
    send(world, {"price": "1.25"})
    world.run()

    assert Decimal(12, 2) == schema_of(world)["price"]
    assert ([], 3) == (world.rejects(), len(world.rows()))
