"""The table of protocol.md 3 for Delta, row by row, on plain facts."""

from dataclasses import replace

import pytest

from penstock.connectors.delta.log.ledger import (
    app_id,
    commit_info,
    landed_from,
    mark_of_commit,
    mark_of_creation,
    transactions_of,
)
from penstock.connectors.delta.log.reader import Entry, parsed
from penstock.connectors.delta.log.summary import past_of, rollback_in
from penstock.connectors.delta.log.witnesses import Facts, check_witnesses
from penstock.core.commits import Chain, CommitKind, Keyed, landed_after
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, TopicPartition
from penstock.ports.tables import Verdict
from penstock.testing.prepared import claim, origin, prepared

CHAIN = Chain("shop", "delta.bronze.orders")
FIRST = origin(CHAIN, {0: 0, 1: 9})
COMMIT = prepared(CHAIN, {0: (0, 5)}, held=claim(4, "me"), valid_through_ms=77)
LANDED = landed_after(FIRST, COMMIT)
OWN = Entry(3, 1, "WRITE", {}, 0, {}, (mark_of_commit(COMMIT, LANDED, 3, ""),))
APPEND = Entry(4, 1, "WRITE", {"mode": "Append"}, 0, {})


def transactions():
    return transactions_of(FIRST, None, 0) | transactions_of(LANDED, FIRST, 3, ["a.parquet"])


def facts(*entries, **given):
    known = {
        "chain": CHAIN.name,
        "generation": 4,
        "sequence": 3,
        "rolled_back": None,
        "past": past_of(given.get("sequence", 3), entries),
        "transactions": transactions,
        "file_is_live": lambda: False,
    }
    return Facts(**{**known, **given})


def entry(operation, removed=0, **parameters):
    return Entry(4, 1, operation, parameters, removed, {})


def verdict(*entries, **given):
    return check_witnesses(facts(*entries, **given)).verdict


def test_both_witnesses_agree():
    found = check_witnesses(facts(OWN, APPEND))

    assert (Verdict.AGREED, LANDED) == (found.verdict, found.landed)
    assert "version 3 and the transactions agree" == found.evidence


def test_commit_info_and_transactions_that_differ_are_uncertain():
    assert Verdict.UNCERTAIN == verdict(OWN, generation=5)
    assert Verdict.UNCERTAIN == verdict(APPEND, OWN, sequence=2)
    assert Verdict.UNCERTAIN == verdict(APPEND)


def test_torn_transactions_are_uncertain_without_a_ledger():
    found = check_witnesses(facts(None, transactions=dict))

    assert (Verdict.UNCERTAIN, None) == (found.verdict, found.landed)


def test_only_our_entry_missing_leaves_the_transactions_to_decide():
    found = check_witnesses(facts(None, APPEND))

    assert Verdict.AGREED == found.verdict
    assert replace(LANDED, owner="", recent=()) == found.landed


@pytest.mark.parametrize(
    ("live", "expected"),
    [(True, Verdict.AGREED), (False, Verdict.UNCERTAIN), (None, Verdict.AGREED)],
)
def test_where_more_is_missing_the_newest_file_decides(live, expected):
    assert expected == verdict(None, None, APPEND, file_is_live=lambda: live)
    assert expected == verdict(OWN, None, APPEND, file_is_live=lambda: live)


def test_a_rollback_is_seen_also_between_examination_and_our_commit():
    restored, late = entry("RESTORE"), replace(OWN, version=5)

    assert Verdict.ROLLED_BACK == verdict(OWN, restored)
    assert Verdict.ROLLED_BACK == verdict(restored, late)
    assert Verdict.ROLLED_BACK == verdict(None, restored)


def test_a_reported_rollback_stays():
    mark = mark_of_commit(COMMIT, LANDED, 3, "version 2 is a RESTORE")

    assert Verdict.ROLLED_BACK == verdict(replace(OWN, marks=(mark,)))
    assert Verdict.ROLLED_BACK == verdict(None, rolled_back=3)
    assert Verdict.AGREED == verdict(None, rolled_back=2)


@pytest.mark.parametrize(
    ("found", "act"),
    [
        (entry("RESTORE"), "a RESTORE"),
        (entry("WRITE", mode="Overwrite"), "an overwrite (WRITE)"),
        (entry("STREAMING UPDATE", outputMode="Complete"), "an overwrite (STREAMING UPDATE)"),
        (entry("CREATE OR REPLACE TABLE AS SELECT"), "a CREATE OR REPLACE TABLE AS SELECT"),
        (entry("REPLACE TABLE"), "a REPLACE TABLE"),
        (entry("TRUNCATE", 3), "a TRUNCATE"),
        (entry("CLONE"), "a CLONE"),
        (entry("DELETE", 2), "a DELETE of all rows"),
        (entry("DELETE", 2, predicate='["true"]'), "a DELETE of all rows"),
        (entry("", 2), "a removal of 2 files by an unnamed operation"),
        (entry("SOMETHING NEW", 1), "a removal of 1 files by SOMETHING NEW"),
        (entry("DELETE", 2, predicate="id = 3"), ""),
        (entry("DELETE", predicate=""), ""),
        (entry("UPDATE", 1), ""),
        (entry("MERGE", 1), ""),
        (entry("OPTIMIZE"), ""),
        (entry("REPLACE COLUMNS"), ""),
        (entry("VACUUM END"), ""),
        (entry("SET TBLPROPERTIES"), ""),
        (entry("WRITE", mode="Append"), ""),
        (entry("CREATE TABLE", mode="Overwrite"), ""),
    ],
)
def test_acts_of_others_are_distinguished(found, act):
    assert act == rollback_in(found)


def test_the_transactions_alone_give_everything_but_owner_and_recent_commits():
    assert replace(LANDED, owner="", recent=()) == landed_from("shop", transactions())


def test_a_new_segment_brings_all_its_offsets_and_wins():
    other = replace(LANDED, segment=1, cluster_id="c2", rules_hash="r2")
    moved = transactions() | transactions_of(other, LANDED, 8)

    assert replace(other, owner="", recent=()) == landed_from("shop", moved)


def test_rules_that_come_back_are_the_newest():
    back = replace(LANDED, rules_hash="r2")
    moved = transactions() | transactions_of(back, LANDED, 8) | transactions_of(LANDED, back, 9)

    assert "rules-1" == landed_from("shop", moved).rules_hash


def test_ids_of_chains_never_begin_each_other():
    hostile = TopicPartition("a/b 0", 3, "t")
    names = ("shop", "shop/lake.b.a", "shop/0/x", "shop/*", "shöp")
    chains = [replace(FIRST, chain=n, offsets={hostile: Offset(i)}) for i, n in enumerate(names)]
    together: dict[str, int] = {}
    for each in chains:
        together |= transactions_of(each, None, 0)

    assert [replace(each, owner="") for each in chains] == [
        landed_from(name, together) for name in names
    ]
    assert "penstock/shop%2Flake.b.a/0/AAA/3" == app_id("shop/lake.b.a", "0", "AAA", "3")


@pytest.mark.parametrize("action", ["protocol", "metaData"])
def test_an_entry_says_whether_it_may_change_the_table(action):
    added = b'{"add":{"path":"x"}}\n'

    assert not parsed(1, added).reshapes
    assert parsed(1, added + f'{{"{action}":{{}}}}\n'.encode()).reshapes


def test_entries_of_others_may_leave_everything_out():
    assert Entry(1, 0, "", {}, 0, {}) == parsed(1, b'{"cdc":{}}\n{"add":{"path":"x"}}\n\n')
    assert 1 == parsed(1, b'{"remove":{"path":"x","dataChange":true}}').removed
    assert 0 == parsed(1, b'{"remove":{"path":"x","dataChange":false}}').removed
    assert {"a": 7} == parsed(1, b'{"txn":{"appId":"a","version":7}}').transactions
    assert () == parsed(1, b'{"commitInfo":{"penstock":"odd"}}').marks
    assert () == parsed(1, b'{"commitInfo":{"penstock":{"chains":[1]}}}').marks


def test_a_creation_reports_each_ledger():
    info = commit_info([mark_of_creation(FIRST)])["penstock"]

    assert "created" == info["chains"][0]["kind"]
    assert 1 == info["v"]


KEYED = replace(FIRST, keyed=Keyed(("id", "a/b é"), compares_offsets=False))


def test_the_transactions_alone_say_by_which_keys_rows_are_changed():
    created = transactions_of(KEYED, None, 0)
    moved = landed_after(KEYED, COMMIT)
    later = transactions_of(moved, KEYED, 3)

    assert replace(KEYED, owner="") == by_ids(landed_from(CHAIN.name, created))
    assert not [name for name in later if "keyed" in name]
    assert KEYED.keyed == landed_from(CHAIN.name, created | later).keyed
    assert landed_from(CHAIN.name, transactions()).keyed is None


def test_a_chain_that_becomes_keyed_says_so_with_its_first_row_delta():
    delta = replace(COMMIT, kind=CommitKind.ROW_DELTA, keys=("id",), compares_offsets=True)
    keyed = landed_after(FIRST, delta)
    found = transactions_of(FIRST, None, 0) | transactions_of(keyed, FIRST, 3)

    since = {at: offset for at, offset in FIRST.offsets.items() if offset}
    assert since
    restored = landed_from(CHAIN.name, found).keyed
    assert Keyed(("id",), compares_offsets=True, since=since) == restored
    assert not [name for name in transactions_of(keyed, keyed, 4) if "since" in name]

    origins = dict.fromkeys(since, 0)
    seek = replace(COMMIT, kind=CommitKind.SEEK, progress={}, segment=1, origins=origins)
    back = landed_after(keyed, seek)
    found |= transactions_of(back, keyed, 5)
    assert replace(back.keyed, since=origins) == landed_from(CHAIN.name, found).keyed


def test_the_transactions_alone_say_where_topics_grew():
    ends = [dict(FIRST.offsets), {**FIRST.offsets, TopicPartition("id-new", 7, "new"): Offset(0)}]
    once, twice = replace(KEYED, grown=(ends[0],)), replace(KEYED, grown=tuple(ends))
    created, later = transactions_of(once, None, 0), transactions_of(twice, once, 3)

    assert list(twice.grown) == list(landed_from(CHAIN.name, created | later).grown)
    assert list(once.grown) == list(landed_from(CHAIN.name, created).grown)
    assert not [name for name in transactions_of(twice, twice, 4) if "grown" in name]


def test_keys_that_were_damaged_in_the_transactions_are_refused():
    """Without its keys the chain would pass for one that appends."""
    damaged = transactions() | {app_id(CHAIN.name, "keyed", "{}"): 3}
    with pytest.raises(InvalidError) as refused:
        check_witnesses(facts(None, transactions=lambda: damaged))

    assert "P191" == refused.value.code


def test_a_ledger_of_a_newer_release_is_refused_and_not_taken_from_the_transactions():
    mark = mark_of_commit(COMMIT, LANDED, 3, "")
    newer = {**mark, "ledger": {**mark["ledger"], "v": 99}}
    with pytest.raises(InvalidError, match="version 99") as refused:
        check_witnesses(facts(replace(OWN, marks=(newer,))))

    assert "P190" == refused.value.code


def by_ids(landed):
    """Return a ledger whose topics go by their names again, as transactions have ids alone."""
    names = {(at.topic_id, at.partition): at for at in KEYED.offsets}
    offsets = {names[at.topic_id, at.partition]: n for at, n in landed.offsets.items()}
    return replace(landed, offsets=offsets)
