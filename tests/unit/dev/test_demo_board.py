"""The demo's board: its changes, and what they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.app.demo import board, data
from penstock.app.demo.story import DemoResult
from penstock.app.inspect.audit import Audit
from penstock.app.inspect.publication_audit import PublicationAudit
from penstock.app.inspect.status import Status
from penstock.core.errors import UnavailableError
from penstock.observe.snapshot import Snapshot, State


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return data.flights().slice(0, board.FLIGHTS)


def test_what_the_changes_leave_is_what_was_published_but_for_the_cancelled(
    flights: pa.Table,
) -> None:
    changes = board.events(flights)
    published = {at: row for at, row in enumerate(flights.to_pylist()) if row["dep_time"]}
    renumbered = published.pop(board.RENUMBERED)
    expected = {**published, board.FLIGHTS + board.RENUMBERED: renumbered}
    shown = [{"id": at, **row} for at, row in sorted(expected.items())]

    assert {"c", "u", "d"} == {each["op"] for each in changes}
    assert [{name: row[name] for name in board.COLUMNS} for row in shown] == board.folded(changes)


def test_each_change_has_the_row_of_before_and_is_sent_once(flights: pa.Table) -> None:
    changes = board.events(flights)
    rows: dict[int, board.Row] = {}
    for each in changes:
        if each["before"]:
            assert rows.pop(each["before"]["id"]) == each["before"]
        if each["after"]:
            assert each["after"]["id"] not in rows
            rows[each["after"]["id"]] = each["after"]
    sent = [json.loads(value) for some in board.records(changes) for value in some]

    assert changes == sent


def test_tables_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as raised:
        board.read(tmp_path)

    assert "P641" == raised.value.code


@pytest.mark.parametrize("wrong", [(), ("lake.nyc.board",)])
def test_the_demo_ends_with_a_number_which_a_shell_is_given(wrong: tuple[str, ...]) -> None:
    status = Status(Snapshot("nyc", State.STOPPED, 0, 0), running=False)
    result = DemoResult(status, Audit(), 1, 1.0, Path(), 1, wrong, PublicationAudit("departures"))

    assert (int, len(wrong)) == (type(result.exit_code), result.exit_code), "a bool is no exit code"
