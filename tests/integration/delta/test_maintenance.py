"""What a rearrangement leaves in a Delta log: who vouches, what readers of changes see."""

import json
import re

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from tests.integration.delta import foreign_compact
from tests.integration.delta.lake import CHAIN, Lake, origin
from tests.integration.maintaining import maintained

from penstock.connectors.delta import connector
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError
from penstock.core.maintenance import DELTALAKE, OURS
from penstock.ports.tables import Verdict

OTHERS = Chain("other", CHAIN.table)


@pytest.fixture
def lake(tmp_path):
    """Open a lake with a table of two chains: one has landed three files, the other one."""
    lake = Lake(tmp_path)
    lake.create(origin(CHAIN, {0: 0}), origin(OTHERS, {0: 0}))
    for first in (0, 2, 4):
        lake.land({0: (first, first + 2)})
    lake.land({0: (0, 2)}, chain=OTHERS)
    return lake


def maintain(lake):
    """Maintain the table; return the actions of the entry."""
    assert 1 == maintained(CHAIN, lake.table, connector).groups
    path = lake.location / "_delta_log" / f"{lake.handle.version():020d}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_entry_is_an_optimize_that_changes_no_data_and_fences_nobody(lake):
    actions = maintain(lake)
    info = actions[0]["commitInfo"]
    moved = [each[kind] for each in actions for kind in ("add", "remove") if kind in each]
    ids = [each["txn"]["appId"] for each in actions if "txn" in each]

    assert ("OPTIMIZE", False) == (info["operation"], info["isBlindAppend"])
    assert ("1", "4") == tuple(
        info["operationMetrics"][each] for each in ("numAddedFiles", "numRemovedFiles")
    )
    assert [False] * 5 == [each["dataChange"] for each in moved]
    assert ["penstock/other/file", "penstock/shop/file"] == sorted(ids)


def test_the_layout_tells_who_rearranged_files_last(lake):
    def last():
        return lake.table.layout(lake.state()).maintained

    before = last()
    maintain(lake)
    own = last()
    lake.land({0: (6, 8)})
    since = last()
    lake.handle.optimize.compact()
    foreign = last()

    assert None is before
    assert OURS == own.by
    assert own == since
    assert DELTALAKE == foreign.by
    assert foreign.at_ms >= own.at_ms


def test_ledgers_are_whole_when_the_log_is_cleaned_up_to_it(lake):
    before = [lake.state(chain).landed for chain in (CHAIN, OTHERS)]
    maintain(lake)
    lake.clean_up_log()
    states = [Lake(lake.root.parent).state(chain) for chain in (CHAIN, OTHERS)]

    assert [f"{5:020d}.json"] == [name for name in lake.log() if name.endswith(".json")]
    assert [Verdict.AGREED] * 2 == [each.verdict for each in states]
    assert before == [each.landed for each in states]
    assert all(each.recent and each.owner for each in before)


def test_the_newest_rows_are_witnessed_by_the_file_that_holds_them_then(lake):
    maintain(lake)
    lake.foreign_append()
    lake.foreign_append()
    lake.clean_up_log()
    states = [Lake(lake.root.parent).state(chain) for chain in (CHAIN, OTHERS)]

    assert [Verdict.AGREED] * 2 == [each.verdict for each in states]
    assert all("the newest file landed is live" in each.evidence for each in states)


def test_where_only_a_live_file_speaks_for_a_chain_nothing_is_vouched_for(lake):
    lake.foreign_append()
    lake.foreign_append()
    lake.clean_up_log()
    fresh = Lake(lake.root.parent)
    assert Verdict.AGREED is fresh.state().verdict

    with pytest.raises(DecisionNeededError) as raised:
        maintained(CHAIN, fresh.table, connector)
    assert "P846" == raised.value.code


def test_a_restore_to_it_is_a_rollback_and_keeps_the_table_as_it_is(lake):
    maintain(lake)
    version = lake.handle.version()
    lake.land({0: (6, 8)})
    lake.land({0: (8, 9)})
    lake.handle.restore(version)

    assert Verdict.ROLLED_BACK is lake.state().verdict
    with pytest.raises(DecisionNeededError) as raised:
        maintained(CHAIN, lake.table, connector)
    assert "P455" == raised.value.code


def test_deltalake_doubles_rows_of_files_that_were_compacted_since_it_read_the_table(lake):
    """deltalake 1.6 does, whoever compacted; where it notices, docs/explanation/small-files.md
    need not warn of it, and `foreign_compact` can be deltalake's own.
    """
    ids = lake.ids()
    stale = lake.handle
    maintain(lake)
    stale.optimize.compact()
    doubled, warned = lake.ids(), lake.table.layout(lake.state()).doubled
    history = lake.table.history(CHAIN)
    lake.foreign_append()
    stale = lake.handle
    lake.handle.optimize.compact()
    stale.optimize.compact()

    assert sorted(ids * 2) == doubled
    assert sorted(2 * [-1, *doubled]) == lake.ids()
    version = (
        r"version 6 \(OPTIMIZE, delta-rs:[\w.-]+\) removed 4 files that version 5 had removed, .+"
    )
    assert re.fullmatch(version, warned)
    assert [warned] == history.doubled
    found = lake.table.layout(lake.state())
    assert [6, 9] == [int(each) for each in re.findall(r"version (\d+) \(", found.doubled)]
    assert DELTALAKE == found.maintained.by
    lake.handle.restore(6)
    assert warned == lake.table.layout(lake.state()).doubled
    lake.handle.restore(5)
    assert "" == lake.table.layout(lake.state()).doubled
    assert ids == lake.ids()


def test_deltalake_notices_rows_that_were_deleted_since_it_read_the_table(lake):
    before = lake.handle
    lake.handle.delete("id = 3")
    with pytest.raises(CommitFailedError, match="deleted data"):
        before.optimize.compact()


@pytest.mark.parametrize("partition_by", [(), ("_kafka_topic",)])
def test_a_compaction_of_others_that_looks_at_what_came_meanwhile(
    tmp_path, monkeypatch, partition_by
):
    lake = Lake(tmp_path)
    lake.create(origin(CHAIN, {0: 0}), partition_by=partition_by)
    for first in (0, 2, 4):
        lake.land({0: (first, first + 2)})

    def compacted(meanwhile):
        acts = [meanwhile]

        def read(place):
            table = DeltaTable(place)
            while acts:
                acts.pop()()
            return table

        monkeypatch.setattr(foreign_compact, "DeltaTable", read)
        return foreign_compact.foreign_compact(lake.location, tmp_path), lake.ids()

    behind_landing = compacted(lambda: lake.land({0: (6, 8)}))
    last = lake.handle.history(1)[0]
    behind_maintenance = compacted(lambda: maintain(lake))

    assert (True, [*range(8)]) == behind_landing
    assert ("OPTIMIZE", "delta-rs") == (last["operation"], last["engineInfo"].partition(":")[0])
    assert (False, [*range(8)]) == behind_maintenance
