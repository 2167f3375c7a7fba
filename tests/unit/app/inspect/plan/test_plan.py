"""`penstock plan` ends with the exit code of the run, whatever keeps that from its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.foretold import Place

from penstock.app.inspect.plan.forecast import Beginning, Plan, RejectGroup, TablePlan
from penstock.app.inspect.plan.sample_outcome import group_rejects
from penstock.cli import main
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


def told(said: Plan | PenstockError) -> tuple[int, str]:
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

    assert (4, code) == told(place.plan())
    assert 4 == place.run().code
    assert (0, "") == told(place.plan(accept))
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


def test_a_table_that_a_flood_left_empty_is_created_anew_by_other_rules_once_it_is_dropped() -> (
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
    assert (0, "") == told(place.plan())
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

    assert (2, "P431") == told(place.plan())
    assert 2 == (ending := place.run()).code
    assert {"P431"} == {*ending.parked.values()}


def test_a_log_that_was_cut_ends_plan_and_run_with_4(place: Place) -> None:
    cut(place)

    assert (4, "P253") == told(place.plan())
    assert 4 == place.run().code


def test_a_partition_without_a_leader_ends_them_with_75(place: Place) -> None:
    place.cluster.lose_leader("orders", 1)

    assert (75, "P254") == told(place.plan())


def test_a_first_start_without_a_leader_ends_them_with_75() -> None:
    place = Place(SPEC, ["orders"])
    place.cluster.lose_leader("orders", 1)

    assert (75, "P250") == told(place.plan())
    assert (75, {ORDERS: "P250"}) == (place.run().code, place.run().parked)


def test_another_owner_that_is_alive_ends_them_with_75_unless_its_place_is_taken(
    place: Place,
) -> None:
    other = Owner("other", "elsewhere", 1, 0)
    until_ms = 2**60
    place.store.claim(
        "shop", other, above=Generation(0), now_ms=0, alive_until_ms=until_ms, takeover=True
    )

    assert (75, "P510") == told(place.plan())
    assert (75, {"": "P510"}) == ((ending := place.run()).code, ending.parked)
    assert (0, "") == told(place.plan(takeover=True))


def test_a_topic_that_is_gone_ends_them_with_2(place: Place) -> None:
    place.cluster.delete("orders")

    assert told(place.plan())[0] == place.run().code == 2


def test_misfits_are_sorted_by_code_and_field_the_most_frequent_first() -> None:
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
    """A pipeline that gets another name begins anew: its rows stand twice."""
    whys = {each.why for each in beginnings(place)}
    assert not any("pipeline" in why for why in whys)

    place.settings = Place(SPEC.replace("name: shop\n", "name: shop2\n"), []).settings
    assert [
        "kafka.start: earliest; pipeline shop has landed it here up to 5: both have rows of it then"
    ] * 2 == [each.why for each in beginnings(place)]
    assert 20 == place.run().rows[ORDERS]  # those ten as well


def beginnings(place: Place) -> Sequence[Beginning]:
    found = place.plan()
    assert isinstance(found, Plan)
    [table] = found.tables
    return table.beginnings
