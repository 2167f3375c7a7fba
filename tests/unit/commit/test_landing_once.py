"""One commit against one table in memory: every end that landing can come to."""

from dataclasses import replace

import pytest
from tests.story.clock import ManualClock
from tests.story.faulty_catalog import Fault, FaultPlan, FaultyTables
from tests.story.foreign_acts import PlayedWarehouse
from tests.story.observer import RecordingObserver

from penstock.commit.attempt import CommitContext
from penstock.commit.creation import begin, create
from penstock.commit.errors import rolled_back
from penstock.commit.evolution import evolve
from penstock.commit.fence import fence, fence_rollback
from penstock.commit.land import land
from penstock.commit.manual import land_manual
from penstock.commit.two_phase import TwoPhase
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.claims import Generation
from penstock.core.commits import Chain, CommitKind
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import (
    ConflictError,
    DecisionNeededError,
    FencedError,
    InvalidError,
    UnavailableError,
)
from penstock.core.events import (
    CommitAborted,
    CommitFoundLanded,
    GapFound,
    HousekeepingFailed,
    TableCommitted,
    TableCreated,
)
from penstock.core.schema import Field, Kind
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue
from penstock.landing.settings import ThreadPoolCommits
from penstock.ports.store import Owner
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import (
    ORDERS,
    QUARANTINE,
    claim,
    orders,
    origin,
    positions,
    prepared,
    progress,
    rejects,
)

OWN = Chain("shop", "lake.bronze.orders")
REJECTS = Chain("shop/lake.bronze.orders", "lake.ops.quarantine")
NAME, QUARANTINE_NAME = "bronze.orders", "ops.quarantine"


def claimed(store, number, name=""):
    """Claim the pipeline for one owner after the other."""
    owner = Owner(name or f"owner-{number}", "here", number)
    takeover = number > 1
    return store.claim(
        "shop", owner, above=Generation(0), now_ms=0, alive_until_ms=1, takeover=takeover
    )


class CommitFixture:
    def __init__(self):
        self.warehouse = PlayedWarehouse()
        self.plan = FaultPlan()
        plain = MemoryTables(self.warehouse)
        self.open_writer = plain.open_writer
        tables = FaultyTables(plain, self.plan)
        self.table = tables.create(NAME, TableDefinition(ORDERS), [origin(OWN, {0: 0})])
        self.quarantine = tables.create(
            QUARANTINE_NAME, TableDefinition(QUARANTINE), [origin(REJECTS, {0: 0})]
        )
        self.observer = RecordingObserver()
        self.clock = ManualClock()
        self.store = MemoryStore()
        held = claimed(self.store, 1)
        self.conditions = CommitContext(held, self.observer, self.clock, lambda: 0.5, 25)
        self.two_phase = TwoPhase("shop", self.store, self.conditions)

    def prepare(self, start, stop, **given):
        rows = orders({0: (start, stop)})
        return self._prepare(OWN, self.table, rows, start, stop, **given)

    def refuse(self, start, stop):
        rows = rejects(REJECTS, [(0, offset) for offset in range(start, stop)])
        return self._prepare(REJECTS, self.quarantine, rows, start, stop)

    def _prepare(self, chain, table, rows, start, stop, **given):
        state = table.state(chain)
        writer = self.open_writer(state.target, prefix="w", observer=Quiet())
        writer.write(batch_of(state.schema, rows))
        return prepared(
            chain,
            {0: (start, stop)},
            files=writer.close(),
            uuid=state.uuid,
            schema_id=state.schema_id,
            **given,
        )

    def keep(self, *commits):
        self.store.prepare("shop", self.conditions.claim, commits, {})
        tables = {OWN: self.table, REJECTS: self.quarantine}
        return [(each, tables[each.chain]) for each in commits]

    def offsets(self):
        return [self.warehouse.rows(NAME)[n]["_kafka_offset"] for n in range(self.rows())]

    def rows(self):
        return len(self.warehouse.rows(NAME))


def wider(state):
    return replace(state.schema, fields=(*state.schema.fields, Field("more", Kind.LONG)))


@pytest.fixture
def bench():
    return CommitFixture()


def test_a_commit_lands_and_says_so_once(bench):
    landing = land(bench.prepare(0, 3), bench.table, bench.conditions)

    assert landing.landed
    assert [0, 1, 2] == bench.offsets()
    assert 1 == len(bench.observer.of(TableCommitted))


def test_a_table_that_always_moves_is_given_up_for_now_after_a_limit(bench):
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 1000)

    with pytest.raises(UnavailableError, match="40 attempts") as caught:
        land(bench.prepare(0, 3), bench.table, bench.conditions)
    assert "P450" == caught.value.code
    assert 40 == len(bench.clock.waits)
    assert max(bench.clock.waits) <= 1.5 * bench.conditions.back_off_seconds_max


def test_back_off_is_as_long_as_a_turn_and_doubles_from_the_sixth_on(bench, monkeypatch):
    """A turn is a read and an attempt: here 0.1 s and 0.2 s. The jitter is in the middle."""
    slow(monkeypatch, bench, state=0.1, commit=0.2)
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 12)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    wanted = [0.3] * 5 + [0.6, 1.2] + [2.0] * 5
    assert wanted == pytest.approx(bench.clock.waits)


def test_back_off_of_attempts_that_take_no_time_is_short_and_not_nothing(bench):
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 7)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    assert [0.02] * 5 + [0.04, 0.08] == pytest.approx(bench.clock.waits)


@pytest.mark.parametrize(("drawn", "factor"), [(0.0, 0.5), (0.25, 0.75), (1.0, 1.5)])
def test_back_off_is_spread_from_half_a_turn_to_one_and_a_half(bench, monkeypatch, drawn, factor):
    slow(monkeypatch, bench, commit=0.2)
    bench.conditions = replace(bench.conditions, jitter=lambda: drawn)
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 2)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    assert [0.2 * factor] * 2 == pytest.approx(bench.clock.waits)


def test_a_loser_waits_no_longer_for_the_turns_of_others_than_for_its_own(bench, monkeypatch):
    """One that lost five times in a row waits no longer than one that begins: that one starved."""
    slow(monkeypatch, bench, commit=0.2)
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 5)
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    assert 0.2 == pytest.approx(max(bench.clock.waits))


def slow(monkeypatch, bench, **seconds):
    """Let acts of the table take time by the bench's clock."""
    for act, taken in seconds.items():
        whole = getattr(bench.table, act)

        def slowly(*given, whole=whole, taken=taken, **named):
            bench.clock.advance(taken)
            return whole(*given, **named)

        monkeypatch.setattr(bench.table, act, slowly, raising=True)


def test_a_gap_is_aborted_and_an_overlap_too(bench):
    assert not land(bench.prepare(2, 5), bench.table, bench.conditions).landed
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    assert not land(bench.prepare(2, 5), bench.table, bench.conditions).landed

    assert 3 == bench.rows()
    assert 2 == len(bench.observer.of(CommitAborted))
    assert 1 == len(bench.observer.of(GapFound))


def test_the_same_ranges_with_other_files_are_not_ours(bench):
    first, second = bench.prepare(0, 3), bench.prepare(0, 3, attempt="a2")
    assert land(first, bench.table, bench.conditions).landed
    landing = land(second, bench.table, bench.conditions)

    assert not landing.landed
    assert "other files" in landing.reason
    assert 3 == bench.rows()


def test_an_attempt_in_doubt_is_not_taken_for_what_another_landed_meanwhile(bench):
    other, plain = bench.prepare(0, 3, attempt="a2"), MemoryTables(bench.warehouse).load(NAME)
    bench.plan.queue(NAME, Fault.LOSE_REQUEST)
    bench.plan.before_commit(NAME, lambda: plain.commit(plain.state(OWN), other, retain=25))

    assert not land(bench.prepare(0, 3), bench.table, bench.conditions).landed
    assert [] == bench.observer.of(TableCommitted)
    assert 3 == bench.rows()


def seek(bench):
    state = bench.table.state(OWN)
    held = bench.conditions.claim
    given = {"kind": CommitKind.SEEK, "uuid": state.uuid, "schema_id": state.schema_id}
    put_back = prepared(OWN, {}, origins={0: 0}, nonce="seek", held=held, **given)
    return replace(put_back, segment=1), state


@pytest.mark.parametrize("fault", [None, Fault.LOSE_ANSWER])
def test_what_landed_by_hand_is_reported_with_its_snapshot_and_seconds(bench, fault):
    commit, state = seek(bench)
    plain = MemoryTables(bench.warehouse).load(NAME)
    if fault:
        bench.plan.queue(NAME, fault)
    bench.clock.advance(100)
    land_manual(commit, state, bench.table, bench.conditions)

    (event,) = bench.observer.of(TableCommitted)
    assert plain.state(OWN).head == event.snapshot
    assert sum(bench.clock.waits) == pytest.approx(event.seconds)


def test_a_commit_by_hand_is_reported_with_its_own_snapshot_when_another_writes_after_it(bench):
    commit, state = seek(bench)
    heads = []

    class OtherWriter(RecordingObserver):
        def passed(self, point):
            if point is CrashPoint.COMMIT_AFTER:
                heads.append(bench.table.state(OWN).head)
                bench.warehouse.foreign_append(NAME, [{each.name: None for each in ORDERS.fields}])

    observer = OtherWriter()
    land_manual(commit, state, bench.table, replace(bench.conditions, observer=observer))

    assert heads == [each.snapshot for each in observer.of(TableCommitted)]


def test_a_newer_owner_fences(bench):
    newer = replace(bench.conditions, claim=claim(7, "owner-7"))
    land(bench.prepare(0, 3), bench.table, newer)

    with pytest.raises(FencedError, match="generation 7") as raised:
        land(bench.prepare(3, 5), bench.table, bench.conditions)
    assert newer.claim == raised.value.by


def test_another_cluster_stops(bench):
    other = replace(bench.prepare(0, 3), cluster_id="cluster-2")

    with pytest.raises(DecisionNeededError) as caught:
        land(other, bench.table, bench.conditions)
    assert "P454" == caught.value.code


def test_a_table_that_lost_its_ledger_stops(bench):
    foreign = Chain("another", OWN.table)
    commit = replace(bench.prepare(0, 3), chain=foreign)

    with pytest.raises(DecisionNeededError) as caught:
        land(commit, bench.table, bench.conditions)
    assert "P453" == caught.value.code


def test_what_follows_a_quarantine_commit_that_does_not_land_waits_for_recovery(bench):
    work = bench.keep(bench.refuse(2, 3), bench.prepare(0, 3))  # the quarantine is at 0

    landings = bench.two_phase.settle(work)

    assert [False] == [each.landed for each in landings]
    assert 2 == len(bench.store.pending("shop"))
    assert 0 == bench.rows()


def test_recovery_drops_what_follows_before_the_quarantine_commit_itself(bench):
    work = bench.keep(bench.refuse(2, 3), bench.prepare(0, 3), bench.prepare(3, 5))
    settled = []
    settle = bench.store.settle

    def noting(pipeline, held, commit, *, landed, reason):
        settled.append((commit.chain.is_quarantine, landed))
        settle(pipeline, held, commit, landed=landed, reason=reason)

    bench.store.settle = noting
    landings = bench.two_phase.recover(work)

    assert [False] * 3 == [each.landed for each in landings]
    assert [(False, False), (False, False), (True, False)] == settled
    assert [] == bench.store.pending("shop")
    assert 0 == bench.rows()
    assert 1 == bench.observer.passings(CrashPoint.FENCE_AFTER)


def test_a_quarantine_commit_after_one_that_does_not_land_is_decided_on_its_own(bench):
    """A quarantine is of many partitions: what cannot land of one says nothing of the other."""
    begun = {"progress": progress({1: (0, 1)}), "origins": positions({1: 0})}
    work = bench.keep(bench.refuse(2, 3), replace(bench.refuse(0, 1), **begun))

    assert [False, True] == [each.landed for each in bench.two_phase.recover(work)]


def test_an_attempt_that_was_faster_than_the_fence_is_found_landed(bench):
    commit = bench.prepare(0, 3)
    work = bench.keep(commit)
    state = bench.table.state(OWN)
    bench.warehouse.remove_file(commit.files[0].path)
    bench.plan.before_commit(NAME, lambda: bench.table.commit(state, commit, retain=25))

    (landing,) = bench.two_phase.recover(work)

    assert landing.landed
    assert {0: 3} == {at.partition: o for at, o in bench.table.state(OWN).landed.offsets.items()}


def test_recovery_lands_what_can_land_and_decides_on_each_on_its_own(bench):
    work = bench.keep(bench.prepare(0, 3), bench.prepare(3, 5), bench.prepare(9, 11))
    landings = bench.two_phase.recover(work)

    assert [True, True, False] == [each.landed for each in landings]
    assert [] == bench.store.pending("shop")
    assert 5 == bench.rows()


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.CONFLICT])
def test_w4_a_fence_in_doubt_is_not_believed_before_the_head_has_moved(bench, fault):
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    state = bench.table.state(OWN)
    bench.plan.queue(NAME, fault, fault)
    fence(bench.prepare(3, 5), state, bench.table, bench.conditions)

    assert bench.table.state(OWN).head != state.head


def test_recovery_lands_what_follows_a_commit_whose_ranges_others_landed(bench):
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    work = bench.keep(bench.prepare(0, 3, attempt="a2"), bench.prepare(3, 5))

    assert [False, True] == [each.landed for each in bench.two_phase.recover(work)]


def test_recovery_lands_what_follows_a_quarantine_commit_that_landed(bench):
    work = bench.keep(bench.refuse(0, 1), bench.prepare(0, 3))

    assert [True, True] == [each.landed for each in bench.two_phase.recover(work)]


def test_the_seconds_that_a_commit_took_are_reported(bench):
    bench.clock.advance(100)
    bench.plan.queue(NAME, Fault.CONFLICT)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    (event,) = bench.observer.of(TableCommitted)
    assert pytest.approx(sum(bench.clock.waits)) == event.seconds


def test_a_table_that_was_created_is_reported(bench):
    tables = MemoryTables(bench.warehouse)
    place, definition = ("lake.bronze.items", "bronze.items"), TableDefinition(ORDERS)
    create(tables, place, definition, [origin(OWN, {0: 0})], bench.observer)

    (event,) = bench.observer.of(TableCreated)
    assert ("lake.bronze.items", len(ORDERS.fields)) == (event.table, event.columns)


def test_a_chain_begins_before_the_first_epoch(bench):
    chain, origins = Chain("bank", OWN.table), positions({0: 7})
    given = {"cluster_id": "cluster-1", "rules_hash": "rules", "context": bench.conditions}

    assert origins == begin(bench.table, chain, origins, **given).offsets
    (event,) = bench.observer.of(TableCommitted)
    assert (0, 0) == (event.epoch, bench.table.state(chain).landed.segment)


def test_an_anchor_has_no_schema_to_outlive(bench):
    state = bench.table.state(OWN)
    wide = wider(state)
    evolve(bench.table, OWN, state, wide, bench.conditions)
    anchor = prepared(OWN, {0: (0, 3)}, uuid=state.uuid, schema_id=state.schema_id)

    assert land(anchor, bench.table, bench.conditions).landed


def test_a_fence_whose_requests_are_all_lost_is_given_up_for_now(bench):
    state = bench.table.state(OWN)
    bench.plan.queue(NAME, *[Fault.LOSE_REQUEST] * 1000)

    with pytest.raises(UnavailableError) as raised:
        fence(bench.prepare(0, 3), state, bench.table, bench.conditions)
    assert "P451" == raised.value.code


@pytest.mark.parametrize("number", [3, 9])
def test_a_schema_is_not_changed_by_a_former_owner(bench, number):
    land(bench.prepare(0, 3), bench.table, replace(bench.conditions, claim=claim(7, "b/owner-7")))
    state = bench.table.state(OWN)
    ours = replace(bench.conditions, claim=claim(number, "a/owner-1"))

    with pytest.raises(FencedError, match="generation 7"):
        evolve(bench.table, OWN, state, wider(state), ours)
    assert state.schema == bench.table.state(OWN).schema


def test_the_schema_of_a_table_that_no_owner_has_landed_in_is_anybodys(bench):
    chain = Chain("another", OWN.table)
    state = bench.table.state(chain)

    assert evolve(bench.table, chain, state, wider(state), bench.conditions)
    assert state.schema != bench.table.state(chain).schema


def test_a_schema_is_not_changed_when_it_is_another_by_now(bench):
    state = bench.table.state(OWN)
    wide = replace(state.schema, fields=(*state.schema.fields, Field("other", Kind.LONG)))
    assert evolve(bench.table, OWN, state, wide, bench.conditions)

    assert evolve(bench.table, OWN, state, wider(state), bench.conditions) is False
    assert wide == bench.table.state(OWN).schema


def test_a_table_whose_history_is_uncertain_is_not_put_back_either(bench, monkeypatch):
    """The position of its rows is not known, so neither is the target of a seek."""
    commit, state = seek(bench)
    uncertain = replace(state, verdict=Verdict.UNCERTAIN)
    monkeypatch.setattr(bench.table, "state", lambda _: uncertain)

    with pytest.raises(DecisionNeededError) as caught:
        land_manual(commit, state, bench.table, bench.conditions)
    assert "P455" == caught.value.code


def test_nothing_is_replaced_in_a_table_that_was_rolled_back(bench):
    for start in (0, 3):
        land(bench.prepare(start, start + 3), bench.table, bench.conditions)
    bench.warehouse.roll_back(NAME, [*bench.warehouse.get(NAME).contents.ancestry()][1].id)
    state = bench.table.state(OWN)
    commit = replace(bench.prepare(0, 3), kind=CommitKind.REPLACE, progress={})

    with pytest.raises(DecisionNeededError) as caught:
        land_manual(commit, state, bench.table, bench.conditions)
    assert "P455" == caught.value.code


def test_a_schema_that_cannot_be_changed_for_conflicts_is_given_up_for_now(bench):
    state = bench.table.state(OWN)
    wide = wider(state)
    bench.plan.queue(NAME, *[Fault.CONFLICT] * 1000)

    with pytest.raises(UnavailableError) as raised:
        evolve(bench.table, OWN, state, wide, bench.conditions)
    assert ("P469", 40) == (raised.value.code, len(bench.clock.waits))


def test_a_commit_on_a_state_that_has_moved_is_a_conflict(bench):
    stale, commit = bench.table.state(OWN), bench.prepare(0, 3)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    with pytest.raises(ConflictError) as raised:
        bench.table.commit(stale, commit, retain=25)
    assert "P401" == raised.value.code


def test_what_waits_after_a_commit_that_did_not_land_is_opened_again(bench):
    first, later = bench.keep(bench.prepare(0, 3), bench.prepare(3, 5))
    bench.plan.take_away(NAME)
    line = CommitQueue(bench.two_phase, ThreadPoolCommits(1))
    for work in (first, later):
        line.submit(CommitBatch(NAME, (work,)))
    line.close()

    held_back = line.take()[1]
    assert ((later,), "P460") == (held_back.batch.work, held_back.error.code)


def test_files_that_cannot_be_replaced_any_more_are_fenced_and_reported(bench):
    commit = replace(bench.prepare(0, 3), kind=CommitKind.REPLACE, progress={}, removes=("gone",))

    landing = land(commit, bench.table, bench.conditions)

    assert (False, "bronze.orders: gone is to be replaced, and is not live any more") == (
        landing.landed,
        landing.reason,
    )
    assert 1 == bench.observer.passings(CrashPoint.FENCE_AFTER)
    assert 0 == bench.rows()


def test_a_commit_in_doubt_is_searched_for_after_a_while(bench):
    bench.plan.queue(NAME, Fault.LOSE_ANSWER)
    land(bench.prepare(0, 3), bench.table, bench.conditions)

    assert [0.02] == bench.clock.waits


def test_a_commit_that_arrives_after_a_later_attempt_is_reported_as_made(bench):
    """The first is on its way, the second meets what it made: it is ours all the same."""
    bench.plan.queue(NAME, Fault.DELAY)
    bench.plan.before_commit(NAME, lambda: bench.plan.before_commit(NAME, bench.plan.release))
    landing = land(bench.prepare(0, 3), bench.table, bench.conditions)

    (event,) = bench.observer.of(TableCommitted)
    assert (True, "committed") == (landing.landed, landing.reason)
    assert bench.table.state(OWN).head == event.snapshot
    assert [] == bench.observer.of(CommitFoundLanded)


def test_files_of_a_replaced_schema_are_dropped_with_that_reason(bench):
    commit, state = bench.prepare(0, 3), bench.table.state(OWN)
    wide = wider(state)
    evolve(bench.table, OWN, state, wide, bench.conditions)

    landing = land(commit, bench.table, bench.conditions)

    assert (False, "the table's schema changed meanwhile") == (landing.landed, landing.reason)
    assert 0 == bench.rows()


def test_a_fence_is_of_no_epoch_and_of_the_present_segment(bench, monkeypatch):
    """It is kept in tables, where an epoch of its own would be taken for the pipeline's."""
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    made, commit = [], bench.table.commit
    monkeypatch.setattr(
        bench.table,
        "commit",
        lambda state, fencing, **given: (made.append(fencing), commit(state, fencing, **given))[1],
    )
    fence_rollback(OWN, bench.table.state(OWN), bench.table, bench.conditions)

    assert [(CommitKind.FENCE, 0, 0)] == [(each.kind, each.epoch, each.segment) for each in made]


def test_a_rollback_is_not_fenced_by_a_former_owner(bench):
    newer = replace(bench.conditions, claim=claim(7, "owner-7"))
    for start in (0, 3):
        land(bench.prepare(start, start + 3), bench.table, newer)
    contents = bench.warehouse.get(NAME).contents
    bench.warehouse.roll_back(NAME, [*contents.ancestry()][1].id)
    state = bench.table.state(OWN)

    with pytest.raises(FencedError, match="generation 7"):
        fence_rollback(OWN, state, bench.table, bench.conditions)
    with pytest.raises(FencedError, match="generation 7"):
        land(bench.prepare(6, 9), bench.table, bench.conditions)
    assert state.head == bench.table.state(OWN).head


@pytest.mark.parametrize(("owner", "landed"), [("owner-2", True), ("another-line/owner-2", False)])
def test_what_an_earlier_owner_prepared_lands_unless_he_is_of_another_line(bench, owner, landed):
    work = bench.keep(bench.prepare(0, 3, held=bench.conditions.claim))
    later = claimed(bench.store, 2, owner)
    two_phase = TwoPhase("shop", bench.store, replace(bench.conditions, claim=later))

    (landing,) = two_phase.recover(work)

    assert landed == landing.landed
    assert (3 if landed else 0) == bench.rows()


def test_housekeeping_that_fails_is_reported_and_does_no_harm(bench):
    bench.plan.take_away(NAME)
    bench.two_phase.housekeep(NAME, bench.table)

    (event,) = bench.observer.of(HousekeepingFailed)
    assert (NAME, "the table bronze.orders is not there") == (event.table, event.reason)
    assert 1 == bench.observer.passings(CrashPoint.HOUSEKEEP_AFTER)


def test_a_catalog_that_forbids_is_not_asked_again(bench):
    bench.plan.queue(NAME, Fault.FORBID)

    with pytest.raises(InvalidError) as caught:
        land(bench.prepare(0, 3), bench.table, bench.conditions)
    assert "P431" == caught.value.code
    assert [] == bench.clock.waits


@pytest.mark.parametrize("fault", [None, Fault.LOSE_ANSWER, Fault.OK_UNAPPLIED])
def test_the_snapshot_that_is_reported_is_the_one_that_holds_the_rows(bench, fault):
    if fault:
        bench.plan.queue(NAME, fault)
    land(bench.prepare(0, 3), bench.table, bench.conditions)
    (event,) = bench.observer.of(TableCommitted)

    assert bench.table.state(OWN).head == event.snapshot


def test_an_anchor_of_a_quarantine_passes_the_points_of_anchors(bench):
    commit = prepared(REJECTS, {0: (0, 3)}, uuid=bench.quarantine.state(REJECTS).uuid)
    land(commit, bench.quarantine, bench.conditions)

    assert 1 == bench.observer.passings(CrashPoint.ANCHOR_AFTER)
    assert 0 == bench.observer.passings(CrashPoint.QUARANTINE_AFTER)


def test_the_hint_for_a_rolled_back_quarantine_is_not_to_put_it_back() -> None:
    assert "penstock seek lake.t" in str(rolled_back("lake.t", "gone").hint)
    assert "penstock seek" not in str(rolled_back("lake.q", "gone", quarantine=True).hint)
