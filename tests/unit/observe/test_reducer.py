from dataclasses import replace

from penstock.core.events import (
    BacklogCounted,
    CommitAborted,
    CommitFoundLanded,
    CoordinatorFenced,
    EpochPlanned,
    EpochPrepared,
    Event,
    FilesWritten,
    PauseBegan,
    PauseEnded,
    PipelineStarted,
    PipelineStopped,
    RecordsQuarantined,
    SchemaChanged,
    SliceRead,
    TableCommitted,
    TableCreated,
    TableParked,
    TableResumed,
    WaitBegan,
)
from penstock.core.hold import HELD
from penstock.core.maintenance import LastMaintenance, TableHealth
from penstock.core.maintenance_events import (
    EpochsNarrowed,
    EpochsWidened,
    LayoutMeasured,
    TableMaintained,
)
from penstock.observe.reducer import apply, initial, stopping
from penstock.observe.snapshot import (
    LastCommit,
    Parked,
    PendingEpoch,
    Reading,
    Snapshot,
    State,
    Waiting,
    Widened,
)

T = "lake.bronze.flights"


def committed(epoch: int, rows: int = 10, *, valid_through_ms: int | None = None) -> TableCommitted:
    return TableCommitted(
        epoch, T, "shop", "append", "c1", f"s{epoch}", rows, 2, 500, 0.02, valid_through_ms
    )


def written(epoch: int, rows: int = 10) -> FilesWritten:
    return FilesWritten(epoch, T, 2, rows, 500)


def story(*events: Event, begin: Snapshot | None = None) -> Snapshot:
    """Fold events that happen a millisecond apart, the first at 1,001."""
    snapshot = begin or initial("shop", 1_000)
    for at_ms, event in enumerate(events, start=1_001):
        snapshot = apply(snapshot, event, at_ms)
    return snapshot


def test_a_pipeline_nobody_heard_of_is_starting() -> None:
    assert State.STARTING == initial("shop", 1_000, tables=(T,)).state
    assert [T] == list(initial("shop", 1_000, tables=(T,)).tables)


def test_the_claim_is_kept() -> None:
    snapshot = story(PipelineStarted("shop", 7, "host:1", 2, 3))

    assert (7, "host:1", 3, 1_001) == (
        snapshot.generation,
        snapshot.owner,
        snapshot.recovering,
        snapshot.started_ms,
    )


def test_an_epoch_with_more_after_it_is_catching_up() -> None:
    snapshot = story(EpochPlanned(1, 2, 100, {"flights": 250}, {T: 250}))

    assert State.CATCHING_UP == snapshot.state
    assert 250 == snapshot.lag_records
    assert 250 == snapshot.tables[T].lag_records


def test_an_epoch_with_all_there_is_runs_and_then_idles_without_lag() -> None:
    planned = EpochPlanned(1, 2, 100, {"flights": 100}, {T: 100})
    open_epoch = story(planned, SliceRead(1, 0, 60, 9, 0.1), SliceRead(1, 1, 40, 9, 0.1))
    prepared = story(written(1, 100), EpochPrepared(1, 100, 1, 0.2), begin=open_epoch)
    landed = story(committed(1, 100), begin=prepared)

    assert (State.RUNNING, Reading(1, 100, 1_002)) == (open_epoch.state, open_epoch.reading)
    assert (State.RUNNING, 1) == (prepared.state, prepared.pending)
    assert (State.IDLE, 0, 0) == (landed.state, landed.pending, landed.lag_records)
    assert 0 == landed.tables[T].lag_records


def test_a_parked_table_keeps_its_lag_when_the_others_idle() -> None:
    snapshot = story(
        TableParked("lake.b", "P404", "gone"),
        EpochPlanned(1, 1, 5, {"flights": 5}, {T: 5, "lake.b": 90}),
        EpochPrepared(1, 5, 1, 0.2),
        committed(1),
    )

    assert State.IDLE == snapshot.state
    assert 90 == snapshot.tables["lake.b"].lag_records


def test_what_waits_for_a_table_that_a_flood_parks_is_reported_in_the_end() -> None:
    snapshot = story(
        EpochPlanned(1, 1, 165, {"bad": 160, "flights": 5}, {T: 5, "lake.b": 160}),
        SliceRead(1, 0, 165, 9, 0.1),
        TableParked("lake.b", "P345", "160 of 160 refused"),
        written(1, 5),
        EpochPrepared(1, 165, 1, 0.2),
        committed(1, 5),
        PipelineStopped("shop", "caught up", clean=True),
    )

    assert State.STOPPED == snapshot.state
    assert (0, 160) == (snapshot.tables[T].lag_records, snapshot.tables["lake.b"].lag_records)
    assert 160 == snapshot.parked_lag_records


def test_a_parked_table_never_lags_less_than_before() -> None:
    parked = TableParked("lake.b", "P404", "gone")
    planned = EpochPlanned(1, 1, 5, {"flights": 5}, {T: 5, "lake.b": 90})
    snapshot = story(planned, parked, replace(planned, table_lag={T: 5, "lake.b": 0}))
    grown = story(replace(planned, table_lag={T: 5, "lake.b": 95}), begin=snapshot)
    back = story(TableResumed("lake.b", 1.0), replace(planned, table_lag={T: 5}), begin=grown)

    lags = [each.tables["lake.b"].lag_records for each in (snapshot, grown, back)]
    assert [90, 95, 95] == lags
    again = story(replace(planned, table_lag={T: 5, "lake.b": 2}), begin=back)
    assert 2 == again.tables["lake.b"].lag_records


def test_an_epoch_without_records_is_idle() -> None:
    assert State.IDLE == story(EpochPlanned(2, 0, 0, {"flights": 0})).state


def test_commits_add_up() -> None:
    snapshot = story(written(1), written(2), committed(1, 10), committed(2, 20))

    table = snapshot.tables[T]
    assert (30, 2, 4, 1_000) == (table.rows, table.commits, table.files, table.size_bytes)
    assert LastCommit(1_004, 2, "append", 20, 2, 500, "s2", 0.02) == table.last_commit
    assert ((1_003, 10), (1_004, 20)) == table.recent


def test_a_joined_commit_settles_all_epochs_up_to_its_own() -> None:
    snapshot = story(written(1), written(2), written(3), committed(2))

    assert (PendingEpoch(3, 10, 1_003),) == snapshot.tables[T].pending


def test_the_files_of_an_epoch_read_again_are_pending_once() -> None:
    assert 1 == story(written(1), written(1)).pending


def test_commits_of_an_earlier_run_are_settled_one_by_one() -> None:
    started = PipelineStarted("shop", 2, "host:1", 1, 3)
    found = CommitFoundLanded(T, "shop", "c1", as_prepared=True)
    aborted = CommitAborted(T, "shop", "c2", "files missing")

    assert 1 == story(started, found, aborted).recovering
    assert 0 == story(started, found, aborted, committed(1)).recovering


def test_a_commit_found_landed_later_settles_the_oldest_epoch() -> None:
    snapshot = story(written(4), written(5), CommitFoundLanded(T, "shop", "c1", as_prepared=True))

    assert [5] == [pending.epoch for pending in snapshot.tables[T].pending]
    assert 0 == snapshot.tables[T].rows


def test_valid_through_never_moves_backwards() -> None:
    snapshot = story(committed(1, valid_through_ms=900), committed(2, valid_through_ms=800))

    assert 900 == snapshot.tables[T].valid_through_ms
    assert 900 == story(committed(3), begin=snapshot).tables[T].valid_through_ms


def test_a_table_is_parked_since_the_first_time_it_was_reported() -> None:
    parked = story(TableParked(T, "P404", "gone"), TableParked(T, "P405", "locked"))

    assert Parked("P405", "locked", 1_001) == parked.tables[T].parked
    assert None is story(TableResumed(T, 1.0), begin=parked).tables[T].parked


def test_quarantined_records_are_counted_by_code() -> None:
    snapshot = story(
        RecordsQuarantined(1, T, {"P301": 2}), RecordsQuarantined(2, T, {"P301": 1, "P310": 4})
    )

    assert {"P301": 3, "P310": 4} == snapshot.tables[T].quarantined
    assert 7 == snapshot.tables[T].quarantined_total


def test_a_created_table_is_shown_before_it_has_rows() -> None:
    assert [T] == list(story(TableCreated(T, 3)).tables)


def test_stopping_holds_until_the_end() -> None:
    ending = stopping(story(EpochPlanned(1, 1, 5, {"flights": 5})))
    still = story(EpochPlanned(2, 1, 5, {"flights": 5}), begin=ending)
    ended = story(PipelineStopped("shop", "SIGTERM", clean=True), begin=still)

    assert (State.STOPPING, State.STOPPING) == (ending.state, still.state)
    assert (State.STOPPED, True, "SIGTERM") == (ended.state, ended.clean, ended.reason)
    assert State.STOPPED == stopping(ended).state
    assert State.STOPPED == story(EpochPlanned(3, 1, 5), begin=ended).state


def test_an_error_that_ends_it_is_kept_with_its_code() -> None:
    snapshot = story(PipelineStopped("shop", "the broker is gone", clean=False, code="P201"))

    assert (State.FAILED, "P201") == (snapshot.state, snapshot.code)


def test_a_fenced_coordinator_is_stopping() -> None:
    snapshot = story(CoordinatorFenced(3, 4, "other:9"))

    assert State.STOPPING == snapshot.state
    assert "generation 4 of other:9 took over" == snapshot.reason


def test_other_events_change_only_the_time() -> None:
    before = story(committed(1))

    after = apply(before, SchemaChanged(T, "add column", "tailnum: string"), 5_000)

    assert replace(before, updated_ms=5_000) == after


def test_a_start_waits_for_one_thing_after_another() -> None:
    snapshot = story(WaitBegan("Kafka"), WaitBegan("Kafka"), WaitBegan("Spark"))
    assert Waiting("Spark", 1_003) == snapshot.waiting
    assert Waiting("Kafka", 1_001) == story(WaitBegan("Kafka"), WaitBegan("Kafka")).waiting
    assert snapshot.lag_records is None


def test_a_backlog_that_was_counted_ends_the_start() -> None:
    some = story(WaitBegan("Spark"), BacklogCounted({"a": 5}, {T: 5}, {"a[0]": 5}))
    none = story(WaitBegan("Spark"), BacklogCounted({"a": 0}, {T: 0}, {"a[0]": 0}))

    assert (State.CATCHING_UP, 5, None) == (some.state, some.lag_records, some.waiting)
    assert 5 == some.tables[T].lag_records
    assert (State.IDLE, 0, None) == (none.state, none.lag_records, none.waiting)


def test_a_wait_is_reported_while_an_epoch_is_read_and_never_in_between() -> None:
    planned = EpochPlanned(1, 1, 9, {"a": 9}, {T: 9})
    reading = story(planned, WaitBegan("records of epoch 1"))
    assert "records of epoch 1" == (reading.waiting and reading.waiting.what)
    for after in (SliceRead(1, 0, 9, 100, 0.1), EpochPrepared(1, 9, 1, 0.1)):
        assert apply(reading, after, 2_000).waiting is None

    later = story(planned, EpochPrepared(1, 9, 1, 0.1), WaitBegan(f"{T} to open"))
    assert later.waiting is None


def test_a_pause_is_known_until_it_is_over() -> None:
    paused = story(written(1), PauseBegan(T, 5_000)).tables[T]
    over = story(written(1), PauseBegan(T, 5_000), PauseEnded(T)).tables[T]

    assert (5_000, 1) == (paused.paused_until_ms, len(paused.pending))
    assert (None, 1_003) == (over.paused_until_ms, over.pending[0].since_ms)


def test_changes_of_a_keyed_table_are_totals_of_the_run_and_each_counts_in_the_rate():
    first = replace(committed(1, rows=3), changes={"inserted": 3, "superseded": 7})
    second = replace(committed(2, rows=0), changes={"deleted": 2, "inserted": 0, "healed": 1})
    first, second = replace(first, rewritten_bytes=5), replace(second, rewritten_bytes=7)
    table = story(first, second).tables[T]

    assert [12] == [table.rewritten_bytes]
    assert {"inserted": 3, "superseded": 7, "deleted": 2, "healed": 1} == table.changes
    assert (3, [10, 2]) == (table.rows, [count for _, count in table.recent])


MEASURED = LayoutMeasured(T, 500, 20, 900_000, 1000, 10, 77, 7, 9, 1000)


def test_how_a_table_lies_is_known_from_the_last_look_and_what_happened_since() -> None:
    health = story(committed(1), MEASURED).tables[T].health
    assert TableHealth(500, 20, 900_000, 1000, 10, 77, 9, 1000, 7) == health

    after = story(committed(1), MEASURED, committed(2), TableMaintained(T, 300, 6, 0, 0, 0))
    known = after.tables[T].health
    assert known is not None
    assert (208, 188, 900_500) == (known.files, known.excess_files, known.size_bytes)
    assert LastMaintenance(1_004, "penstock") == known.maintained


def test_where_nobody_looked_nothing_is_known_of_how_a_table_lies() -> None:
    assert None is story(committed(1), TableMaintained(T, 300, 6, 0, 0, 0)).tables[T].health


def test_epochs_that_are_wider_than_usual_are_known_until_they_are_not() -> None:
    wide = story(EpochsWidened(T, 23_000, 2.0, 1.0), EpochsWidened(T, 24_000, 4.0, 1.0))
    assert Widened(T, 24_000, 4.0, 1.0) == wide.widened
    assert wide.is_held

    less = story(EpochsNarrowed(2.0, 1.0), begin=wide)
    assert Widened(T, 24_000, 2.0, 1.0) == less.widened
    assert None is story(EpochsNarrowed(1.0, 1.0), begin=less).widened
    assert not story(EpochsNarrowed(1.0, 1.0), begin=less).is_held


def test_a_table_that_is_parked_until_it_is_well_is_held() -> None:
    assert story(TableParked(T, HELD, "sick")).is_held
    assert not story(TableParked(T, "P402", "gone")).is_held


def test_a_run_that_begins_has_epochs_as_usual() -> None:
    wide = story(EpochsWidened(T, 23_000, 2.0, 1.0))
    assert None is story(PipelineStarted("shop", 2, "o", 1, 0), begin=wide).widened
