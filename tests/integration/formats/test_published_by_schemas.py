"""Tables published by a schema through a real registry: killed, read by others, landed again."""

from __future__ import annotations

import datetime as dt
import io
import json
import urllib.request
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from jsonschema import Draft7Validator
from tests.integration.cli.test_publish_tables import SCHEMA, Published, in_json
from tests.processes.broker import Cluster
from tests.processes.process import KILLED
from tests.servers.registry import RegistryServer

from penstock.connectors.registry.http import HttpRegistry
from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.decode.protobuf.schema import message_class
from penstock.rows.encode.framing import schema_id
from penstock.spec.secrets import ProcessSecrets

FRAME_BYTES = 5


HINTS = {"price": "decimal(12,2)", "day": "date"}
"""What a schema of Protobuf does not say of its columns."""


class WithoutNulls(Published):
    """A table whose lists and their items are never null, as Protobuf has it."""

    def rows(self, begin: int, stop: int) -> pa.Table:
        """Make the table's rows."""
        made = super().rows(begin, stop).to_pylist()
        whole = [{**row, "tags": ["x\n"] if row["tags"] else []} for row in made]
        return pa.Table.from_pylist(whole, SCHEMA)


def published(
    cluster: Cluster, directory: Path, server: RegistryServer, kind: str, written: str = "avro"
) -> Published:
    kind_of_table = WithoutNulls if written == "protobuf" else Published
    made = kind_of_table(cluster, directory, kind)
    made.into = f"{made.into}.{directory.name}"  # subjects outlive tests
    (rule,) = made.spec["publish"]
    rule |= {
        "into": made.into,
        "key": {"columns": ["customer"], "format": written},
        "value": {"format": written},
    }
    made.spec["publishing"] = {"registry": server.url}
    return made


@cache
def registered(url: str, number: int | None) -> RegisteredSchema:
    """Return the schema of an id; one of Protobuf is compiled, which takes a process."""
    found = HttpRegistry({"url": url}, ProcessSecrets({})).find(SchemaKey("id", str(number)))
    assert found is not None
    return found


def read(server: RegistryServer, message: bytes) -> Any:
    """Read a message by the schema that the registry has under its id, by another library."""
    found = registered(server.url, schema_id(message))
    if found.format == "json-schema":
        value = json.loads(message[FRAME_BYTES:])
        Draft7Validator(json.loads(found.text)).validate(value)
        return value
    if found.format == "protobuf":
        return in_python(message_class(found.descriptors, (0,)).FromString(message[6:]))
    schema = fastavro.parse_schema(json.loads(found.text))
    return fastavro.schemaless_reader(io.BytesIO(message[FRAME_BYTES:]), schema, None)


def in_python(message: Any) -> dict[str, Any]:
    """Return the row that a message of Protobuf's library has."""
    row = {name: getattr(message, name) for name in message.DESCRIPTOR.fields_by_name}
    row = {
        name: value
        if message.DESCRIPTOR.fields_by_name[name].is_repeated or message.HasField(name)
        else None
        for name, value in row.items()
    }
    if "price" in row:
        price = row["price"]
        row["price"] = Decimal(int.from_bytes(price.value, "big", signed=True)).scaleb(-price.scale)
        row["at"] = row["at"].ToDatetime(dt.UTC)
        row["tags"] = [*row["tags"]]
    return row


def as_said(row: dict[str, Any], written: str) -> dict[str, Any]:
    """Return what a message says of a row."""
    if written == "json-schema":
        return in_json(row)
    return {**row, "day": row["day"].isoformat()} if written == "protobuf" else row


@pytest.mark.parametrize(
    ("kind", "written"),
    [("iceberg", "avro"), ("delta", "json-schema"), ("iceberg", "protobuf")],
)
def test_a_table_that_is_killed_is_read_by_others_and_lands_again(
    cluster, tmp_path, server, kind, written
):
    table = published(cluster, tmp_path, server, kind, written)
    (rule,) = table.spec["publish"]
    del rule["where"]
    table.append(0, 200)
    planned = table.call("plan")
    killed = table.call("publish", "--until-caught-up", PENSTOCK_FAULTS="end.before:2")
    done = table.call("publish", "--until-caught-up", "--takeover")
    audit = table.call("audit", "--count", "--json")
    again = table.call("plan")

    assert (KILLED, 0, 0) == (killed.code, done.code, audit.code), done.err + audit.out
    subject = f"schema of the value: subject {table.into}-value"
    assert f"{subject}, will be registered" in planned.out
    assert f"{subject}, registered as " in again.out
    (found,) = audit.json["publications"]
    assert ([], [], 200) == (found["breaks"], found["not_compared"], found["rows"])
    whole = {row["at"]: row for row in table.rows(0, 200).to_pylist()}
    shown = [as_said(row, written) for row in whole.values()]
    expected = {row["at"]: row for row in shown}
    values = [value for _, value, _ in table.found() if value is not None]
    said = [read(server, value) for value in values]
    assert [expected[row["at"]] for row in said] == said
    live = {at for at, row in whole.items() if not row["closed"]}
    assert len(live) == len(said) == len({row["at"] for row in said})
    assert {row["customer"] for row in expected.values()} == {
        read(server, key)["customer"] for key, _, _ in table.found()
    }

    del table.spec["publish"], table.spec["publishing"]
    table.spec["kafka"]["topics"] = [table.into]
    hints = {"hints": HINTS} if written == "protobuf" else {}
    into = {"into": "lake.shop.again", "schema": {"create": True, **hints}}
    records = {"format": written, "registry": server.url}
    table.spec |= {
        "tables": [{"from": table.into, **into, "records": records}],
        "quarantine": {"into": "lake.shop.quarantine"},
    }
    landed = table.call("run", "--until-caught-up")
    assert 0 == landed.code, landed.err
    kept = [row for row in table.table("again").to_pylist() if row["at"] in live]
    assert [whole[at] for at in sorted(live)] == kept


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("avro", '"name":"id","type":["null","string"]'),
        ("json-schema", '"id":{"oneOf":[{"type":"null"},{"type":"string"}]}'),
        ("protobuf", "optional string id = 1;"),
    ],
)
def test_a_table_with_other_columns_takes_another_schema(
    cluster, tmp_path, server, written, wanted
):
    """What fits is registered before the next transaction; what does not stops the publication."""
    table = published(cluster, tmp_path, server, "delta", written)
    place = tmp_path / "delta/shop/rows"
    table.append(0, 50)
    first = table.call("publish", "--until-caught-up")
    _require_compatible(server, f"{table.into}-value")
    more = table.rows(50, 100).append_column("note", pa.array(["new"] * 50))
    write_deltalake(place, more, mode="append", schema_mode="merge")
    second = table.call("publish", "--until-caught-up")
    audit = table.call("audit", "--count", "--json")
    said = [read(server, value) for _, value, _ in table.found() if value is not None]

    assert [0, 0, 0] == [first.code, second.code, audit.code], second.err + audit.out
    assert {"none", "new"} == {row.get("note") or "none" for row in said}
    (found,) = audit.json["publications"]
    assert ([], [], 100) == (found["breaks"], found["not_compared"], found["rows"])

    other = table.rows(100, 110).set_column(0, "id", pa.array([str(n) for n in range(10)]))
    write_deltalake(place, other, mode="overwrite", schema_mode="overwrite")
    (rule,) = table.spec["publish"]
    rule["where"] = "true"
    rule["from"]["changes"] = "whole"
    refused = table.call("publish", "--until-caught-up")
    checked = table.call("validate")
    before = len(table.found())
    rule["value"]["register"] = "never"
    never = table.call("publish", "--until-caught-up")

    assert [4, 4, 4] == [refused.code, checked.code, never.code], refused.err
    for code, said in {"P874": refused, "P875": never}.items():
        assert code in said.err
    assert "P874" in checked.err
    assert all(wanted in each.err for each in (refused, never))
    assert before == len(table.found())


def _require_compatible(server: RegistryServer, subject: str) -> None:
    request = urllib.request.Request(
        f"{server.url}/config/{subject}",
        json.dumps({"compatibility": "BACKWARD"}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30):
        pass
