"""Rows become objects by a JSON Schema: another validator takes each, and it is the row's JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from tests.properties.test_messages import NOTHING, read, said, tables

from penstock.rows.encode.encoder import encode
from penstock.rows.encode.framing import schema_id, with_texts
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.rules import JSON_SCHEMA, MessageRules, MessageSchema

RULES = MessageRules(value_schema=MessageSchema("lake.shop.rows", id=70_000, format=JSON_SCHEMA))
FRAME_BYTES = 5
FORMS = st.builds(
    JsonForm, st.sampled_from(["string", "number"]), st.sampled_from(["iso", "millis"])
)


def validator_of(rules: MessageRules) -> Any:
    assert rules.value_schema is not None
    schema = json.loads(rules.value_schema.text)
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


@given(tables(), FORMS, st.sets(st.integers(0, 3)))
@settings(max_examples=200)
def test_an_object_is_valid_and_says_what_the_row_has_or_the_row_is_a_misfit(table, form, required):
    batch, rows = table
    fields = [each.with_nullable(n not in required) for n, each in enumerate(batch.schema)]
    needed = {each.name for each in fields if not each.nullable and each.type != pa.null()}
    rules = with_texts(replace(RULES, form=form), pa.schema(fields))
    made = encode(batch, rules, now_ms=7)
    struct = pa.struct(list(batch.schema))
    expected = [
        NOTHING if any(row[name] is None for name in needed) else said(row, struct, form)
        for row in rows
    ]

    fitting = [place for place, each in enumerate(expected) if each is not NOTHING]
    assert fitting == made.places.tolist()
    assert sorted({*range(len(rows))} - {*fitting}) == [each.row for each in made.misfits]
    values, validator = made.messages.column("value").to_pylist(), validator_of(rules)
    assert all(schema_id(each) == RULES.value_schema.id for each in values)
    texts = [each[FRAME_BYTES:] for each in values]
    assert [expected[place] for place in fitting] == [read(each) for each in texts]
    for each in texts:
        validator.validate(json.loads(each))


@given(tables(), FORMS)
@settings(max_examples=25)
def test_an_audit_writes_the_same_by_the_text_of_the_schema(table, form):
    batch, _ = table
    made = with_texts(replace(RULES, form=form), batch.schema)
    assert made.value_schema is not None
    found = replace(made, value_schema=replace(made.value_schema, is_made=False))

    first, second = (encode(batch, rules, now_ms=7) for rules in (made, found))
    assert first.messages.to_pylist() == second.messages.to_pylist()
