"""The verdicts of protocol.md 3, each from what really happened to a table."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connectors.iceberg.ledger.properties import ledger_key, newest_key, tag_of
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, span
from penstock.core.resolutions import resolutions_of
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.contracts.table_fixture import batch_of
from penstock.testing.prepared import (
    ORDERS,
    QUARANTINE,
    orders,
    origin,
    part,
    positions,
    rejects,
)

NAME = "bronze.orders"
CHAIN = Chain("shop", f"lake.{NAME}")


def verdict(lake, table, chain=None):
    return table.state(chain or lake.chain).verdict


def middle(lake, *kept, name=NAME):
    """List the snapshots that are neither kept, nor head, nor tagged."""
    metadata = lake.foreign(name).metadata
    safe = {int(each) for each in kept} | {ref.snapshot_id for ref in metadata.refs.values()}
    return [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in safe]


def test_f5_a_commit_is_known_after_other_writers_committed_and_expired_all_but_the_head(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    lake.land(table, {0: (2, 5)})
    for _ in range(3):
        lake.foreign_append()
    lake.expire(middle(lake))
    state = table.state(lake.chain)

    assert Verdict.AGREED == state.verdict, state.evidence
    assert positions({0: 5, 1: 0}) == state.landed.offsets


def test_f5_even_when_the_tag_was_removed_and_its_snapshot_expired(lake):
    table = lake.create()
    own = lake.land(table, {0: (0, 2)})
    for _ in range(3):
        lake.foreign_append()
    lake.foreign().manage_snapshots().remove_tag(tag_of("shop")).commit()
    lake.expire([*middle(lake)])

    assert own not in [str(s.snapshot_id) for s in lake.foreign().snapshots()]
    assert Verdict.AGREED == verdict(lake, table), table.state(lake.chain).evidence


def test_history_cut_off_above_a_chain_of_anchors_loses_nothing(lake):
    table = lake.create()
    state = table.state(lake.chain)
    table.commit(state, lake.anchor(state, {0: (0, 9)}), retain=25)
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))

    assert Verdict.AGREED == verdict(lake, table)


def test_an_anchor_after_files_is_agreed_by_the_files_before_it(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    state = table.state(lake.chain)
    table.commit(state, lake.anchor(state, {0: (2, 9)}), retain=25)
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))

    assert Verdict.AGREED == verdict(lake, table)


def test_w2_a_rollback_hidden_by_other_writers_and_expiry_is_not_taken_for_expiry(lake):
    table = lake.create()
    first = lake.land(table, {0: (0, 2)})
    lake.land(table, {0: (2, 5)})
    lake.roll_back(first)
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))

    assert Verdict.UNCERTAIN == verdict(lake, table)
    assert "no file" in table.state(lake.chain).evidence


def refuse(lake, table, chain):
    state = table.state(chain)
    files = lake.write(state, batch_of(QUARANTINE, rejects(chain, [(0, 3)])))
    commit = lake.anchor(state, {0: (0, 5)}, chain=chain, files=files)
    table.commit(state, commit, retain=25)


def compact(lake, name=NAME):
    """Rewrite all files, as others do, and expire all but the head and what is tagged."""
    table = lake.foreign(name)
    table.overwrite(table.scan().to_arrow())
    lake.expire(middle(lake, name=name), name)


def test_f5_files_compacted_after_an_expired_history_are_known_by_their_rows(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    lake.land(table, {0: (2, 5), 1: (0, 3)})
    state = table.state(lake.chain)
    table.commit(state, lake.anchor(state, {0: (5, 9)}), retain=25)
    lake.foreign_append()
    compact(lake)
    state = table.state(lake.chain)

    assert Verdict.AGREED == state.verdict, state.evidence
    assert "all its 6 rows" in state.evidence
    lake.land(table, {0: (9, 10)})
    assert [-1, *range(5), 9, *range(1000, 1003)] == lake.ids()


@pytest.mark.parametrize("put_back", [(), (3,), (2, 3, 4, 4)], ids=["none", "some", "too many"])
def test_w2_a_rollback_is_not_taken_for_a_compaction(lake, put_back):
    table = lake.create()
    first = lake.land(table, {0: (0, 2)})
    lake.land(table, {0: (2, 5)})
    lake.roll_back(first)
    rows = [row for offset in put_back for row in orders({0: (offset, offset + 1)})]
    foreign = lake.foreign()
    foreign.append(pa.Table.from_pylist(rows, schema=foreign.schema().as_arrow()))
    compact(lake)

    assert Verdict.UNCERTAIN == verdict(lake, table)
    assert "all of its 3 rows" in table.state(lake.chain).evidence


def test_w2_a_row_that_was_retried_ahead_of_its_chain_is_no_witness(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    state = table.state(CHAIN)
    files = lake.write(state, batch_of(ORDERS, orders({0: (5, 6)})))
    log = resolutions_of(CHAIN.table)
    retried = lake.anchor(state, {}, files=files, nonce="retried")
    retried = replace(retried, progress={log: span(0, 1)}, origins={log: Offset(0)}, tallies={})
    before = table.commit(state, retried, retain=25)
    state = table.state(CHAIN)
    files = lake.write(state, batch_of(ORDERS, orders({0: (8, 9)})))
    table.commit(state, lake.anchor(state, {0: (2, 9)}, files=files), retain=25)
    lake.roll_back(before)
    compact(lake)

    assert Verdict.UNCERTAIN == verdict(lake, table)


def test_a_chain_whose_rows_cannot_be_read_does_not_hold_up_the_others(lake):
    chains = [Chain(f"shop/lake.b.{name}", "lake.ops.quarantine") for name in "ab"]
    first = [origin(each, {0: 0}) for each in chains]
    table = lake.catalog.create("ops.quarantine", TableDefinition(QUARANTINE), first)
    refuse(lake, table, chains[1])
    compact(lake, "ops.quarantine")
    for task in lake.foreign("ops.quarantine").scan().plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    refuse(lake, table, chains[0])

    assert Verdict.AGREED == table.state(chains[0]).verdict


def test_co_g5_rows_tell_a_compaction_by_partition(lake):
    chains = [Chain(f"shop+{number}", CHAIN.table) for number in range(2)]
    table = lake.create(ledgers=[origin(each, {n: 0}) for n, each in enumerate(chains)])
    for number, each in enumerate(chains):
        state = table.state(each)
        table.commit(state, lake.append(state, {number: (0, 3)}, chain=each), retain=25)
    compact(lake)

    assert [Verdict.AGREED] * 2 == [verdict(lake, table, each) for each in chains]
    assert "all its 3 rows" in table.state(chains[0]).evidence


REBORN = {part(0, "AAAAAAAAAAAAAAAAAAAAAg"): Offset(9)}
OWN = origin(CHAIN, {0: 0, 1: 0})
UNSURE = {
    "another pipeline lands the topic": [OWN, origin(Chain("copy", CHAIN.table), {0: 0})],
    "two topics had the name": [replace(OWN, offsets={**OWN.offsets, **REBORN})],
    "rows were landed again": [replace(OWN, segment=1)],
}


@pytest.mark.parametrize("ledgers", UNSURE.values(), ids=UNSURE)
def test_w2_rows_that_may_be_of_another_commit_are_no_witnesses(lake, ledgers):
    table = lake.create(ledgers=ledgers)
    lake.land(table, {0: (0, 2)})
    compact(lake)

    assert Verdict.UNCERTAIN == verdict(lake, table)


def test_w2_columns_that_distinguish_no_rows_are_no_witnesses(lake):
    texts = Struct(tuple(Field(f.name, Kind.STRING) for f in ORDERS.fields))
    table = lake.create(texts)
    state = table.state(lake.chain)
    rows = [{name: str(value) for name, value in row.items()} for row in orders({0: (0, 2)})]
    files = lake.write(state, batch_of(texts, rows))
    commit = lake.anchor(state, {0: (0, 2)}, files=files)
    table.commit(state, commit, retain=25)
    compact(lake)

    assert Verdict.UNCERTAIN == verdict(lake, table)


def test_f5_a_compacted_quarantine_is_known_by_its_rows(lake):
    chain, other = (Chain(f"shop/lake.b.{name}", "lake.ops.quarantine") for name in "ab")
    first = [origin(each, {0: 0}) for each in (chain, other)]
    table = lake.catalog.create("ops.quarantine", TableDefinition(QUARANTINE), first)
    for each in (chain, other):
        refuse(lake, table, each)
    compact(lake, "ops.quarantine")

    assert [Verdict.AGREED] * 2 == [table.state(each).verdict for each in (chain, other)]


def test_a_rollback_to_before_the_first_own_commit_is_reported(lake):
    table = lake.create()
    lake.foreign_append()
    before = lake.foreign().current_snapshot().snapshot_id
    lake.land(table, {0: (0, 2)})
    lake.roll_back(before)

    assert Verdict.ROLLED_BACK == verdict(lake, table)


def test_fence_and_roll_forward_to_the_tag_make_the_table_whole_again(lake):
    table = lake.create(properties=lake.trimmed_at_once)
    first = lake.land(table, {0: (0, 2)})
    last = lake.land(table, {0: (2, 5)})
    lake.roll_back(first)
    for turn in range(2):
        state = table.state(lake.chain)
        table.commit(state, lake.fence(state, nonce=f"f{turn}"), retain=1)
        assert Verdict.ROLLED_BACK == verdict(lake, table)
    assert last == str(lake.foreign().metadata.refs[tag_of("shop")].snapshot_id)
    lake.roll_forward(last)

    assert Verdict.AGREED == verdict(lake, table)
    lake.land(table, {0: (5, 6)})
    assert list(range(6)) == lake.ids()


def test_a_removed_ledger_with_own_snapshots_is_uncertain_and_names_them(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    lake.remove_properties(ledger_key("shop"))
    state = table.state(lake.chain)

    assert Verdict.UNCERTAIN == state.verdict
    assert "was removed" in state.evidence
    assert positions({0: 2}) == state.landed.offsets


def test_a_removed_ledger_without_own_snapshots_is_absent(lake):
    table = lake.create()
    lake.remove_properties(ledger_key("shop"))

    assert Verdict.ABSENT == verdict(lake, table)


def test_a_removed_newest_property_is_made_again_and_hides_nothing(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})
    lake.remove_properties(newest_key("shop"))
    assert Verdict.AGREED == verdict(lake, table)
    lake.land(table, {0: (2, 4)})
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))

    assert Verdict.AGREED == verdict(lake, table)


def test_a_damaged_ledger_is_refused_by_name(lake):
    table = lake.create()
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({ledger_key("shop"): "{"})

    with pytest.raises(InvalidError) as raised:
        table.state(lake.chain)
    assert "P191" == raised.value.code


@pytest.mark.parametrize("commits", [1, 7, 50])
def test_commits_of_other_writers_between_ours_do_not_matter(lake, commits):
    table = lake.create()
    lake.land(table, {0: (0, 1)})
    for _ in range(commits):
        lake.foreign_append()
    lake.land(table, {0: (1, 2)})

    assert Verdict.AGREED == verdict(lake, table)
    assert [-1] * commits + [0, 1] == lake.ids()


class TestSharedTable:
    """Many chains in one table, as in quarantine: each is decided alone."""

    chains = tuple(Chain(f"shop/lake.b.{name}", "lake.ops.quarantine") for name in "abc")

    def create(self, lake):
        ledgers = [origin(chain, {0: 0}) for chain in self.chains]
        definition = TableDefinition(QUARANTINE, properties=lake.trimmed_at_once)
        return lake.catalog.create("ops.quarantine", definition, ledgers)

    def anchor(self, lake, table, chain, *span, retain=25):
        state = table.state(chain)
        commit = lake.anchor(state, {0: span}, chain=chain)
        return table.commit(state, commit, retain=retain)

    def verdicts(self, table):
        return [table.state(chain).verdict for chain in self.chains]

    def test_trimming_for_a_busy_chain_hides_no_quiet_one(self, lake):
        table = self.create(lake)
        busy, quiet, silent = self.chains
        self.anchor(lake, table, quiet, 0, 5)
        for turn in range(12):
            self.anchor(lake, table, busy, turn, turn + 1, retain=3)

        kept = lake.foreign("ops.quarantine").snapshots()
        assert 4 == len(kept), "three of the pipeline, and the quiet chain's tagged one"
        assert [Verdict.AGREED] * 3 == self.verdicts(table)
        assert positions({0: 5}) == table.state(quiet).landed.offsets
        history = table.history(quiet)
        assert history.complete
        assert [[0, 5]] == [list(c.progress[0][3:]) for c in history.commits]
        assert positions({0: 0}) == table.state(silent).landed.offsets

    def test_a_rollback_is_reported_by_the_chains_it_hit(self, lake):
        table = self.create(lake)
        first, second, third = self.chains
        self.anchor(lake, table, first, 0, 1)
        kept = self.anchor(lake, table, second, 0, 1)
        self.anchor(lake, table, first, 1, 2)
        lake.roll_back(kept, "ops.quarantine")

        assert [Verdict.ROLLED_BACK, Verdict.AGREED, Verdict.AGREED] == self.verdicts(table)
        self.anchor(lake, table, second, 1, 2, retain=1)
        self.anchor(lake, table, third, 0, 1, retain=1)
        assert [Verdict.ROLLED_BACK, Verdict.AGREED, Verdict.AGREED] == self.verdicts(table)

    def test_other_writers_and_expiry_do_not_mix_chains_up(self, lake):
        table = self.create(lake)
        for chain in self.chains[:2]:
            self.anchor(lake, table, chain, 0, 4)
        self.anchor(lake, table, self.chains[0], 4, 6)

        assert [Verdict.AGREED] * 3 == self.verdicts(table)
        assert [positions({0: n}) for n in (6, 4, 0)] == [
            table.state(chain).landed.offsets for chain in self.chains
        ]
