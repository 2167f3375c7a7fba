"""Exit code 2: what only the user can put right, reported with place and next act; nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop, problem
from tests.integration.cli.within import within
from tests.processes.process import penstock


def test_all_mistakes_of_a_spec_are_reported_at_once_with_their_places(tmp_path: Path) -> None:
    spec = tmp_path / "shop.yaml"
    spec.write_text(
        "name: shop\n"
        "kafka: { brokers: 'localhost:9092', topics: [orders] }\n"
        "catalogs: { lake: { type: sql, uri: 'sqlite:///c.db', warehouse: ./lake } }\n"
        "tables:\n"
        "  - { from: orders, into: pond.shop.orders, mode: upsert }\n"
        "commit: { evry: 30s }\n"
        "quarantine: { into: lake.ops.quarantine }\n"
    )
    reported = penstock("run", spec, "--json")
    assert 2 == reported.code
    places = [(p["line"], p["column"]) for p in reported.json["error"]["problems"]]
    assert 3 == len(places)
    assert sorted(places) == places
    people = penstock("validate", spec)
    assert (2, "") == (people.code, people.out)
    assert f"{spec}:6:" in people.err
    assert "Did you mean 'every'" in people.err


def test_a_spec_that_is_not_there_is_reported_by_its_path(tmp_path: Path) -> None:
    reported = penstock("run", tmp_path / "no.yaml", "--json")
    assert 2 == reported.code
    assert "no.yaml" in reported.json["error"]["message"]


def test_a_topic_that_no_table_takes_is_reported_by_validate(shop: Shop) -> None:
    shop.spec["kafka"]["topics"] = [{"pattern": rf"{shop.name}\..+"}]
    shop.cluster.create(f"{shop.name}.items")
    reported = within("validate", shop.path, "--json")

    assert 2 == reported.code
    assert "P187" in reported.out
    assert f"{shop.name}.items" in reported.out


def test_properties_that_no_new_table_can_have_are_reported_by_validate(shop: Shop) -> None:
    shop.spec["tables"][0]["properties"] = {"format-version": "4"}
    shop.spec["tables"][1]["properties"] = {"delta.enableRowTracking": "true"}
    reported = within("validate", shop.path, "--json")

    assert 2 == reported.code
    assert ["P436", "P436"] == [each["code"] for each in reported.json["problems"]]
    assert "format-version 4" in reported.out
    assert "delta.enableRowTracking" in reported.out


def test_a_topic_that_is_not_there_is_reported_by_its_name(shop: Shop) -> None:
    shop.spec["kafka"]["topics"].append("no.such.topic")
    reported = shop.call("run", "--json")
    assert 2 == reported.code
    assert "no.such.topic" in reported.out


@pytest.mark.parametrize("catalog", ["lake", "delta"])
def test_a_warehouse_that_cannot_be_written_is_reported_before_anything_is_read(
    shop: Shop, catalog: str
) -> None:
    (shop.directory / "file").write_text("in the way")
    shop.spec["catalogs"][catalog]["warehouse" if catalog == "lake" else "root"] = "./file/deep"
    reported = shop.call("validate" if catalog == "lake" else "run", "--json")
    assert 2 == reported.code
    assert f"{shop.directory}/file" in reported.out


def test_a_directory_that_is_no_table_is_left_alone(shop: Shop) -> None:
    place = shop.directory / "delta" / "shop" / "orders"
    place.mkdir(parents=True)
    (place / "mine.csv").write_text("not yours")
    shop.send(0, 10)
    ran = shop.run()

    assert 2 == ran.code
    assert {"delta.shop.orders"} == set(ran.json["parked"])
    assert 10 == len(shop.lake())
    assert ["mine.csv"] == [path.name for path in place.iterdir()]


@pytest.mark.parametrize("catalog", ["lake", "delta"])
def test_a_table_without_the_source_columns_is_refused_by_their_names(
    shop: Shop, catalog: str
) -> None:
    table = pa.table({"id": pa.array([1], pa.int64())})
    if catalog == "delta":
        write_deltalake(str(shop.directory / "delta/shop/orders"), table)
    else:
        _lake(shop).create_table("shop.orders", schema=table.schema)
    shop.send(0, 10)
    ran = shop.run()

    assert (2, {f"{catalog}.shop.orders"}) == (ran.code, set(ran.json["parked"]))
    code, hint = problem(ran)
    assert "P457" == code
    assert "source_columns" in hint
    assert "_kafka_topic" in ran.out
    assert 2 == shop.call("validate").code
    shop.spec["tables"][0 if catalog == "lake" else 1]["source_columns"] = []
    assert 0 == shop.run().code
    assert list(range(10)) == shop.ids()[1 if catalog == "lake" else 0]


def test_a_table_of_others_gets_our_rows_with_theirs(shop: Shop) -> None:
    source = [
        ("_kafka_topic", pa.string()),
        ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()),
    ]
    columns = [("id", pa.int64()), *source, ("_kafka_timestamp", pa.timestamp("us", "UTC"))]
    theirs = pa.table({"id": [-1], **{name: [None] for name, _ in columns[1:]}}, pa.schema(columns))
    write_deltalake(str(shop.directory / "delta/shop/orders"), theirs)
    shop.send(0, 5)

    assert "exists without progress of this pipeline" in shop.call("validate").out
    assert 0 == shop.run().code
    assert [-1, *range(5)] == shop.ids()[1]


def test_another_pipeline_of_the_same_name_is_refused(shops: Callable[[], Shop]) -> None:
    first, second = shops(), shops()
    first.send(0, 10)
    second.send(100, 10)
    assert 0 == first.run().code

    second.directory = first.directory / "elsewhere"
    second.directory.mkdir()
    second.spec["catalogs"] = {
        "lake": {
            "type": "sql",
            "uri": f"sqlite:///{first.directory}/lake/catalog.db",
            "warehouse": str(first.directory / "lake"),
        },
        "delta": {"type": "delta", "root": str(first.directory / "delta")},
    }
    ran = second.run()

    assert (2, {"lake.shop.orders", "delta.shop.orders"}) == (ran.code, set(ran.json["parked"]))
    code, hint = problem(ran)
    assert "P458" == code
    assert "another name" in hint
    assert (list(range(10)), list(range(10))) == first.ids()


def test_two_pipelines_of_different_names_share_a_table(shops: Callable[[], Shop]) -> None:
    first, second = shops(), shops()
    first.send(0, 10)
    second.send(100, 10)
    assert 0 == first.run().code
    second.directory = first.directory
    second.spec["name"] = "other"
    assert 0 == second.run().code

    both = [*range(10), *range(100, 110)]
    assert (both, both) == first.ids()
    first.prove()


@pytest.mark.parametrize(("version", "reported"), [("11.0.2", "Java 11"), ("", "does not print")])
def test_a_java_that_spark_cannot_use_is_refused_by_its_version(
    shop: Shop, version: str, reported: str
) -> None:
    java = shop.directory / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    shop.spec["spark"]["master"] = "local[1]"
    command = "validate" if version else "run"
    ended = shop.call(command, "--json", JAVA_HOME=str(shop.directory / "jdk"))
    assert 2 == ended.code
    assert "P602" in ended.out
    assert reported in ended.out


def test_no_java_at_all_is_reported_with_how_to_get_one(shop: Shop) -> None:
    shop.spec["spark"]["master"] = "local[1]"
    ended = shop.call("run", "--json", JAVA_HOME="", PATH=str(shop.directory))
    assert (2, "P602") == (ended.code, problem(ended)[0])
    assert "JAVA_HOME" in problem(ended)[1]
    gone = shop.call("run", "--json", JAVA_HOME=str(shop.directory))
    assert (2, "P602") == (gone.code, problem(gone)[0])


def test_two_topics_that_become_one_table_are_refused_by_their_names(shop: Shop) -> None:
    for topic in ("a-b", "a.b"):
        shop.cluster.create(f"{shop.name}.{topic}")
    pattern = rf"{shop.name}\.(?P<name>a.b)"
    shop.spec["kafka"]["topics"] = [{"pattern": pattern}]
    shop.spec["tables"] = [
        {"from": pattern, "into": "lake.shop.{name}", "schema": {"create": True}},
    ]
    ended = shop.call("run", "--json")
    assert (2, "P141") == (ended.code, problem(ended)[0])
    assert f"{shop.name}.a-b" in ended.out


def _lake(shop: Shop):
    (shop.directory / "lake").mkdir(exist_ok=True)
    lake = load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{shop.directory}/lake/catalog.db",
        warehouse=f"file://{shop.directory}/lake",
    )
    lake.create_namespace_if_not_exists("shop")
    return lake


def test_a_table_that_cannot_be_created_is_parked_with_the_reason(shop: Shop) -> None:
    shop.spec["tables"][1]["partition_by"] = ["no_such_field"]
    shop.send(0, 10)
    ended = shop.run()

    assert (2, "P434") == (ended.code, problem(ended)[0])
    assert {"delta.shop.orders"} == set(ended.json["parked"])
    assert 10 == len(shop.lake())
