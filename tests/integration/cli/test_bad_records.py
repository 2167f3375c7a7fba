"""What is no row ends in quarantine, byte for byte, with a code and a count; the rest lands."""

from __future__ import annotations

import json
from collections import Counter

from tests.integration.cli.shop import Shop

from penstock.testing.sent import Sent

BAD = {
    b"not json": "P302",
    b'{"id": 1': "P302",
    b"\xff\xfe{}": "P303",
    b"": "P301",
    b"   ": "P301",
    None: "P309",
    b'{"id": 1, "id": 2}': "P305",
    b"[1]": "P306",
    b"null": "P306",
    b'\xef\xbb\xbf{"id": 1}': "P307",
    b'{"id": 1}{"id": 2}': "P308",
    b'{"id": true}': "P363",
    b'{"id": "one"}': "P366",
    b'{"id": 1e400}': "P364",
    b'{"id": 18446744073709551616}': "P364",
    b'{"id": 1.5}': "P365",
    b'{"id": 1, "colour": "red"}': "P361",
    b'{"id": ' + b"[" * 200 + b"]" * 200 + b"}": "P342",
}
NAMES = (
    "../../etc/passwd",
    "a.b",
    'quo"te',
    "quo'te; DROP TABLE orders",
    "back\\slash",
    "new\nline",
    "nul\x00",
    "x" * 10_240,
    "",
    " ",
    "\u202eright to left",
    "ID",
    "_kafka_offset",
    "_KAFKA_OFFSET",
)
HOSTILE = tuple({"id": 2, name: 1} for name in NAMES)


def test_every_kind_of_bad_record_is_quarantined_with_its_code_and_counted(shop: Shop) -> None:
    shop.send(0, 3)
    assert 0 == shop.run().code
    shop.cluster.send(shop.topic, 1, [Sent(value) for value in BAD])
    shop.send(3, 3, partition=1)
    ran = shop.run()
    assert 0 == ran.code

    for table in ("lake.shop.orders", "delta.shop.orders"):
        found = {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
        assert found == BAD
    assert (list(range(6)), list(range(6))) == shop.ids()
    reported = [json.loads(line) for line in ran.err.splitlines() if "RecordsQuarantined" in line]
    assert [dict(Counter(BAD.values()))] * 2 == [each["codes"] for each in reported]
    audit = shop.call("audit", "--count", "--json")
    assert 0 == audit.code
    assert [len(BAD)] * 2 == [each["row_count"]["quarantined"] for each in audit.json["tables"]]


def test_fields_with_hostile_names_become_no_columns_and_land_nowhere_else(shop: Shop) -> None:
    """In the first epoch, from which the tables are created, and after it."""
    hostile = [Sent(json.dumps(each).encode()) for each in HOSTILE]
    shop.send(0, 3)
    shop.cluster.send(shop.topic, 1, hostile)
    assert 0 == shop.run().code
    shop.cluster.send(shop.topic, 1, hostile)
    assert 0 == shop.run().code

    columns = {"id", "_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp"}
    assert columns == set(shop.lake()[0]) == set(shop.delta()[0])
    assert ([0, 1, 2], [0, 1, 2]) == shop.ids()
    assert {"P361": 4 * len(HOSTILE)} == dict(Counter(row["code"] for row in shop.rejects()))
    messages = {row["message"] for row in shop.rejects()}
    assert all(len(message) <= 200 and message.isprintable() for message in messages)
    shop.prove()


def test_a_name_that_resembles_a_columns_is_another_column(shop: Shop) -> None:
    shop.cluster.send(shop.topic, 0, [Sent(json.dumps({"id": 1, "\u0456d": 2}).encode())])
    assert 0 == shop.run().code
    for rows in (shop.lake(), shop.delta()):
        assert [(1, 2)] == [(row["id"], row["\u0456d"]) for row in rows]


def test_topics_with_hostile_names_get_tables_with_plain_names(shop: Shop) -> None:
    """Kafka takes letters, digits, dots, dashes and underscores, up to 249 of them."""
    prefix = shop.name
    names = {"--help": "__help", "..": "__", "SELECT": "select", "9-lives": "_9_lives"}
    for topic in names:
        shop.cluster.create(f"{prefix}.x{topic}")
        shop.cluster.send(f"{prefix}.x{topic}", 0, [Sent(b'{"id": 1}')])
    pattern = rf"{prefix}\.x(?P<name>.+)"
    shop.spec["kafka"]["topics"] = [{"pattern": pattern}]
    create = {"schema": {"create": True}}
    shop.spec["tables"] = [
        {"from": pattern, "into": "lake.shop.{name}", "continue": True, **create},
        {"from": pattern, "into": "delta.shop.{name}", **create},
    ]
    assert 0 == shop.run().code

    for topic, table in names.items():
        for rows in (shop.lake(f"shop.{table}"), shop.delta(f"shop/{table}")):
            assert [(f"{prefix}.x{topic}", 1)] == [(row["_kafka_topic"], row["id"]) for row in rows]
    inside = {path.name for path in shop.directory.iterdir()}
    assert {"penstock.yaml", "lake", "delta", "state"} == inside


def test_a_record_of_eight_megabytes_lands_and_one_beyond_the_limit_does_not(shop: Shop) -> None:
    shop.cluster.create(f"{shop.name}.large", max_message_bytes=str(20 << 20))
    shop.spec["kafka"]["topics"] = [f"{shop.name}.large"]
    for table in shop.spec["tables"]:
        table["from"] = f"{shop.name}.large"
    empty = len(json.dumps({"id": 0, "text": ""}))
    fits, beyond = ({"id": n, "text": "x" * (8_000_000 - empty + n)} for n in range(2))
    values = [json.dumps(each).encode() for each in (fits, beyond)]
    assert [8_000_000, 8_000_001] == [len(value) for value in values]
    shop.cluster.send(f"{shop.name}.large", 0, [Sent(value) for value in values])
    assert 0 == shop.run().code

    for rows in (shop.lake(), shop.delta()):
        assert [(0, fits["text"])] == [(row["id"], row["text"]) for row in rows]
    assert [("P341", values[1])] * 2 == [(row["code"], row["value"]) for row in shop.rejects()]
    shop.prove()


def test_tombstones_are_left_out_where_the_spec_says_so_and_counted(shop: Shop) -> None:
    shop.spec["tables"][0]["tombstones"] = "skip"
    shop.send(0, 5)
    shop.cluster.send(shop.topic, 0, [Sent(None, key=b"k")] * 3)
    assert 0 == shop.run().code

    assert ["delta.shop.orders"] * 3 == [row["table"] for row in shop.rejects()]
    audit = shop.call("audit", "--count", "--json")
    skipped = {each["table"]: each["row_count"]["filtered"] for each in audit.json["tables"]}
    assert (0, {"lake.shop.orders": 3, "delta.shop.orders": 0}) == (audit.code, skipped)


def test_too_many_bad_records_park_their_tables_before_anything_lands(shop: Shop) -> None:
    shop.spec["quarantine"]["stop_above"] = "10%"
    shop.send(0, 500)
    assert 0 == shop.run().code
    shop.send(500, 500)
    shop.cluster.send(shop.topic, 0, [Sent(b"?")] * 200)
    ended = shop.run()

    assert (4, "every table waits for a decision") == (ended.code, ended.json["reason"])
    assert {"P345"} == {each["code"] for each in ended.json["parked"].values()}
    assert "stop_above" in ended.json["parked"]["lake.shop.orders"]["hint"]
    assert (list(range(500)), list(range(500))) == shop.ids()
    shop.spec["quarantine"]["stop_above"] = "50%"
    assert 0 == shop.run().code
    assert (list(range(1000)), list(range(1000))) == shop.ids()
    assert 400 == len(shop.rejects())


def test_one_tables_flood_parks_it_and_the_other_lands_until_a_person_decides(shop: Shop) -> None:
    """The Delta table is asked to quarantine tombstones, the Iceberg table skips them."""
    shop.spec["tables"][0]["tombstones"] = "skip"
    shop.send(0, 100)
    assert 0 == shop.run().code
    shop.send(100, 100)
    shop.cluster.send(shop.topic, 0, [Sent(None, key=b"k")] * 200)
    ended = shop.run()

    assert 4 == ended.code
    assert ["delta.shop.orders"] == [*ended.json["parked"]]
    message = ended.json["parked"]["delta.shop.orders"]["message"]
    assert "200 of 300 records do not fit (P309 200)" in message
    assert "the record has no value, 200 times" in message
    assert (list(range(200)), list(range(100))) == shop.ids()
    assert [] == shop.rejects()
    status = shop.call("status", "--json").json["tables"]
    parked = {name: each["parked"] for name, each in status.items() if each["parked"]}
    assert ["delta.shop.orders"] == [*parked]
    assert "P345" in str(parked)

    shop.spec["tables"][1]["tombstones"] = "skip"
    asked = shop.run()
    assert (4, "P189") == (asked.code, asked.json["error"]["code"])
    assert "delta.shop.orders: 200 of 300" in asked.json["error"]["message"]
    assert 0 == shop.run("--accept", "rules").code
    assert (list(range(200)), list(range(200))) == shop.ids()
    assert [] == shop.rejects()
    shop.prove()


def test_a_number_below_the_last_partition_of_its_type_is_quarantined_alone(shop: Shop) -> None:
    """Iceberg has no partition for it: truncated, it has one digit more than its column."""
    first, second = shop.spec["tables"]
    for table in (first, second):
        table["schema"]["hints"] = {"price": "decimal(9,2)"}
    first["partition_by"] = ["truncate(10, price)"]
    lowest = b'{"id": 1, "price": -9999999.99}'
    others = [b'{"id": 2, "price": -9999999.90}', b'{"id": 3, "price": 9999999.99}', b'{"id": 4}']
    shop.cluster.send(shop.topic, 0, [Sent(each) for each in (lowest, *others)])
    ran = shop.run()

    assert 0 == ran.code
    assert ([2, 3, 4], [1, 2, 3, 4]) == shop.ids()
    assert [("lake.shop.orders", "P346", lowest)] == [
        (row["table"], row["code"], row["value"]) for row in shop.rejects()
    ]
    assert "price" in shop.rejects()[0]["message"]
    shop.prove()
