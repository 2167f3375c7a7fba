"""`penstock plan` ends with the exit code of the run, whatever keeps that from its work."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from tests.forecasts import Place

from penstock.app.inspect.plan.forecast import (
    Adoption,
    Plan,
    RejectGroup,
    SampledChanges,
    StartRange,
    TablePlan,
)
from penstock.app.inspect.plan.sample_outcome import group_rejects
from penstock.cli import main
from penstock.cli.plan import plan_lines
from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.claims import Generation
from penstock.core.errors import InvalidError, PenstockError
from penstock.landing.settings import Consent
from penstock.ports.store import Owner
from penstock.ports.tables import TableDefinition, TableState

ORDERS = "lake.shop.orders"
SPEC = yaml.safe_dump(
    {
        "name": "shop",
        "kafka": {"brokers": "nowhere:9092", "topics": ["orders"]},
        "catalogs": {"lake": {"type": "sql", "uri": "sqlite:///./c.db", "warehouse": "./l"}},
        "tables": [{"from": "orders", "into": ORDERS, "schema": {"create": True}}],
        "quarantine": {"into": "lake.ops.quarantine"},
        "spark": {"master": "inline"},
    }
)


@pytest.fixture
def place() -> Place:
    """A pipeline that has landed five records, with five more to land."""
    found = Place(SPEC, ["orders"])
    found.send("orders", [(b'{"id": 1}', 10)])
    assert 0 == found.run().code
    found.send("orders", [(b'{"id": 2}', 10)])
    return found


def reported(said: Plan | PenstockError) -> tuple[int, str]:
    """Return exit code and code of what a plan foretells."""
    if isinstance(said, PenstockError):
        return said.exit_code, said.code
    return said.exit_code, said.reason.code if said.reason else ""


def retention(place: Place) -> None:
    place.cluster.delete_before("orders", 0, 8)


def made_again(place: Place) -> None:
    place.cluster.delete("orders")
    place.cluster.create("orders", 2)


def cut(place: Place) -> None:
    place.cluster.lose_leader("orders", 0)
    place.cluster.elect_leader("orders", 0, truncate_to=2)


@pytest.mark.parametrize(
    ("trouble", "code", "accept"), [(retention, "P252", "gap"), (made_again, "P251", "topic")]
)
def test_what_waits_for_consent_ends_plan_and_run_with_4_and_with_it_neither(
    place: Place, trouble: Callable[[Place], None], code: str, accept: Consent
) -> None:
    trouble(place)

    assert (4, code) == reported(place.plan())
    assert 4 == place.run().code
    assert (0, "") == reported(place.plan(accept))
    assert 0 == place.run(accept).code


def test_of_a_table_that_is_there_plan_says_the_same_way_out_of_a_flood_as_the_run(
    place: Place,
) -> None:
    """Hints say nothing any more of a table that is there."""
    place.send("orders", [(b"no json", 500)])

    found = place.plan()
    assert isinstance(found, Plan)
    assert (4, {ORDERS: "P345"}) == ((ending := place.run()).code, ending.parked)
    assert found.reason is not None
    assert ending.hints[ORDERS] == found.reason.hint


def test_a_table_that_a_flood_left_empty_is_created_again_by_other_rules_once_it_is_dropped() -> (
    None
):
    place = Place(SPEC, ["orders"])
    place.send("orders", [(b'{"id": "A7"}', 200), (b'{"id": 7}', 200)])
    first = place.run()
    assert {ORDERS: "P345"} == first.parked
    assert "drop it" in first.hints[ORDERS]

    rescued = SPEC.replace("create: true", "create: true\n    types: rescue")
    place.settings = Place(rescued, []).settings
    assert {ORDERS: "P345"} == place.run().parked  # what is there has no column _rescued

    place.warehouses["lake"].drop("shop.orders")
    assert (0, "") == reported(place.plan())
    assert (0, 400) == ((second := place.run()).code, second.rows[ORDERS])


@pytest.mark.parametrize("refused", ["ops.quarantine", "shop.orders"])
def test_a_table_that_cannot_be_created_ends_them_alike(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """The quarantine is created first, and a run does nothing without it."""
    place = Place(SPEC, ["orders"])
    place.send("orders", [(b"no json", 150), (b'{"id": 1}', 10)])
    mine, require = place.warehouses["lake"], MemoryTables.preview

    def required(self: MemoryTables, name: str, definition: TableDefinition) -> TableState:
        if name == refused and self._warehouse is mine:
            raise InvalidError(f"{name} cannot be written", code="P431")
        return require(self, name, definition)

    monkeypatch.setattr(MemoryTables, "preview", required)

    assert (2, "P431") == reported(place.plan())
    assert 2 == (ending := place.run()).code
    assert {"P431"} == {*ending.parked.values()}


def test_a_log_that_was_cut_ends_plan_and_run_with_4(place: Place) -> None:
    cut(place)

    assert (4, "P253") == reported(place.plan())
    assert 4 == place.run().code


def starting(offset: int) -> Place:
    """A pipeline that is to begin at an offset of partition 0, which has five records."""
    text = yaml.safe_load(SPEC)
    text["kafka"]["start"] = {"orders": {0: offset}}
    found = Place(yaml.safe_dump(text), ["orders"])
    found.send("orders", [(b'{"id": 1}', 10)])
    return found


def test_a_start_that_retention_has_passed_ends_plan_and_run_with_4() -> None:
    place = starting(2)
    retention(place)

    assert (4, "P252") == reported(place.plan())
    assert (4, {ORDERS: "P252"}) == ((ending := place.run()).code, ending.parked)
    assert (0, "") == reported(place.plan("gap"))
    assert 0 == place.run("gap").code


def test_a_new_partition_that_retention_has_shortened_ends_plan_and_run_with_4(
    place: Place,
) -> None:
    place.cluster.grow("orders", 3)
    place.cluster.send("orders", *[Message(b'{"id": 3}')] * 4, partition=2)
    place.cluster.delete_before("orders", 2, 3)

    assert (4, "P252") == reported(place.plan())
    assert (4, {ORDERS: "P252"}) == ((ending := place.run()).code, ending.parked)
    assert (0, "") == reported(place.plan("gap"))
    assert 0 == place.run("gap").code


def test_a_start_after_the_end_of_the_log_is_refused_before_a_ledger_has_it() -> None:
    place = starting(6)

    assert (2, "P125") == reported(place.plan())
    assert (2, {ORDERS: "P125"}) == ((ending := place.run()).code, ending.parked)

    place.settings = replace(place.settings, start=starting(5).settings.start)
    assert (0, "") == reported(place.plan())
    assert (0, 5) == ((ending := place.run()).code, ending.rows[ORDERS])


def test_a_partition_without_a_leader_ends_them_with_75(place: Place) -> None:
    place.cluster.lose_leader("orders", 1)

    assert (75, "P254") == reported(place.plan())


def test_a_first_start_without_a_leader_ends_them_with_75() -> None:
    place = Place(SPEC, ["orders"])
    place.cluster.lose_leader("orders", 1)

    assert (75, "P250") == reported(place.plan())
    assert (75, {ORDERS: "P250"}) == (place.run().code, place.run().parked)


def test_another_owner_that_is_alive_ends_them_with_75_unless_its_place_is_taken(
    place: Place,
) -> None:
    other = Owner("other", "elsewhere", 1, 0)
    until_ms = 2**60
    place.store.claim(
        "shop", other, above=Generation(0), now_ms=0, alive_until_ms=until_ms, takeover=True
    )

    assert (75, "P510") == reported(place.plan())
    assert (75, {"": "P510"}) == ((ending := place.run()).code, ending.parked)
    assert (0, "") == reported(place.plan(takeover=True))


def test_a_missing_topic_ends_them_with_2(place: Place) -> None:
    place.cluster.delete("orders")

    assert reported(place.plan())[0] == place.run().code == 2


def test_rejects_are_sorted_by_code_and_field_the_most_frequent_first() -> None:
    def row(code: str, stage: str, message: str, offset: int) -> dict[str, object]:
        place = {"topic": "orders", "partition": 0, "offset": offset, "value": b"{}"}
        return {"code": code, "stage": stage, "message": message, **place}

    rows = [
        row("P302", "decode", "not JSON: at byte 3", 1),
        row("P366", "convert", "amount: no decimal", 2),
        row("P366", "convert", "at: no time", 3),
        row("P366", "convert", "amount: no decimal", 4),
    ]

    assert (
        RejectGroup("P366", "amount", 2, "amount: no decimal", "orders", 0, 2, b"{}"),
        RejectGroup("P302", "", 1, "not JSON: at byte 3", "orders", 0, 1, b"{}"),
        RejectGroup("P366", "at", 1, "at: no time", "orders", 0, 3, b"{}"),
    ) == group_rejects(rows)


@pytest.fixture
def _specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lie in the working folder; `PENSTOCK_SPEC` names one of them."""
    for name in ("shop.yaml", "my shop.yaml", "penstock.yaml", "shop.spec"):
        (tmp_path / name).write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_SPEC", "shop.yaml")


@pytest.mark.usefixtures("_specs")
@pytest.mark.parametrize(
    ("words", "run"),
    [
        ((), "penstock run"),
        (("shop.yaml",), "penstock run"),
        (("my shop.yaml",), "penstock run 'my shop.yaml'"),
        (("penstock.yaml",), "penstock run penstock.yaml"),
        (("shop.spec",), "penstock run --spec shop.spec"),
        (("--takeover", "--accept", "gap"), "penstock run --takeover --accept gap"),
    ],
)
def test_the_run_that_a_plan_names_is_the_one_that_was_planned(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys, words: tuple[str, ...], run: str
) -> None:
    found = place.plan()
    monkeypatch.setattr("penstock.app.inspect.plan.plan.plan", lambda *_, **__: found)

    with pytest.raises(SystemExit) as ended:
        main(["plan", *words])
    assert 0 == ended.value.code
    assert f"shop  a run would do this:  {run}" == capsys.readouterr().out.splitlines()[0]


def test_a_command_that_plan_names_is_pasted_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"penstock seek lake.shop.{'orders_' * 12}"
    hint = f"a mistake: roll forward, see  penstock explain P455; meant:  {command}"
    found = place.plan()
    assert isinstance(found, Plan)
    rolled_back = TablePlan(ORDERS, problem=InvalidError("no", code="P455", hint=hint))
    monkeypatch.setattr("penstock.cli.plan.load_spec", lambda _: None)
    monkeypatch.setattr(
        "penstock.app.inspect.plan.plan.plan",
        lambda *_, **__: replace(found, tables=(rolled_back,)),
    )

    with pytest.raises(SystemExit):
        main(["plan"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "→ a mistake: roll forward, see  penstock explain P455; meant:" in lines
    assert command in lines


def test_plan_says_which_other_pipeline_has_landed_in_the_table_what_a_run_would_land_again(
    place: Place,
) -> None:
    """A pipeline that gets another name starts over: its rows are twice."""
    whys = {each.reason for each in ranges(place)}
    assert not any("pipeline" in why for why in whys)

    place.settings = Place(SPEC.replace("name: shop\n", "name: shop2\n"), []).settings
    assert [
        "kafka.start: earliest; pipeline shop has landed it here up to 5: both have rows of it then"
    ] * 2 == [each.reason for each in ranges(place)]
    assert 20 == place.run().rows[ORDERS]  # those ten as well


def ranges(place: Place) -> Sequence[StartRange]:
    found = place.plan()
    assert isinstance(found, Plan)
    [table] = found.tables
    return table.ranges


def test_settings_that_apply_only_at_creation_are_named_for_a_table_that_exists(
    place: Place,
) -> None:
    before = place.plan()
    assert isinstance(before, Plan)
    assert () == before.tables[0].creation_only
    hints = "\n    hints: { id: string, note: string }\n  partition_by: [id]\n  sort_by: [id]"
    given = SPEC.replace("create: true", f"create: true{hints}")
    place.settings = Place(given, []).settings

    found = place.plan()

    assert isinstance(found, Plan)
    assert ("schema.hints", "partition_by", "sort_by") == found.tables[0].creation_only


def test_keys_of_a_table_that_exists_are_no_setting_of_its_creation(place: Place) -> None:
    place.plan()
    keyed = SPEC.replace("    create: true", "    create: true\n  mode: upsert\n  keys: [id]")
    keyed = keyed.replace("  mode: upsert", "  tombstones: skip\n  mode: upsert")
    place.settings = Place(keyed, []).settings

    found = place.plan()

    assert isinstance(found, Plan)
    assert () == found.tables[0].creation_only


def test_a_hint_that_differs_from_an_existing_column_is_reported(place: Place) -> None:
    hinted = SPEC.replace("create: true", "create: true\n    hints: { id: string, note: string }")
    place.settings = Place(hinted, []).settings

    found = place.plan()

    assert isinstance(found, Plan)
    assert (("id", "string", "long"),) == found.tables[0].ignored_hints


def change(key: int, op: str) -> bytes:
    return json.dumps({"id": key, "op": op}).encode()


def keyed(**more: object) -> str:
    """Write the spec with a rule that is keyed by id."""
    spec = yaml.safe_load(SPEC)
    operation = {"field": "op", "map": {"U": "update", "D": "delete"}}
    spec["tables"][0] |= {"mode": "cdc", "keys": ["id"], "operation": operation, **more}
    return yaml.safe_dump(spec)


def table_of(place: Place) -> TablePlan:
    plan = place.plan()
    assert isinstance(plan, Plan)
    (table,) = plan.tables
    return table


def test_of_a_keyed_table_is_said_which_change_wins_and_that_deleted_rows_stay() -> None:
    schema = {"create": True, "hints": {"id": "long", "no": "long"}}
    place = Place(keyed(deletes="soft", sequence_by=["no"], schema=schema), ["orders"])
    for key, op, number in [(1, "U", 5), (1, "D", 3), (2, "U", 1), (2, "D", 9), (3, "U", None)]:
        value = json.dumps({"id": key, "op": op, "no": number}).encode()
        place.cluster.send("orders", Message(value), partition=0)
    table = table_of(place)

    assert (("no",), "_is_deleted") == (table.sequence_by, table.flag)
    assert "change 2 keys: 1 gets a row, 1 is deleted; 2 records superseded" in shown_lines(table)
    assert SampledChanges(upserts=1, deletes=1, superseded=2, across=0) == table.sampled.changes
    assert {"P375": 1} == table.sampled.quarantined
    said = "one row for each key: id; the highest wins by no; a deleted row stays, with _is_deleted"
    assert said in shown_lines(table)
    assert 0 == place.run().code


def test_of_a_keyed_table_is_said_what_the_sampled_records_come_to() -> None:
    place = Place(keyed(), ["orders"])
    for key, op in [(1, "U"), (2, "U"), (1, "U"), (3, "D"), (2, "D"), (4, "U"), (5, "?")]:
        place.cluster.send("orders", Message(change(key, op)), partition=0)
    place.cluster.send("orders", Message(change(4, "U")), partition=1)
    table = table_of(place)

    assert ("cdc", ("id",), None) == (table.mode, table.keys, table.adopts)
    assert SampledChanges(upserts=2, deletes=2, superseded=3, across=1) == table.sampled.changes
    assert (7, {"P321": 1}) == (table.sampled.landed, table.sampled.quarantined)
    text = shown_lines(table)
    assert "mode: cdc, one row for each key: id" in text
    assert "8 sampled records change 4 keys: 2 get a row, 2 are deleted; 3 records" in text
    assert "of 8 sampled records 7 fit; 1 would be quarantined" in text
    assert "1 key changed in two partitions" in text

    assert 0 == place.run().code
    assert place.columns()[ORDERS] == table.columns
    rows = place.warehouses["lake"].rows("shop.orders")
    assert [1, 4] == sorted(row["id"] for row in rows)
    place.cluster.send("orders", Message(change(1, "U")), partition=0)
    assert table_of(place).adopts is None


def test_a_key_in_two_partitions_is_foretold_to_park_a_table_that_stops_there() -> None:
    place = Place(keyed(across_partitions="stop"), ["orders"])
    for partition in (0, 1):
        place.cluster.send("orders", Message(change(4, "U")), partition=partition)

    assert (4, "P489") == reported(place.plan())
    assert "P489" == place.run().parked[ORDERS]
    assert (4, "P489") == reported(
        place.plan()
    )  # of the commit that waits: nothing is left to read


def test_a_prepared_commit_that_waits_for_a_row_of_another_partition_is_foretold_to_wait() -> None:
    place = Place(keyed(across_partitions="stop"), ["orders"])
    place.cluster.send("orders", Message(change(4, "U")), partition=0)
    assert {} == dict(place.run().parked)
    place.cluster.send("orders", Message(change(4, "U")), partition=1)
    assert "P489" == place.run().parked[ORDERS]

    assert (4, "P489") == reported(place.plan())


def test_a_table_that_has_appended_is_said_to_become_keyed(place: Place) -> None:
    assert 0 == place.run().code
    place.settings = Place(
        keyed(mode="upsert", operation=None, tombstones="skip"), ["orders"]
    ).settings
    table = table_of(place)

    assert ("upsert", Adoption(rows=20)) == (table.mode, table.adopts)
    said = "becomes keyed with the first commit; 20 rows from before stay until their key changes"
    assert said in shown_lines(table)
    assert said not in shown_lines(replace(table, adopts=None))


def test_a_keyed_table_is_said_to_be_parked_with_the_code_of_its_run(place: Place) -> None:
    assert 0 == place.run().code
    place.settings = Place(keyed(keys=["order_no"]), ["orders"]).settings

    plan = place.plan()
    assert isinstance(plan, Plan)
    assert (2, "P434") == reported(plan)
    assert ("cdc", ("order_no",)) == (plan.tables[0].mode, plan.tables[0].keys)
    assert "P434" == place.run().parked[ORDERS]


def shown_lines(table: TablePlan) -> str:
    console = Console(file=io.StringIO(), width=200)
    for line in plan_lines(Plan("shop", (table,))):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_table_of_an_empty_topic_begins_at_its_first_record() -> None:
    spec = yaml.safe_load(SPEC)
    spec["kafka"]["topics"] = ["orders", "empty"]
    spec["tables"].append({**spec["tables"][0], "from": "empty", "into": "lake.shop.empty"})
    place = Place(yaml.safe_dump(spec), ["orders", "empty"])
    place.cluster.send("orders", Message(b'{"id": 1}'), partition=0)
    assert 0 == place.run().code

    (empty, _) = place.plan().tables
    assert {"its first record: nothing of it has been read"} == {r.reason for r in empty.ranges}
