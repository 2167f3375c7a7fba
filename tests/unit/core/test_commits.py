import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import errors
from penstock.core.commits import (
    RECENT_COMMITS_MAX,
    Chain,
    CommitKind,
    DataFile,
    Keyed,
    Landed,
    commit_id_of,
    digest_of,
    landed_after,
    position,
)
from penstock.core.offsets import TopicPartition, span
from penstock.core.resolutions import resolutions_of
from penstock.testing.prepared import (
    CLUSTER,
    claim,
    fence,
    ledger_after,
    origin,
    part,
    positions,
    prepared,
    progress,
)

CHAIN = Chain("shop", "lake.bronze.orders")
FILES = [DataFile(name, 1, 10, {}) for name in ("b", "a", "c")]

ranges = st.dictionaries(
    st.integers(0, 4).map(part),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: span(pair[0], sum(pair))),
    max_size=4,
)
identities = st.tuples(
    st.sampled_from(["shop", "bank", "shop/a"]),
    st.sampled_from(["u1", "u2"]),
    st.integers(0, 2),
    ranges,
)


def id_of(name, uuid, segment, covered, nonce=""):
    return commit_id_of(Chain(name, "t"), uuid, segment, covered, nonce=nonce)


@given(identities, identities)
def test_commit_ids_are_equal_exactly_when_what_they_cover_is(left, right):
    covers = [
        (*each[:3], {at: r for at, r in each[3].items() if r.count}) for each in (left, right)
    ]

    assert (covers[0] == covers[1]) == (id_of(*left) == id_of(*right))


@given(identities)
def test_a_commit_id_does_not_depend_on_order_or_on_a_topics_name(identity):
    *rest, covered = identity
    renamed = {
        TopicPartition(at.topic_id, at.partition, "renamed"): r
        for at, r in reversed(list(covered.items()))
    }

    assert id_of(*identity) == id_of(*rest, renamed)


def test_a_commit_id_is_as_the_tables_have_it():
    """Ids are kept in tables: the hash may never change (I5)."""
    assert "b1aed035447e01c7b94a5c9199028d42" == id_of("shop", "u", 0, progress({0: (0, 3)}))


def test_a_nonce_distinguishes_fences():
    assert id_of("shop", "u", 0, {}, "a") != id_of("shop", "u", 0, {}, "b")


def test_a_digest_does_not_depend_on_the_order_of_files():
    assert digest_of(FILES) == digest_of(FILES[::-1])
    assert digest_of(FILES) != digest_of(FILES[:2])


def test_empty_ranges_claim_nothing_and_are_refused():
    with pytest.raises(AssertionError, match="empty ranges"):
        prepared(CHAIN, {0: (3, 3)})


def test_a_fence_has_no_progress():
    with pytest.raises(AssertionError, match="fence"):
        prepared(CHAIN, {0: (0, 3)}, kind=CommitKind.FENCE)


def test_the_ledger_after_a_commit_says_which_claim_landed_what():
    commit = prepared(
        CHAIN,
        {0: (5, 8)},
        files=FILES,
        held=claim(3, "b"),
        valid_through_ms=9,
        origins={0: 1, 2: 7},
    )

    assert Landed(
        chain="shop",
        cluster_id=CLUSTER,
        generation=3,
        owner="b",
        segment=0,
        rules_hash="rules-1",
        offsets=positions({0: 8, 1: 4, 2: 7}),
        recent=((commit.commit_id, commit.digest),),
        valid_through_ms=9,
    ) == landed_after(origin(CHAIN, {0: 5, 1: 4}), commit)


def test_a_commit_that_does_not_continue_the_ledger_is_a_bug():
    with pytest.raises(AssertionError):
        landed_after(origin(CHAIN, {0: 5}), prepared(CHAIN, {0: (6, 7)}))


def test_valid_through_never_moves_backwards():
    first = origin(CHAIN, {0: 0})
    commits = [
        prepared(CHAIN, {0: (n, n + 1)}, valid_through_ms=ms)
        for n, ms in enumerate([5, None, 3, 8])
    ]

    assert [5, 5, 5, 8] == [
        ledger_after(first, *commits[: n + 1]).valid_through_ms for n in range(4)
    ]


def test_a_position_that_is_not_known_is_before_all_others():
    assert (-1, 7) == (position({}, part(0)), position(positions({0: 7}), part(0)))


def test_only_the_newest_commits_are_remembered():
    assert 64 == RECENT_COMMITS_MAX  # protocol.md 3
    fences = [fence(CHAIN, uuid="u", nonce=str(n)) for n in range(RECENT_COMMITS_MAX + 5)]
    ledger = ledger_after(origin(CHAIN, {}), *fences)

    assert [each.commit_id for each in fences[5:]] == [found for found, _ in ledger.recent]
    assert ledger.digest_of(fences[0].commit_id) is None
    assert fences[-1].digest == ledger.digest_of(fences[-1].commit_id)


def test_files_of_commits_are_listed_in_order():
    commits = [prepared(CHAIN, {0: (n, n + 1)}, files=[FILES[n]]) for n in range(3)]

    assert ["b", "a", "c"] == [file.path for commit in commits for file in commit.files]
    assert [1, 1, 1] == [commit.rows for commit in commits]


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (errors.InvalidError, 2),
        (errors.FencedError, 3),
        (errors.DecisionNeededError, 4),
        (errors.BugError, 70),
        (errors.UnavailableError, 75),
    ],
)
def test_errors_have_their_exit_code_and_cross_processes_whole(kind, exit_code):
    error = pickle.loads(pickle.dumps(kind("a fact", code="P999", hint="do this")))

    assert (kind, exit_code, "a fact", "P999", "do this") == (
        type(error),
        error.exit_code,
        str(error),
        error.code,
        error.hint,
    )


def test_a_seek_forgets_the_leader_epochs_of_what_it_moves_and_of_nothing_else():
    """They are those of the records before a position: after another one they would be false."""
    landed = replace(origin(CHAIN, {0: 9, 1: 4}), leader_epochs={part(0): 3, part(1): 5})
    seek = replace(prepared(CHAIN, {}, kind=CommitKind.SEEK), segment=1, origins={part(0): 2})

    after = landed_after(landed, seek)

    assert {part(0): 2, part(1): 4} == after.offsets
    assert {part(1): 5} == after.leader_epochs
    assert (1, 1) == (after.segment, len(after.recent))


def test_what_a_keyed_chain_reads_again_after_a_seek_are_changes():
    keyed = Keyed(("id",), compares_offsets=True, since={part(0): 4, part(1): 3})
    landed = replace(origin(CHAIN, {0: 9, 1: 4}), keyed=keyed)
    seek = replace(prepared(CHAIN, {}, kind=CommitKind.SEEK), segment=1, origins={part(0): 0})

    after = landed_after(landed, seek).keyed

    assert (
        Keyed(("id",), False, since={part(0): 0, part(1): 3}, compares_from={part(0): 9}) == after
    )


def test_offsets_are_compared_again_where_all_was_applied_again():
    keyed = Keyed(("id",), compares_offsets=True)
    landed = replace(origin(CHAIN, {0: 9, 1: 4}), keyed=keyed)
    back = {part(0): 0, part(1): 2}
    seek = replace(prepared(CHAIN, {}, kind=CommitKind.SEEK), segment=1, origins=back)
    landed = landed_after(landed, seek)
    further = replace(seek, origins={part(0): 0, part(1): 1})
    landed = landed_after(landed, further)
    assert {part(0): 9, part(1): 4} == landed.keyed.compares_from

    landed = landed_after(landed, prepared(CHAIN, {0: (0, 12), 1: (1, 3)}))
    assert not landed.keyed.compares_offsets
    assert keyed == landed_after(landed, prepared(CHAIN, {1: (3, 4)})).keyed


def test_offsets_that_were_never_compared_are_not_after_a_seek():
    landed = replace(origin(CHAIN, {0: 9}), keyed=Keyed(("id",), compares_offsets=False))
    seek = replace(prepared(CHAIN, {}, kind=CommitKind.SEEK), segment=1, origins={part(0): 0})
    landed = landed_after(landed, seek)

    assert landed.keyed == landed_after(landed, prepared(CHAIN, {0: (0, 12)})).keyed


def test_an_epoch_that_is_not_known_after_new_progress_is_forgotten():
    """The old one ended before the position: a broker would answer as if the log had been cut."""
    known = {part(0): 3, part(1): 5, part(2): 6}
    landed = replace(origin(CHAIN, {0: 9, 1: 4, 2: 1}), leader_epochs=known)
    commit = prepared(CHAIN, {0: (9, 12), 1: (4, 6)})
    commit = replace(commit, leader_epochs={part(1): 7})

    assert {part(1): 7, part(2): 6} == landed_after(landed, commit).leader_epochs


def test_ids_and_digests_are_as_the_tables_have_them():
    """They are kept in ledgers: another form would not recognise what has landed."""
    assert ("closings/t", 0) == (resolutions_of("t").topic_id, resolutions_of("t").partition)
    assert "ea7fb08b7a2dc461" == digest_of(FILES)
    assert "654db26558caba6b27e087938a66e76e" == commit_id_of(
        CHAIN, "u1", 0, {part(0): span(0, 3)}, nonce="n"
    )


def test_what_is_no_kind_of_its_own_counts_as_our_bug():
    assert 70 == errors.PenstockError("a fact", code="P999").exit_code
