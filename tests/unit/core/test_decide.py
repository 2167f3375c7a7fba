"""`decide` against an independent model over all small histories.

The oracle speaks of sets of offsets, not of positions: a table holds, for each partition it knows,
all offsets below a mark; a commit brings a set of offsets. Rules: protocol.md 4, in their order.
"""

from dataclasses import dataclass, replace
from itertools import product

import pytest

from penstock.core.claims import Claim
from penstock.core.commits import Chain, CommitId, DataFile, Landed, commit_id_of, landed_after
from penstock.core.decide import AlreadyLanded, Commit, Fenced, Gap, Superseded, decide
from penstock.testing.prepared import claim, fence, origin, part, positions, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
STOP_MAX = 3
RANGES = [None, *((a, b) for a in range(STOP_MAX) for b in range(a + 1, STOP_MAX + 1))]
STANDINGS = [None, *range(STOP_MAX + 1)]
OURS, OTHERS = DataFile("ours", 1, 1, {}), DataFile("others", 1, 1, {})


# One decision, over all facts.


def oracle(brought, held, recent, theirs, over):
    """Decide by sets. `held` and `brought` map partitions to sets of offsets; a partition that the
    table does not know is not in `held`. Owners are `<line>/<run>`; ours is m/a, generation 2."""
    if recent is not None:
        return AlreadyLanded(ours=recent == "ours")
    if brought and all(
        at in held and {*range(max(offsets) + 1)} <= held[at] for at, offsets in brought.items()
    ):
        return AlreadyLanded(ours=False)
    later = theirs[0] > 2 or (theirs[0] == 2 and theirs[1] != "m/a")
    foreign = theirs[1].split("/")[0] != "m"
    if later or (foreign and not over):
        return Fenced(by=Claim(*theirs))
    before = {at: {*range(min(offsets))} for at, offsets in brought.items()}
    if all(held.get(at) == before[at] for at in brought):
        return Commit()
    if any(at not in held or before[at] - held[at] for at in brought):
        return Gap()
    return Superseded()


@pytest.mark.parametrize("recent", [None, "ours", "theirs"])
def test_decide_agrees_with_the_oracle_on_all_small_facts(recent):
    owners = [(1, "m/a"), (2, "m/a"), (2, "m/b"), (3, "m/b"), (1, "n/c"), (2, "n/c"), (3, "n/c")]
    checked = 0
    for marks, ranges in product(product(STANDINGS, repeat=2), product(RANGES, repeat=2)):
        commit = commit_of(dict(enumerate(ranges)), OURS)
        held = {n: {*range(mark)} for n, mark in enumerate(marks) if mark is not None}
        brought = {n: {*range(*each)} for n, each in enumerate(ranges) if each is not None}
        for theirs, over in product(owners, [False, True]):
            ledger = ledger_at(marks, commit, recent, theirs)
            expected = oracle(brought, held, recent, theirs, over)
            lines = {"n"} if over else ()
            assert expected == decide(commit, ledger, Claim(2, "m/a"), lines), (ledger, commit)
            checked += 1

    assert len(STANDINGS) ** 2 * len(RANGES) ** 2 * 14 == checked


def commit_of(ranges, file, held=None):
    covered = {n: each for n, each in ranges.items() if each is not None}
    if not covered:
        return fence(CHAIN, uuid="uuid-1", held=held)
    return prepared(CHAIN, covered, files=[file], held=held)


def ledger_at(marks, commit, recent, theirs):
    digest = {"ours": commit.digest, "theirs": "another digest"}.get(recent)
    return Landed(
        chain=CHAIN.name,
        cluster_id="cluster-1",
        generation=theirs[0],
        owner=theirs[1],
        segment=0,
        rules_hash="r",
        offsets=positions({n: mark for n, mark in enumerate(marks) if mark is not None}),
        recent=() if digest is None else ((CommitId("older"), "x"), (commit.commit_id, digest)),
    )


# Histories: every interleaving of up to four prepared commits of two generations.


@dataclass(frozen=True)
class World:
    """A table, what its live commits brought, and what the histories that led here had in them."""

    ledger: Landed
    rows: tuple[tuple[int, int], ...]
    landed: tuple[tuple[CommitId, str], ...]

    @property
    def key(self):
        return (
            self.ledger.generation,
            self.ledger.owner,
            tuple(sorted(self.ledger.offsets.items())),
            frozenset(self.ledger.recent),
            self.rows,
        )


def land(world, commit, current):
    """Decide and act as commit/ does; the commit lands under the claim of its owner."""
    decision = decide(commit, world.ledger, current)
    if not isinstance(decision, Commit):
        return decision, world
    stamped = replace(commit, generation=current.generation, owner=current.owner)
    brought = [
        (at.partition, n) for at, r in commit.progress.items() for n in range(r.start, r.stop)
    ]
    return decision, World(
        landed_after(world.ledger, stamped),
        tuple(sorted([*world.rows, *brought])),
        (*world.landed, (commit.commit_id, commit.digest)),
    )


def test_all_histories_of_four_commits_of_two_generations_keep_the_invariants():
    commits = [
        (commit_of(dict(enumerate(ranges)), file, claim(number)), claim(number))
        for ranges in product(RANGES, repeat=2)
        for number, file in ((1, OURS), (2, OTHERS))
    ]
    worlds = {(w := World(origin(CHAIN, {0: 0, 1: 0}), (), ())).key: w}
    transitions = landings = 0
    for _ in range(4):
        following = {}
        for world, (commit, current) in product(worlds.values(), commits):
            decision, after = land(world, commit, current)
            transitions += 1
            landings += isinstance(decision, Commit)
            check_invariants(world, commit, current, decision, after)
            following.setdefault(after.key, after)
        worlds = following

    assert transitions > 100_000
    assert landings > 1_000


def check_invariants(before, commit, current, decision, after):
    facts = (before.ledger, commit, decision)
    offsets = {at.partition: mark for at, mark in after.ledger.offsets.items()}
    chain = [(n, offset) for n, mark in sorted(offsets.items()) for offset in range(mark)]
    # I1, I2, I3: each offset once, no gaps, and the ledger says exactly what is there.
    assert chain == list(after.rows), facts
    for at, mark in before.ledger.offsets.items():
        assert mark <= after.ledger.offsets[at], facts
    # I4: an older generation lands nothing after a newer one.
    if isinstance(decision, Commit):
        assert before.ledger.generation <= current.generation, facts
    # I5: one id for one range, whichever owner prepared it, and a second landing is recognised.
    if isinstance(decision, Commit):
        assert AlreadyLanded(ours=True) == decide(commit, after.ledger, current), facts
    if commit.progress and (commit.commit_id, commit.digest) in before.landed:
        assert AlreadyLanded(ours=True) == decision, facts
    # Whatever is refused changes nothing.
    if not isinstance(decision, Commit):
        assert before is after, facts


def test_of_the_model_a_planted_fault_is_found():
    """The checker counts only if it finds one: landing without deciding doubles rows."""
    commit, current = commit_of({0: (0, 2), 1: None}, OURS), claim()
    _, world = land(World(origin(CHAIN, {0: 0, 1: 0}), (), ()), commit, current)
    doubled = replace(world, rows=tuple(sorted([*world.rows, (0, 1)])))
    with pytest.raises(AssertionError):
        check_invariants(world, commit, current, Commit(), doubled)


# Single rules, as stories.


def test_a_fence_of_a_newer_owner_stops_an_older_one():
    newer = fence(CHAIN, uuid="uuid-1", held=claim(2))
    ledger = landed_after(origin(CHAIN, {0: 0}), newer)

    assert Fenced(by=claim(2)) == decide(prepared(CHAIN, {0: (0, 1)}), ledger, claim(1))


def test_an_owner_of_another_line_stops_us_whatever_its_number():
    ledger = landed_after(origin(CHAIN, {0: 0}), fence(CHAIN, uuid="u", held=claim(2, "n/c")))
    commit, ours = prepared(CHAIN, {0: (0, 1)}), claim(5, "m/a")

    assert Fenced(by=claim(2, "n/c")) == decide(commit, ledger, ours)
    assert Fenced(by=claim(2, "n/c")) == decide(commit, ledger, ours, {"l"})
    assert Commit() == decide(commit, ledger, ours, {"n"})


def test_an_owner_that_a_ledger_forgot_is_of_any_line():
    ledger = replace(origin(CHAIN, {0: 0}), generation=2, owner="")

    assert Commit() == decide(prepared(CHAIN, {0: (0, 1)}), ledger, claim(2, "m/a"))
    assert Fenced(by=Claim(2, "")) == decide(prepared(CHAIN, {0: (0, 1)}), ledger, claim(1, "m/a"))


def test_our_own_commit_is_recognised_although_a_newer_owner_landed_after_it():
    commit = prepared(CHAIN, {0: (0, 2)}, files=[OURS])
    ledger = landed_after(origin(CHAIN, {0: 0}), commit)
    ledger = landed_after(ledger, prepared(CHAIN, {0: (2, 3)}, held=claim(2)))

    assert AlreadyLanded(ours=True) == decide(commit, ledger, claim(1))


def test_an_anchor_without_ranges_commits_by_its_id_alone():
    anchor = prepared(CHAIN, {}, origins={0: 7}, nonce="n")
    ledger = origin(CHAIN, {})

    assert Commit() == decide(anchor, ledger, claim())
    assert AlreadyLanded(ours=True) == decide(anchor, landed_after(ledger, anchor), claim())


def test_a_gap_outweighs_an_overlap():
    commit = prepared(CHAIN, {0: (2, 3), 1: (0, 2)})

    assert Gap() == decide(commit, origin(CHAIN, {0: 1, 1: 1}), claim())


def test_a_partition_the_table_does_not_know_is_a_gap():
    assert Gap() == decide(prepared(CHAIN, {5: (0, 1)}), origin(CHAIN, {0: 0}), claim())


def test_a_topic_made_again_is_another_partition():
    commit = prepared(CHAIN, {0: (3, 5)})
    ledger = replace(origin(CHAIN, {}), offsets={part(0, "another-topic-id"): 3})

    assert Gap() == decide(commit, ledger, claim())


def test_commit_ids_are_the_same_for_every_owner_that_prepares():
    first = commit_id_of(CHAIN, "u", 0, prepared(CHAIN, {0: (0, 2), 1: (3, 4)}).progress)
    second = commit_id_of(
        CHAIN, "u", 0, prepared(CHAIN, {1: (3, 4), 0: (0, 2)}, held=claim(9)).progress
    )

    assert first == second
