from dataclasses import replace

import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipts import Batches, LedgerRecord, PublishedTotals, Receipt, counted
from penstock.core.resuming import (
    TAIL_BYTES_MAX,
    Accepted,
    FoundOfTask,
    Resume,
    Stopped,
    StopReason,
    Tail,
    resume,
)
from penstock.core.tasks_record import TasksRecord

STANDS = {SourcePartition('{"table":"orders"}'): Position('{"row":9}')}
AT = TopicPartition("id-a", 0, "crm.orders")
LEDGER = LedgerRecord(
    "u", "g", 4, "line/run", 1, "c", 0, "r", 7, 3, counted(STANDS), PublishedTotals(9)
)
LAST = Receipt("u", 1, 0, 7, 3, 9, targets={AT: Batches(0, 8, 9, 1, None)})
ONE = Receipt("u", 1, 0, 7, 3, 1, targets={AT: Batches(0, 0, 1, 1, None)})
USUAL = FoundOfTask(
    LEDGER, None, STANDS, LAST, {AT: 10}, remembered=(7, 4), fenced=(7, 5), following=(7, 4)
)
DOUBT = replace(USUAL, remembered=None)
FORGOTTEN = replace(DOUBT, following=None)
BEGUN = TasksRecord(1, 4, "line/run", "s", begun=True)
ANNOUNCED = replace(BEGUN, begun=False)
SHORT = replace(LEDGER, accepted_ends={AT: 5})
USED = FoundOfTask(remembered=(7, 0), fenced=(7, 1))
LONG = Tail(TAIL_BYTES_MAX + 1, 0)


def decided(found, *accepted, generation=5):
    made = resume(found, group="g", generation=generation, accepted=frozenset(accepted))
    return made if isinstance(made, Resume) else made.reason


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (replace(USUAL, ledger=replace(LEDGER, group="other")), StopReason.OTHER_GROUP),
        (replace(USUAL, ledger=replace(LEDGER, generation=6)), StopReason.FENCED),
        (replace(USUAL, claim=replace(BEGUN, generation=6)), StopReason.FENCED),
        (FoundOfTask(claim=replace(ANNOUNCED, generation=6)), StopReason.FENCED),
        (replace(USUAL, ledger=replace(LEDGER, generation=5)), Resume.GO_ON),
        (replace(USUAL, stands={}), StopReason.LEDGER_DAMAGED),
        (replace(USUAL, last=ONE, ends={}), StopReason.TARGET_LOST_RECORDS),
        (replace(USUAL, ends={}), StopReason.TARGET_LOST_RECORDS),
        (replace(USUAL, ends={AT: 8}), StopReason.TARGET_LOST_RECORDS),
        (replace(USUAL, ledger=SHORT, ends={AT: 5}), Resume.GO_ON),
        (replace(USUAL, ledger=SHORT, ends={AT: 4}), StopReason.TARGET_LOST_RECORDS),
        (replace(USUAL, ledger=SHORT, ends={}), StopReason.TARGET_LOST_RECORDS),
        (replace(USUAL, ledger=replace(LEDGER, accepted_ends={AT: 0}), ends={}), Resume.GO_ON),
        (USUAL, Resume.GO_ON),
        (replace(USUAL, ends={AT: 9}), Resume.GO_ON),
        (DOUBT, Resume.READ_TAIL),
        (FORGOTTEN, Resume.READ_TAIL),
        (replace(USUAL, remembered=(7, 5)), Resume.READ_TAIL),
        (replace(USUAL, remembered=(7, 5), fenced=(7, 6)), Resume.READ_TAIL),
        (replace(USUAL, fenced=None), Resume.GO_ON),
        (replace(USUAL, fenced=(7, 6)), Resume.READ_TAIL),
        (replace(USUAL, fenced=(8, 5)), Resume.READ_TAIL),
        (replace(DOUBT, tail=Tail(100, 0)), Resume.GO_ON),
        (replace(DOUBT, tail=Tail(100, 1)), StopReason.LEDGER_WENT_BACK),
        (replace(DOUBT, tail=LONG), StopReason.TAIL_TOO_LONG),
        (FoundOfTask(claim=ANNOUNCED), Resume.BEGIN),
        (FoundOfTask(claim=ANNOUNCED, stands=STANDS), StopReason.LEDGER_GONE),
        (FoundOfTask(claim=BEGUN), StopReason.LEDGER_GONE),
        (FoundOfTask(witness="the coordinator"), StopReason.LEDGER_GONE),
        (FoundOfTask(stands=STANDS), StopReason.LEDGER_GONE),
        (FoundOfTask(), Resume.BEGIN),
        (FoundOfTask(fenced=(7, 0)), Resume.BEGIN),
        (FoundOfTask(fenced=(7, 1)), Resume.READ_TAIL),
        (USED, Resume.READ_TAIL),
        (replace(USED, fenced=None), Resume.READ_TAIL),
        (replace(USED, claim=ANNOUNCED), Resume.READ_TAIL),
        (replace(USED, tail=Tail(100, 0)), Resume.BEGIN),
        (replace(USED, tail=Tail(100, 1)), StopReason.LEDGER_GONE),
        (replace(USED, tail=Tail(TAIL_BYTES_MAX, 0)), Resume.BEGIN),
        (replace(USED, tail=LONG), StopReason.TAIL_TOO_LONG),
        (replace(USUAL, source="it was rolled back"), StopReason.SOURCE),
        (FoundOfTask(source="it was rolled back"), StopReason.SOURCE),
        (replace(DOUBT, source="it was rolled back"), Resume.READ_TAIL),
    ],
)
def test_what_was_found_decides(found, expected):
    assert expected == decided(found)


@pytest.mark.parametrize(
    ("found", "accepted", "expected"),
    [
        (replace(USUAL, ends={}), Accepted.TARGET, Resume.GO_ON),
        (replace(DOUBT, ends={}), Accepted.TARGET, Resume.READ_TAIL),
        (replace(DOUBT, tail=Tail(1, 1)), Accepted.LEDGER, Resume.GO_ON),
        (replace(DOUBT, tail=Tail(1, 1)), Accepted.TAIL, StopReason.LEDGER_WENT_BACK),
        (replace(DOUBT, tail=LONG), Accepted.TAIL, Resume.GO_ON),
        (replace(DOUBT, tail=LONG), Accepted.LEDGER, StopReason.TAIL_TOO_LONG),
        (replace(USED, tail=LONG), Accepted.TAIL, Resume.BEGIN),
        (replace(USED, tail=Tail(1, 1)), Accepted.TAIL, StopReason.LEDGER_GONE),
        (FoundOfTask(claim=BEGUN), Accepted.LEDGER, Resume.BEGIN),
        (FoundOfTask(stands=STANDS), Accepted.LEDGER, Resume.BEGIN),
        (replace(USUAL, stands={}), Accepted.LEDGER, StopReason.LEDGER_DAMAGED),
    ],
)
def test_a_person_accepts_one_thing_each(found, accepted, expected):
    assert expected == decided(found, accepted)


def test_the_first_generation_may_begin():
    assert Resume.BEGIN == decided(FoundOfTask(), generation=0)


def test_what_targets_lost_is_named_in_their_order():
    targets = {replace(AT, partition=n): LAST.targets[AT] for n in (1, 0)}
    made = resume(
        replace(USUAL, last=replace(LAST, targets=targets), ends={}), group="g", generation=5
    )

    assert isinstance(made, Stopped)
    assert "receipts say more of crm.orders-0, crm.orders-1" == made.message
