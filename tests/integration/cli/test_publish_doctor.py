"""`penstock doctor` asks all that publications need, each for itself, and writes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.integration.cli.test_publish import Mirror
from tests.integration.cli.within import within
from tests.processes.broker import Cluster
from tests.processes.schema_registry import Registered, serving

NOBODY = "http://127.0.0.1:1"
ABSENT = {"registry": NOBODY}
FILES = {"files": "./drop/*.jsonl", "format": "json", "columns": {"id": "long"}}
QUERY = {"query": "SELECT id FROM orders", "database": "sqlite:///./shop.db", "cursor": ["id"]}
TABLE = {"table": "delta.gold.rows"}


@pytest.fixture
def mirror(cluster: Cluster, tmp_path: Path) -> Mirror:
    made = Mirror(cluster, tmp_path)
    made.spec["catalogs"] = {"delta": {"type": "delta", "root": "./delta"}}
    write_deltalake(tmp_path / "delta/gold/rows", pa.table({"id": [1, 2], "name": ["a", "b"]}))
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop/first.jsonl").write_text('{"id": 1}\n')
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES (7)")
    return made


def examined(mirror: Mirror, **rules: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    into = {"into": mirror.into, "offsets": f"{mirror.into}.positions"}
    mirror.spec["publish"] = [{"name": name, **into, **rule} for name, rule in rules.items()]
    done = within("doctor", mirror.save(), "--json")
    codes = [each["exit_code"] for each in done.json["checks"] if each["exit_code"]]
    assert done.code in codes or not codes
    return {(each["check"], each["subject"]): each for each in done.json["checks"]}


def test_what_publications_read_and_need_is_asked(mirror: Mirror) -> None:
    registry = Registered()
    with serving(registry) as url:
        avro = {"format": "avro", "registry": url}
        rules = {"t": {"from": TABLE, "value": avro}, "f": {"from": FILES}, "q": {"from": QUERY}}
        columns = {"columns": {"id": "long"}}
        read = {"topic": mirror.source, "records": avro, **columns}
        rules |= {"r": {"from": read}, "n": {"from": {**read, "records": {**avro, **ABSENT}}}}
        found = examined(mirror, **rules)

    said = {key: each["message"] for key, each in found.items() if each["status"] == "ok"}
    assert "2 columns" in said["source", "delta.gold.rows"]
    assert "1 column, 1 part" == said["source", f"{mirror.directory}/drop/*.jsonl"]
    assert "1 column, 1 part" == said["source", "SELECT id FROM orders"]
    assert "has no schema yet" == said["registry", f"subject {mirror.into}-value"]
    assert "it answers" == said["registry", f"schemas of {mirror.source}"]
    assert "P671" == found["registry", "n"]["code"]
    assert "no run yet" == said["store", "claim of q"]
    assert (200, []) == registry.answer("/subjects")


@pytest.mark.parametrize(
    ("rule", "check", "code"),
    [
        ({"from": {"table": "delta.gold.other"}}, "source", "P402"),
        ({"from": TABLE, "key": "nothing"}, "source", "P838"),
        ({"from": {**QUERY, "query": "SELECT id FROM none"}}, "source", "P893"),
        ({"from": {**QUERY, "database": "sqlite:///./none.db"}}, "source", "P858"),
        ({"from": {"source": "nowhere:feed"}}, "source", "P850"),
        ({"from": TABLE, "value": {"format": "avro", **ABSENT}}, "registry", "P671"),
    ],
)
def test_what_does_not_answer_is_told_and_keeps_no_other_from_being_asked(
    mirror: Mirror, rule: dict[str, Any], check: str, code: str
) -> None:
    found = examined(mirror, bad=rule, good={"from": FILES})

    assert [(check, code)] == [
        (each["check"], each["code"]) for each in found.values() if each["code"]
    ]
    assert "ok" == found["source", f"{mirror.directory}/drop/*.jsonl"]["status"]
