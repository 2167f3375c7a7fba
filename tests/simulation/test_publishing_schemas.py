"""Publishing with schemas, played: they are registered before anything is sent by them."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.story.publishing import PublishingWorld
from tests.story.publishing_rows import RowsWorld
from tests.story.subjects import MemorySubjects

from penstock.app.inspect.message_schemas import with_schemas_of
from penstock.app.inspect.publication_audit import audit_publication
from penstock.app.inspect.publications import view_of
from penstock.connectors.memory.log import MemoryReader
from penstock.core.errors import DecisionNeededError
from penstock.ports.registry import RegisteredSchema
from penstock.publishing.schemas import with_schemas
from penstock.publishing.settings import SubjectRule
from penstock.rows.encode.framing import schema_id
from penstock.rows.encode.rules import MessageRules, MessageSchema, SchemaFormat

SUBJECT = "orders-value"
OTHER = RegisteredSchema("avro", '{"type":"record","name":"o","fields":[]}')


def written_as(written: SchemaFormat) -> MessageRules:
    return MessageRules(key=("k",), value_schema=MessageSchema("lake.shop.rows", format=written))


class SchemasWorld(RowsWorld):
    """Rows that are published by a schema."""

    def __init__(
        self, register: str = "compatible", *, written: SchemaFormat = "avro", **changes: object
    ) -> None:
        super().__init__(rules=written_as(written))
        self.subjects = MemorySubjects(**changes)
        self.rule = SubjectRule(SUBJECT, register)

    def publisher(self, *words, **changes):
        own = {"subjects": {"value": self.rule}, "source": {"topics": ["rows"]}}
        return super().publisher(*words, **own, **changes)

    def ports(self, publication, *words):
        found = PublishingWorld.ports(self, publication, *words)
        return replace(found, registries={"value": self.subjects})

    def ids(self) -> set[int | None]:
        return {schema_id(value) for each in self.found().values() for value in each}


@pytest.mark.parametrize("register", ["compatible", "missing"])
def test_a_schema_is_registered_once_and_its_id_stands_before_each_value(register):
    world = SchemasWorld(register)
    world.subjects.register("another", OTHER)
    world.rows_max = 2
    world.table.rows = [("a", "1"), ("b", "2"), ("a", "3")]
    before = view_of(world.publisher().publication, world.ports(world.publisher().publication))
    run = world.run()
    after = view_of(run.publication, world.ports(run.publication))

    assert [None] == [each.id for each in before.schemas]
    assert (None, 2) == (run.error, run.transactions)
    assert {2} == world.ids() == {each.id for each in after.schemas}
    assert {b"a", b"b"} == world.found().keys()
    assert {SUBJECT: [2], "another": [1]} == world.subjects.versions


@pytest.mark.parametrize(("register", "code"), [("compatible", "P874"), ("missing", "P875")])
def test_a_schema_that_may_not_be_registered_stops_the_publication(register, code):
    world = SchemasWorld(register)
    world.subjects.register(SUBJECT, OTHER)
    world.subjects.is_strict = True
    world.table.rows = [("a", "1")]
    run = world.run()
    view = view_of(run.publication, world.ports(run.publication))

    for error in (run.error, view.problem):
        assert isinstance(error, DecisionNeededError)
        assert code == error.code
        assert OTHER.text in error.message
        assert '"name":"lake.shop.rows"' in error.message
    assert ({}, {SUBJECT: [1]}) == (world.found(), world.subjects.versions)


def test_a_schema_is_never_registered_where_the_spec_says_so():
    world = SchemasWorld("never")
    world.table.rows = [("a", "1")]

    assert "P875" == world.run().error.code
    assert ({}, {}) == (world.found(), world.subjects.versions)


def test_a_registry_that_is_down_is_waited_for_with_nothing_open():
    world = SchemasWorld(is_down=True)
    world.table.rows = [("a", "1")]
    waiting = world.publisher("stopped")
    for _ in range(4):
        waiting.step()
    heads = {each.readable for each in world.cluster.partition("orders", 0).entries}
    said = waiting.error.code if waiting.error else ""
    world.subjects.is_down = False
    world.clock.wait(60)
    for _ in range(4):
        waiting.step()
    waiting.end("asked to stop")

    assert ("P671", set()) == (said, heads)
    assert 1 == waiting.rows


@pytest.mark.parametrize("written", ["avro", "json-schema", "protobuf"])
def test_rows_with_other_columns_than_the_schema_are_read_again(written):
    """The table changed between the look at its columns and the plan."""
    world = SchemasWorld(written=written)
    world.table.rows = [("a", "1"), ("b", "2")]
    columns, looks = world.table.columns, []

    def outdated() -> pa.Schema:
        looks.append(1)
        return pa.schema([("k", pa.string())]) if len(looks) == 2 else columns()

    world.table.columns = outdated
    run = world.run()

    assert (None, 2, 1) == (run.error, run.rows, run.transactions)
    assert [1, 2] == world.subjects.versions[SUBJECT]
    assert {2} == world.ids()


@pytest.mark.parametrize("written", ["avro", "json-schema", "protobuf"])
def test_an_audit_makes_messages_again_by_the_schema_that_they_name(written):
    world = SchemasWorld(written=written)
    world.table.rows = [("a", "1"), ("b", "2")]
    run = world.run()
    ports = world.ports(run.publication)
    readers = world.table, MemoryReader(world.cluster, world.clock)
    whole = audit_publication(run.publication, ports, readers)
    world.table.rows[0] = ("a", "other")
    changed = audit_publication(run.publication, ports, readers)
    world.subjects.schemas.clear()
    world.subjects.versions.clear()
    gone = audit_publication(run.publication, ports, readers)

    assert ((), (), 2) == (whole.breaks, whole.not_compared, whole.rows)
    assert ["rows"] == [each.kind for each in changed.breaks]
    assert ((), 1) == (gone.breaks, len(gone.not_compared))
    assert "the registry has no schema 1" in gone.not_compared[0]

    there = [pa.record_batch({"key": [b"k"], "value": [b"\0\0\0\0\1"]})]
    with pytest.raises(DecisionNeededError) as caught:
        with_schemas_of(there, written_as(written), world.table.columns(), ports.registries)
    assert "P878" == caught.value.code


def test_columns_keep_their_numbers_and_none_is_given_twice():
    """Also by a publication that starts anew, and after the column of a number is gone."""
    world = SchemasWorld(written="protobuf")
    world.table.rows = [("a", "1")]
    kinds = world.table.columns()
    texts = []
    for names in (["k", "v"], ["v", "k"], ["k"], ["k", "more"]):
        columns = pa.schema(
            [pa.field(n, pa.string() if n == "more" else kinds.field(n).type) for n in names]
        )
        world.table.columns = lambda columns=columns: columns
        publication = world.publisher().publication
        with_schemas(publication, world.ports(publication))
        texts.append(world.subjects.newest(SUBJECT).text)

    assert [_numbers(each) for each in texts] == [
        {"k": 1, "v": 2},
        {"v": 2, "k": 1},
        {"k": 1},
        {"k": 1, "more": 3},
    ]
    assert all("reserved 2;" in each and 'reserved "v";' in each for each in texts[2:])


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", text)}


def test_a_subject_that_numbers_cannot_be_kept_of_stops_the_publication():
    """Its newest schema refers to itself, so that none of a table continues it."""
    world = SchemasWorld(written="protobuf")
    looped = 'syntax = "proto3"; message rows { rows k = 1; }'
    world.subjects.register(SUBJECT, RegisteredSchema("protobuf", looped))
    world.table.rows = [("a", "1")]

    assert "P273" == world.run().error.code
    assert {} == world.found()
