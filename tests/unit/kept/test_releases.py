"""What outlives an upgrade is read by every later release: ledgers, pending commits, rules, stores.

`release-0.1` holds them as that release wrote them; they are never written again. A form that
changes gets a higher version and a directory of its own next to this one, and both are read.
"""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.store import SqlStore
from penstock.core.accounting import Tally
from penstock.core.claims import Generation
from penstock.core.commits import Chain, DataFile
from penstock.core.errors import InvalidError
from penstock.core.serialization import committable_from_json, ledger_from_json
from penstock.landing.task.message_json import job_from_json, result_from_json
from penstock.ports.store import Examined
from penstock.spec.load import loads
from penstock.spec.rules import rules_text, with_rules
from penstock.testing.prepared import origin, positions, prepared, progress

KEPT = Path(__file__).parent / "release-0.1"
CHAIN = Chain("shop", "lake.bronze.orders")
FILE = DataFile("s3://b/a.parquet", 3, 1000, progress({0: (0, 3)}), detail='{"v":1}')
AT = next(iter(positions({0: 3})))
LEDGER = replace(
    origin(CHAIN, {0: 3, 1: 7}),
    generation=Generation(4),
    valid_through_ms=1_700_000_000_000,
    leader_epochs={AT: 2},
)
COMMIT = replace(
    prepared(CHAIN, {0: (0, 3)}, files=[FILE]),
    rules_hash="r1",
    valid_through_ms=1_700_000_000_000,
    tallies={AT: Tally(4, 3, {"tombstone": 1}, {})},
)
NOTED = Examined(positions({0: 0}), positions({0: 0}), positions({0: 3}))
SPEC = """
name: shop
kafka: { brokers: "localhost:9092", topics: [orders] }
catalogs: { lake: { type: sql, uri: "sqlite:///./c.db", warehouse: ./lake } }
tables: [{ from: orders, into: lake.bronze.orders, schema: { create: true } }]
quarantine: { into: lake.ops.quarantine }
"""


def kept(name: str) -> str:
    return (KEPT / name).read_text("utf-8")


def newer(text: str) -> str:
    return json.dumps({**json.loads(text), "v": 99})


def test_ledgers_and_pending_commits_of_0_1_are_read():
    assert LEDGER == ledger_from_json(kept("ledger.json"))
    assert COMMIT == committable_from_json(kept("commit.json"))


def test_rules_of_0_1_are_put_back():
    pipeline = loads(SPEC, base=Path("/srv"))

    assert rules_text(pipeline) == rules_text(with_rules(pipeline, kept("rules.json")))


def test_a_store_of_0_1_is_read_and_written_on(tmp_path):
    shutil.copy(KEPT / "store.db", tmp_path / "store.db")
    store = SqlStore(StoreFile(tmp_path / "store.db"))
    held = store.holding("shop").claim
    store.settle("shop", held, COMMIT, landed=True, reason="")

    assert 1 == held.generation
    assert {CHAIN.table: NOTED} == store.examined("shop")
    assert "text" == store.rules("shop", "r1")
    assert [] == list(store.pending("shop"))


@pytest.mark.parametrize(
    ("read", "name", "code"),
    [
        (ledger_from_json, "ledger.json", "P190"),
        (committable_from_json, "commit.json", "P190"),
        (lambda text: with_rules(loads(SPEC, base=Path("/srv")), text), "rules.json", "P130"),
        (job_from_json, "ledger.json", "P620"),
        (result_from_json, "ledger.json", "P620"),
    ],
)
def test_what_a_newer_release_wrote_is_refused_with_the_version_it_has(read, name, code):
    with pytest.raises(InvalidError, match="version 99") as refused:
        read(newer(kept(name)))

    assert code == refused.value.code
    assert refused.value.hint


def test_a_pending_commit_of_a_newer_release_stops_the_run_and_stays(tmp_path):
    path = tmp_path / "store.db"
    shutil.copy(KEPT / "store.db", path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE commits SET body = ?", [newer(kept("commit.json"))])
    store = SqlStore(StoreFile(path))
    with pytest.raises(InvalidError, match="version 99"):
        store.pending("shop")
    store.close()
    with sqlite3.connect(path) as database:
        assert [(1,)] == database.execute("SELECT count(*) FROM commits").fetchall()
