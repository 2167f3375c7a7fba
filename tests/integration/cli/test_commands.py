"""The commands as a user runs them: what is data, what is talk, and a page of help for each."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.processes.process import penstock

COMMANDS = (
    "init",
    "validate",
    "plan",
    "peek",
    "run",
    "status",
    "audit",
    "schema",
    "explain",
    "demo",
    "dev up",
    "dev down",
    "dev status",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_of_help_with_an_example(command: str) -> None:
    page = penstock(*command.split(), "--help")

    assert 0 == page.code
    assert "Example" in page.out
    assert f"penstock {command}" in page.out.partition("Example")[2]
    assert "" == page.err


def test_a_word_that_is_no_command_or_setting_is_the_users_mistake() -> None:
    assert 2 == penstock("rum").code
    assert 2 == penstock("run", "--untill-caught-up").code


def test_the_whole_way_of_a_user_from_validate_to_audit(shop: Shop) -> None:
    shop.send(0, 500)
    shop.send(500, 300, partition=1)

    checked = shop.call("validate", "--json")
    assert (0, [], 2) == (checked.code, checked.json["problems"], len(checked.json["tables"]))

    ran = shop.run()
    assert (0, "caught up", {}) == (ran.code, ran.json["reason"], ran.json["parked"])
    log = [json.loads(line) for line in ran.err.splitlines()]
    assert {"PipelineStarted", "TableCreated", "TableCommitted", "PipelineStopped"} <= {
        line["event"] for line in log
    }

    status = shop.call("status", "--json")
    assert 0 == status.code
    lags = {name: table["lag_records"] for name, table in status.json["tables"].items()}
    assert {"lake.shop.orders": 0, "delta.shop.orders": 0} == lags
    assert status.json["running"] is False

    audit = shop.call("audit", "--count", "--json")
    assert (0, "") == (audit.code, audit.err)
    rows = {each["table"]: each["row_count"]["rows"] for each in audit.json["tables"]}
    assert {"lake.shop.orders": 800, "delta.shop.orders": 800} == rows
    assert (list(range(800)), list(range(800))) == shop.ids()


def test_people_read_sentences_on_stdout_and_talk_on_stderr(shop: Shop) -> None:
    shop.send(0, 10)
    ran = shop.call("run", "--until-caught-up")
    assert (0, "") == (ran.code, ran.out)
    assert "lake.shop.orders" in ran.err

    assert "pipeline shop is valid" in shop.call("validate").out
    assert "lake.shop.orders" in shop.call("status").out
    audit = shop.call("audit", "lake.shop.orders", "--count")
    assert "10 records in Kafka = 10 in the table + 0 in quarantine" in audit.out
    assert "delta.shop.orders" not in audit.out


def test_validate_names_settings_that_apply_only_to_a_new_table(shop: Shop) -> None:
    lake = shop.spec["tables"][0]
    lake |= {"partition_by": ["id"], "schema": {"create": True, "hints": {"id": "long"}}}
    shop.send(0, 10)
    assert "apply" not in shop.call("validate").out
    assert 0 == shop.run().code

    lines = dict(line.split(": ", 1) for line in shop.call("validate").out.splitlines())
    assert lines["lake.shop.orders"].endswith(
        "; partition_by: applies only when a table is created, and this one exists"
    )
    assert "applies" not in lines["delta.shop.orders"]


def test_validate_offline_reads_the_file_alone(shop: Shop) -> None:
    shop.spec["kafka"]["brokers"] = "localhost:1"
    assert 0 == shop.call("validate", "--offline").code


def test_once_lands_one_epoch(shop: Shop) -> None:
    shop.spec["commit"]["or_records"] = 100
    shop.send(0, 250)
    ran = shop.call("run", "--once", "--json")

    assert (0, "one epoch was landed") == (ran.code, ran.json["reason"])
    assert 100 == len(shop.lake()) == len(shop.delta())


def test_schema_prints_a_json_schema_of_the_spec() -> None:
    schema = penstock("schema").json
    assert {"name", "kafka", "catalogs", "tables"} <= set(schema["properties"])


def test_a_broker_for_trying_things_comes_up_reports_and_goes_down(tmp_path: Path) -> None:
    up = penstock("dev", "up", "--port", "0", "--directory", tmp_path, "--json")
    assert 0 == up.code
    again = penstock("dev", "up", "--port", "0", "--directory", tmp_path, "--json")
    status = penstock("dev", "status", "--directory", tmp_path, "--json")
    down = penstock("dev", "down", "--directory", tmp_path, "--json")

    assert up.json == again.json == status.json
    assert {"stopped": True, "directory": str(tmp_path)} == down.json
    assert penstock("dev", "status", "--directory", tmp_path, "--json").json is None
    assert not penstock("dev", "down", "--directory", tmp_path, "--json").json["stopped"]


def test_a_broker_of_another_directory_is_found_from_the_folder_it_was_started_from(
    tmp_path: Path,
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    data = tmp_path / "data"
    up = penstock("dev", "up", "--port", "0", "--directory", data, directory=here)

    elsewhere_down = penstock("dev", "down", directory=elsewhere)
    status = penstock("dev", "status", "--json", directory=here).json
    down = penstock("dev", "down", directory=here)

    assert f"stop it: penstock dev down --directory {data}" in up.out
    assert "no broker runs in .penstock/dev" in elsewhere_down.out
    assert f"--directory {data}\n" in elsewhere_down.out
    assert str(data) == status["directory"]
    assert f"stopped; its data are in {data}\n" == down.out
    assert penstock("dev", "status", "--directory", data, "--json").json is None


def test_a_port_in_use_is_reported_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = penstock("dev", "up", "--port", str(port), "--directory", tmp_path, "--json")

    assert 2 == up.code
    assert "P656" == up.json["error"]["code"]
    assert "penstock dev up --port 0" in up.json["error"]["hint"]
