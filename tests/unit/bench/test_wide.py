"""Records of other shapes hold what they say."""

import io
import json

from benchmarks import records, wide
from fastavro import parse_schema, schemaless_reader


def test_flat_records_have_as_many_columns_as_were_asked_for():
    (first, second) = (json.loads(each) for each in wide.flat(30)(wide.POOL, wide.POOL + 2))

    assert [30, 30] == [len(first), len(second)]
    assert [wide.POOL, wide.POOL + 1] == [first["id"], second["id"]]
    assert {int, str, float, bool} == {type(each) for each in first.values()}


def test_an_avro_record_holds_what_the_json_record_of_its_number_holds(monkeypatch):
    monkeypatch.setattr(records, "POOL", 200)
    schema = parse_schema(wide.AVRO)
    for wrapper in (records.pool, wide._avro_pool):
        wrapper.cache_clear()
    twins = zip(wide.avro(100, 300), records.values(100, 300), strict=True)
    for binary, text in twins:
        found = schemaless_reader(io.BytesIO(binary[len(wide.HEADER) :]), schema)
        reported = json.loads(text)
        stamp = found.pop("ts").isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert reported.pop("ts") == stamp
        assert reported == found
    for wrapper in (records.pool, wide._avro_pool):
        wrapper.cache_clear()
