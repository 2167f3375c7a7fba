"""A publication of a table is put together from its spec; what it cannot read is refused by name."""

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.app.assembly import publishing
from penstock.app.assembly.table_readers import kept_table_reader
from penstock.app.inspect.publication_words import in_words
from penstock.connectors.delta import connector as delta
from penstock.core.errors import InvalidError
from penstock.rows.encode.encoder import require_fit
from penstock.rows.encode.rules import rules_from_data, rules_to_data
from penstock.spec.load import read_publications

SPEC = """
name: shop
kafka: { brokers: "127.0.0.1:1" }
catalogs: { lake: { type: delta, root: ./delta } }
publish: [{ name: numbers, from: { table: lake.gold.numbers, changes: whole }, into: numbers }]
"""


@pytest.fixture
def spec(tmp_path):
    write_deltalake(tmp_path / "delta/gold/numbers", pa.table({"id": [1, 2, 3]}))
    return read_publications(SPEC, base=tmp_path, name="penstock.yaml").publications


def test_a_table_is_read_as_the_spec_says(spec):
    publication = publishing.publication_of(spec, spec.publish[0])
    source = publishing.open_source(publication)
    start = source.starts("earliest")
    [stretch] = source.plan(start, source.ends(), publication.limit)
    reader = kept_table_reader(publication.source["connector"])
    found = [*reader.read(stretch, deadline=float("inf"))]

    assert "whole" == publication.changes
    expected = {"connector": "delta", "table": "lake.gold.numbers", "ref": "main"}
    assert expected == publication.source
    assert [1, 2, 3] == found[0].rows.column("id").to_pylist()
    assert "at the first row of the 3 rows of snapshot 0" == in_words(publication, start)
    assert "behind snapshot 0 (3 rows)" == in_words(publication, {stretch.of: found[0].reached})


def test_a_connector_without_increments_is_refused(spec, monkeypatch):
    without = replace(delta, open_increments=None)
    monkeypatch.setattr(publishing, "connector_of", lambda *_: without)
    publication = publishing.publication_of(spec, spec.publish[0])
    with pytest.raises(InvalidError) as caught:
        publishing.open_source(publication)

    assert "P829" == caught.value.code


BY_A_FILE = SPEC.replace(
    "into: numbers }",
    "into: numbers, value: { format: protobuf, schema: numbers.proto, registry: 'http://r' } }",
)


def test_a_file_of_protobuf_is_compiled_and_workers_are_given_its_message(tmp_path):
    text = 'syntax = "proto3"; message Number { int64 id = 7; }'
    (tmp_path / "numbers.proto").write_text(text)
    spec = read_publications(BY_A_FILE, base=tmp_path, name="penstock.yaml").publications
    rules = publishing.publication_of(spec, spec.publish[0]).messages
    assert rules is not None
    (found,) = rules.schemas.values()

    assert (text, False) == (found.text, found.is_made)
    assert rules == rules_from_data(rules_to_data(rules))
    require_fit(pa.schema({"id": pa.int64(), "more": pa.string()}), rules)

    (tmp_path / "numbers.proto").write_text("message {")
    with pytest.raises(InvalidError, match=r"numbers\.proto cannot be used: it does not compile"):
        publishing.publication_of(spec, spec.publish[0])
