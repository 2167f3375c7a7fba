"""The rule that is drafted for a topic lands what the topic holds, or says why it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tests.messy import TOPICS, Values, batch, of

from penstock.app.assembly.process import SystemClock
from penstock.app.init.draft import draft, setting_for, text_of
from penstock.app.init.rule import NO_RECORDS, Rule, Setting, drafted
from penstock.app.init.topics import SampledTopics, Topic, chosen, topic_of
from penstock.connectors.memory.cluster import MemoryCluster, Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.errors import InvalidError
from penstock.rows.schema.hints import Format
from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError

FORMATS: tuple[Format, ...] = ("iceberg", "delta")


def rule(
    values: Values, to: Format = "iceberg", *, topic: str = "t", records: int | None = None
) -> Rule:
    """Draft the rule of a topic with these values."""
    setting = Setting(to, None, None)
    return drafted(Topic(topic, 2, records or len(values), batch(values)), setting)


def spec(rules: Sequence[Rule], to: Format = "iceberg") -> tuple[str, Pipeline]:
    """Write the spec of some rules, and load it."""
    text = text_of("localhost:9092", to, "landing", None, SampledTopics(tuple(rules)))
    return text, loads(text, base=Path("/nowhere"))


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("topic", sorted(TOPICS.keys() - {"nulls"}))
def test_a_messy_topic_gets_a_rule_that_takes_its_records(topic: str, to: Format) -> None:
    found = rule(TOPICS[topic], to, topic=topic)

    assert ("", {"P302": 1} if topic == "mostly" else {}) == (found.excluded, found.rejected)
    text, pipeline = spec([found], to)
    assert topic == pipeline.tables[0].from_
    assert {n: str(h.type) for n, h in found.hints.items()} == pipeline.tables[0].schema_.hints
    assert ("quarantine takes 1: P302 (1)" in text) == (topic == "mostly")


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("topic", ["debezium", "flattened", "dms", "maxwell", "canal"])
@pytest.mark.parametrize("key", [{"id": 1}, {"schema": {}, "payload": {"id": 1}}])
def test_change_events_come_with_the_rule_for_one_row_a_key(
    topic: str, to: Format, key: dict[str, Any]
) -> None:
    records = batch(TOPICS[topic])
    keys = pa.array([json.dumps(key).encode()] * len(records), pa.binary())
    records = records.set_column(records.schema.get_field_index("key"), "key", keys)
    found = drafted(Topic(topic, 2, len(records), records), Setting(to, None, None))
    text, pipeline = spec([found], to)

    assert ("append", ("id",)) == (pipeline.tables[0].mode, found.keys)
    keyed = re.sub(r"# (mode: cdc|keys: )", r"\1", text)
    table = loads(keyed, base=Path("/nowhere")).tables[0]
    assert ("cdc", ["id"]) == (table.mode, [*table.keys])


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("flattened", "# tombstones: delete   # in place of skip"),
        (
            "orders",
            "tombstones: skip  # some records have no value; with  mode: upsert  write delete",
        ),
        ("canal", "tombstones: skip  # some records have no value\n"),
    ],
)
def test_a_draft_says_where_a_record_without_a_value_is_a_delete(topic: str, said: str) -> None:
    records = batch([*TOPICS[topic], None])
    records = records.set_column(2, "key", pa.array([b'{"id": 1}'] * len(records), pa.binary()))
    found = drafted(Topic(topic, 2, len(records), records), Setting("iceberg", None, None))
    text, _ = spec([found])

    assert said in text
    assert (topic == "flattened") == ("# tombstones: delete" in text)


def test_a_flattened_draft_becomes_keyed_only_with_its_deletes() -> None:
    records = batch([*TOPICS["flattened"], None])
    records = records.set_column(2, "key", pa.array([b'{"id": 1}'] * len(records), pa.binary()))
    text, _ = spec([drafted(Topic("t", 2, len(records), records), Setting("iceberg", None, None))])
    keyed = re.sub(r"# (mode: cdc|keys: |tombstones: )", r"\1", text)

    with pytest.raises(SpecError) as caught:
        loads(keyed, base=Path("/nowhere"))
    assert ["P103"] == [each.code for each in caught.value.problems]
    table = loads(re.sub("tombstones: skip.*", "", keyed), base=Path("/nowhere")).tables[0]
    assert ("cdc", "delete") == (table.mode, table.tombstones)


@pytest.mark.parametrize("key", [None, b"1", b"{", b'{"no": 1}', b'{"customer": 1}'])
def test_keys_that_are_no_columns_are_left_to_the_reader(key: bytes | None) -> None:
    records = batch(TOPICS["debezium"])
    records = records.set_column(2, "key", pa.array([key] * len(records), pa.binary()))
    found = drafted(Topic("t", 1, len(records), records), Setting("iceberg", None, None))
    text, _ = spec([found])

    assert () == found.keys
    assert "# keys: [id]   # or what the primary key is" in text


def test_a_key_of_which_no_record_has_a_value_is_left_to_the_reader() -> None:
    events = [{"op": "c", "before": None, "after": {"id": n, "shop": None}} for n in range(3)]
    records = batch([json.dumps({**each, "source": {}}).encode() for each in events])
    key = b'{"shop": null, "id": 1}'
    records = records.set_column(2, "key", pa.array([key] * len(records), pa.binary()))
    found = drafted(Topic("t", 1, len(records), records), Setting("iceberg", None, None))

    assert ("debezium", ()) == (found.settings["records"]["envelope"], found.keys)


def test_all_messy_topics_make_one_spec() -> None:
    text, pipeline = spec([rule(values, topic=name) for name, values in TOPICS.items()])

    names = [name for name in TOPICS if name != "nulls"]
    assert names == [table.from_ for table in pipeline.tables]
    assert names == yaml.safe_load(text)["kafka"]["topics"]


def test_a_draft_says_where_few_numbers_make_a_double_of_a_long() -> None:
    text, _ = spec([rule([b'{"count": 1}'] * 298 + [b'{"count": 0.5}'] * 2)])

    assert "count: double  # mostly long: 2 of 300 have a fraction or exponent" in text


def test_values_that_fit_no_column_are_rescued_only_where_there_are_some() -> None:
    assert {"create": True, "columns": "evolve"} == rule(TOPICS["orders"]).settings["schema"]
    mixed = rule(TOPICS["mixed"]).settings["schema"]
    assert {"create": True, "columns": "rescue", "types": "rescue"} == mixed


def test_a_time_that_is_a_count_is_suggested_in_sql_that_a_spec_takes() -> None:
    text, _ = spec([rule(TOPICS["orders"])])
    lines = text.splitlines()
    start = lines.index("    # transform:")
    for number, line in enumerate(lines[start:], start):
        if not line.startswith("    # "):
            break
        lines[number] = "    " + line.removeprefix("    # ")

    pipeline = loads("\n".join(lines), base=Path("/nowhere"))
    (table,) = pipeline.tables
    assert table.transform is not None
    assert {
        "created_ms_time": "make_timestamptz(created_ms * 1000)",
        "seen_ts_time": "make_timestamptz(seen_ts * 1000000)",
    } == table.transform.columns


def test_a_rule_whose_table_would_be_parked_is_left_out_with_its_reason() -> None:
    """Three of a hundred do not fit: of ten thousand that is more than `stop_above` allows."""
    values = [*of(*({"id": n} for n in range(97))), b"{", b"{", b"{"]
    few, many = rule(values, records=100), rule(values, topic="u", records=10_000)

    assert ("", {"P302": 3}) == (few.excluded, few.rejected)
    assert "stop_above" in many.excluded
    text, pipeline = spec([few, many])
    assert ["t"] == [table.from_ for table in pipeline.tables]
    assert '# - from: "u"' in text
    assert "quarantine takes 3: P302 (3)" in text


def test_a_topic_without_records_is_named_and_gets_no_rule() -> None:
    nothing = drafted(Topic("empty", 1, 0), Setting("iceberg", None, None))
    tombstones = rule([None, None], topic="gone")
    text, pipeline = spec([nothing, tombstones, rule(TOPICS["orders"])])

    assert (NO_RECORDS, NO_RECORDS) == (nothing.excluded, tombstones.excluded)
    assert ["t"] == [table.from_ for table in pipeline.tables]
    assert text.count(NO_RECORDS) == 2


def test_records_that_give_a_table_no_column_get_no_rule() -> None:
    text, pipeline = spec([rule(TOPICS["nulls"], topic="nulls"), rule(TOPICS["orders"])])

    assert ["t"] == [table.from_ for table in pipeline.tables]
    assert "P371" in text


def test_names_in_records_stay_names() -> None:
    names = ["$HOME", "no", "null", "a:b", "#x", "*y", "&z", "key'", "-", "große", "x\u2028y"]
    found = rule(of(dict.fromkeys(names, "2026-11-01")))
    _, pipeline = spec([found])

    assert {"date"} == set(pipeline.tables[0].schema_.hints.values())
    assert {*names} - {"key'", "x\u2028y"} == pipeline.tables[0].schema_.hints.keys()


def test_what_a_schema_reports_and_delta_has_no_type_for_gets_one() -> None:
    found = rule(TOPICS["debezium-schema"], "delta").hints

    assert {"uid": "string", "opens": "long"} == {n: str(h.type) for n, h in found.items()}


def test_avro_without_a_registry_says_what_to_give() -> None:
    found = rule([b"\0\0\0\0\7\2a"])

    assert "--registry" in found.excluded


def test_avro_with_a_registry_lands(tmp_path: Path) -> None:
    fields = [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    (tmp_path / "7.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    setting = setting_for("iceberg", f"mock://{tmp_path}")
    found = drafted(Topic("t", 1, 1, batch([b"\0\0\0\0\7\2"])), setting)

    assert ({"format": "avro"}, "", {}) == (
        found.settings["records"],
        found.excluded,
        found.rejected,
    )


@pytest.mark.parametrize(
    ("brokers", "registry", "code"),
    [("localhost:9092", "nonsense", "P150"), ("local host", None, "P125")],
)
def test_an_address_that_is_none_is_reported_as_in_a_spec(
    brokers: str, registry: str | None, code: str
) -> None:
    with pytest.raises(SpecError) as refused:
        draft(f"kafka://{brokers}", "iceberg", "landing", registry=registry)

    assert code == refused.value.code


def test_a_topic_is_read_between_its_ends_as_plan_does() -> None:
    cluster = MemoryCluster()
    cluster.create("t", 1)
    cluster.send("t", *[Message(b'{"n": 1}')] * 5000, *[Message(b'{"n": "x"}')] * 5000)
    cluster.send("t", *[Message(b'{"n": 1}')] * 5000)
    log = MemoryLog(cluster, {"topics": ["t"]})
    found = topic_of(MemoryReader(cluster, SystemClock()), "t", log.bounds(log.partitions()))

    assert (1, 15_000) == (found.partitions, found.records)
    rule = drafted(found, Setting("iceberg", None, None))
    assert "rescue" == rule.settings["schema"]["types"]


NAMES = {
    "orders",
    "payments",
    "_schemas",
    "__consumer_offsets",
    "connect-offsets",
    "my.connect-status",
}


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        (None, ["orders", "payments"]),
        ("payments", ["payments"]),
        ("payments, orders,", ["orders", "payments"]),
        ("_schemas", ["_schemas"]),
        ("/^ord/", ["orders"]),
        ("/s$/", ["orders", "payments"]),
        ("//", None),
    ],
)
def test_topics_are_chosen_by_name_or_pattern(topics: str | None, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(InvalidError, match="at least one"):
            chosen(NAMES, topics)
    else:
        assert found == chosen(NAMES, topics)


@pytest.mark.parametrize(
    ("topics", "hint"),
    [
        ("order", "--topics orders"),
        ("nosuch", "there are orders, payments; choose as in  --topics"),
        ("/^x/", "orders"),
        ("/(/", ""),
        (",", "orders"),
        ("a b", "--topics"),
        ("^ord", "a pattern is written between slashes:  --topics '/^ord/'"),
        ("ord.*,pay.*", "a pattern is written between slashes:  --topics '/ord.*,pay.*/'"),
        ("/ord.*", "a pattern is written between slashes:  --topics '/ord.*/'"),
        ("(", "--topics orders,payments or --topics '/^shop/'"),
    ],
)
def test_a_choice_that_names_no_topic_is_refused(topics: str, hint: str) -> None:
    with pytest.raises(InvalidError) as refused:
        chosen(NAMES, topics)

    assert "P168" == refused.value.code
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("localhost:9392", "localhost:9392"),
        ("a.example:1,b.example:2", "a.example:1,b.example:2"),
        ("http://localhost:9392", "localhost:9092"),
        ("some brokers", "localhost:9092"),
    ],
)
def test_an_address_without_its_scheme_comes_back_in_the_hint(given: str, named: str) -> None:
    with pytest.raises(InvalidError, match="not the address of a cluster") as caught:
        draft(given, "iceberg", "landing")

    assert f"penstock init --from kafka://{named}" == caught.value.hint
