from dataclasses import replace

import pytest

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipt_chain import receipt_breaks
from penstock.core.receipts import (
    Batches,
    LedgerRecord,
    Move,
    PositionsSum,
    PublishedTotals,
    Receipt,
    counted,
    ledger_key,
    ledger_record_from_json,
    ledger_record_to_json,
    receipt_from_parts,
    receipt_key,
    receipt_to_parts,
    transaction_commit_id,
)
from penstock.core.tasks_record import (
    TasksRecord,
    tasks_key,
    tasks_record_from_json,
    tasks_record_to_json,
)

ORDERS, USERS = SourcePartition('{"table":"orders"}'), SourcePartition('{"table":"users"}')
TARGET = TopicPartition("id-a", 0, "crm.orders")


def row(number: int) -> Position:
    return Position(f'{{"row":{number}}}')


def receipt(epoch, start, stop, *, at=ORDERS, segment=0, **more) -> Receipt:
    return Receipt(
        "u", epoch, segment, 7, epoch, stop - start, moves={at: move(start, stop)}, **more
    )


def move(start, stop) -> Move:
    return Move(row(start), row(stop))


STANDS = {ORDERS: row(30), USERS: row(5)}
CHAIN = [
    receipt(1, 0, 10, filtered={"where": 2}),
    receipt(2, 10, 30, rejected={"P301": 1}),
    receipt(3, 0, 5, at=USERS, rules_hash="r"),
]
LEDGER = LedgerRecord(
    "u",
    "penstock",
    4,
    "line/run",
    3,
    "c",
    0,
    "rules",
    7,
    3,
    counted(STANDS),
    PublishedTotals(35, 2, 1),
)


def kinds(receipts=CHAIN, ledger=LEDGER, stands=STANDS) -> list[str]:
    return [each.kind for each in receipt_breaks(receipts, ledger, stands)]


def test_keys_are_of_the_publication_and_the_slot():
    assert b'["segments",{"penstock":"ledger","task":0}]' == ledger_key("segments", 0).raw
    expected = b'["segments",{"part":1,"penstock":"receipt","slot":12,"task":3}]'
    assert expected == receipt_key("segments", 3, 5012, 1).raw


def test_a_ledger_has_the_documented_form():
    expected = (
        b'{"commit":"c","epoch":3,"generation":4,"group":"penstock","owner":"line/run",'
        b'"positions":{"count":2,"digest":"%s"},"producer":7,"protocol":2,"rules":"rules","segment":0,'
        b'"term":3,'
        b'"totals":{"filtered":2,"published":35,"rejected":1},"uuid":"u","v":1}'
    )
    expected %= LEDGER.positions.digest.encode()
    assert expected == ledger_record_to_json(LEDGER)
    short = replace(LEDGER, accepted_ends={TARGET: 4})
    accepted = b'{"accepted":[["id-a",0,"crm.orders",4]],'
    assert accepted + expected[1:] == ledger_record_to_json(short)
    assert short == ledger_record_from_json(ledger_record_to_json(short))
    two = {replace(TARGET, partition=1): 2, TARGET: 4}
    both = b'{"accepted":[["id-a",0,"crm.orders",4],["id-a",1,"crm.orders",2]],'
    assert both + expected[1:] == ledger_record_to_json(replace(LEDGER, accepted_ends=two))


def test_the_count_of_tasks_has_the_documented_form():
    tasks = TasksRecord(3, 7, "line/run", "s1", begun=True)
    expected = b'{"begun":true,"generation":7,"owner":"line/run","start":"s1","task-count":3,"v":1}'

    assert b'["segments",{"penstock":"tasks"}]' == tasks_key("segments").raw
    assert expected == tasks_record_to_json(tasks)
    assert tasks == tasks_record_from_json(expected)
    with pytest.raises(InvalidError, match="a number from 1 on"):
        tasks_record_from_json(expected.replace(b":3,", b":0,"))


def test_a_receipt_has_the_documented_form():
    it = replace(CHAIN[0], targets={TARGET: Batches(4, 9, 6, 1, 99)})

    expected = (
        b'{"epoch":1,"filtered":{"where":2},"moves":[[{"table":"orders"},{"row":0},{"row":10}]],'
        b'"part":0,"parts":1,"producer":7,"published":10,"rejected":{},"segment":0,'
        b'"targets":[["id-a",0,"crm.orders",4,9,6,1,99]],"term":1,"uuid":"u","v":1}'
    )
    assert [expected] == receipt_to_parts(it)


@pytest.mark.parametrize(
    "parse",
    [ledger_record_from_json, tasks_record_from_json, lambda value: receipt_from_parts([value])],
)
@pytest.mark.parametrize(
    ("value", "code"),
    [(b'{"v":2}', "P190"), (b'{"v":1}', "P191"), (b"\xff", "P191"), (b"[]", "P191")],
)
def test_a_newer_version_and_damage_are_refused(parse, value, code):
    with pytest.raises(InvalidError) as caught:
        parse(value)

    assert code == caught.value.code


def many(epoch: int) -> Receipt:
    targets = {
        TopicPartition("id-a", number, "crm.orders"): Batches(0, 9, 10, 1, None)
        for number in range(1000)
    }
    return replace(receipt(epoch, 0, 10), targets=targets)


def test_a_large_receipt_is_in_parts_and_what_is_behind_them_is_older():
    parts = receipt_to_parts(many(1), part_bytes_max=4000)

    assert 5 < len(parts)
    assert all(len(part) <= 4000 for part in parts)
    assert many(1) == receipt_from_parts([*parts, b"older"])


def test_parts_of_two_receipts_make_none():
    old, new = (receipt_to_parts(many(epoch), part_bytes_max=4000) for epoch in (1, 1001))
    for values in ([], new[:-1], [*new[:-1], old[-1]], [new[0], new[2], new[1], *new[3:]]):
        with pytest.raises(InvalidError) as caught:
            receipt_from_parts(values)

        assert "P191" == caught.value.code


def test_a_part_takes_what_there_is_room_for_and_the_next_one_the_rest():
    rows = {SourcePartition(f'{{"table":"t{number}"}}'): move(0, 5) for number in range(5)}
    parts = receipt_to_parts(Receipt("u", 1, 0, 7, 1, 25, moves=rows))
    row_bytes = len(b'[{"table":"t0"},{"row":0},{"row":5}],')
    without_rows = len(
        b'{"epoch":1,"filtered":{},"producer":7,"published":25,"rejected":{},"segment":0,"term":1,'
        b'"uuid":"u","v":1}'
    )

    def cut(room: int) -> list[int]:
        limit = without_rows + 100 + room  # a hundred for the numbers and the names of its lists
        found = receipt_to_parts(Receipt("u", 1, 0, 7, 1, 25, moves=rows), part_bytes_max=limit)
        return [each.count(b"table") for each in found]

    assert [5] == [each.count(b"table") for each in parts]
    assert [2, 2, 1] == cut(2 * row_bytes)
    assert [1, 1, 1, 1, 1] == cut(2 * row_bytes - 1) == cut(row_bytes - 1)


def test_a_receipt_is_the_same_in_whatever_order_its_rows_came():
    targets = {replace(TARGET, partition=number): Batches(0, 0, 1, 1, None) for number in (0, 1)}
    it = replace(CHAIN[0], moves={ORDERS: move(0, 10), USERS: move(0, 5)}, targets=targets)
    turned = replace(
        it,
        moves=dict(reversed(it.moves.items())),
        targets=dict(reversed(it.targets.items())),
    )

    assert receipt_to_parts(it) == receipt_to_parts(turned)
    assert it == receipt_from_parts(receipt_to_parts(turned))


@pytest.mark.parametrize(
    "row", [b'[{"table":"orders"},{"row":0},{"row":10}]', b'["id-a",0,"crm.orders",4,9,6,1,99]']
)
def test_a_row_that_is_there_twice_is_damage(row):
    [value] = receipt_to_parts(replace(CHAIN[0], targets={TARGET: Batches(4, 9, 6, 1, 99)}))
    with pytest.raises(InvalidError, match="there twice"):
        receipt_from_parts([value.replace(row, row + b"," + row)])


@pytest.mark.parametrize("values", [b'"0"', b'{"row":{"0":0}}', b'{"row":0.5}'])
def test_a_position_is_a_flat_object_or_damage(values):
    [value] = receipt_to_parts(CHAIN[0])
    with pytest.raises(InvalidError, match="a flat object was expected"):
        receipt_from_parts([value.replace(b'{"row":0}', values)])


def test_the_commit_id_of_a_transaction_is_of_what_it_moves():
    moves = {ORDERS: move(0, 10), USERS: Move(None, row(5))}
    ids = {
        transaction_commit_id("g", "n", 0, 0, moves),
        transaction_commit_id("g", "n", 0, 0, dict(reversed(moves.items()))),
        transaction_commit_id("g", "n", 0, 1, moves),
        transaction_commit_id("g", "n", 1, 0, moves),
        transaction_commit_id("g", "n", 0, 0, {**moves, ORDERS: move(0, 11)}),
    }

    assert 4 == len(ids)
    assert {32} == {len(each) for each in ids}


def test_a_whole_chain_has_no_break():
    assert [] == kinds()
    assert [] == kinds([], replace(LEDGER, epoch=0, totals=PublishedTotals()))


def test_a_chain_whose_first_receipts_are_gone_has_no_break():
    assert [] == kinds(CHAIN[1:])


@pytest.mark.parametrize(
    ("expected", "receipts"),
    [
        (["epoch", "position", "totals", "totals"], [CHAIN[0], CHAIN[2]]),
        (["epoch", "totals"], CHAIN[:2]),
        (["gap", "totals"], [CHAIN[0], receipt(2, 11, 30, rejected={"P301": 1}), CHAIN[2]]),
        (["position"], [CHAIN[1], replace(CHAIN[2], moves={USERS: move(0, 4)})]),
        (["uuid"], [replace(CHAIN[1], uuid="other"), CHAIN[2]]),
        (["segment", "segment"], [replace(CHAIN[1], segment=1), replace(CHAIN[2], segment=1)]),
        (["totals"], [replace(CHAIN[1], published=99), CHAIN[2]]),
    ],
)
def test_a_break_is_found(expected, receipts):
    assert expected == kinds(receipts)


@pytest.mark.parametrize("stands", [{}, {ORDERS: row(30)}, {**STANDS, USERS: row(4)}])
def test_positions_that_were_lost_or_changed_are_found(stands):
    assert "positions" in kinds(stands=stands)


def test_a_new_segment_begins_anywhere_and_counts_anew():
    after = [*CHAIN, receipt(4, 2, 30, segment=1)]
    ledger = replace(LEDGER, epoch=4, segment=1, totals=PublishedTotals(28))

    assert [] == kinds(after, ledger)
    for receipts in (after, after[1:]):
        assert ["totals"] == kinds(receipts, replace(ledger, totals=PublishedTotals(29)))


def test_the_sum_of_positions_is_of_each_with_its_partition():
    swapped = {ORDERS: STANDS[USERS], USERS: STANDS[ORDERS]}

    assert PositionsSum(0, "0" * 32) == counted({})
    assert counted(dict(reversed(STANDS.items()))) == counted(STANDS) != counted(swapped)


def test_the_sum_of_positions_is_the_one_that_stands_in_ledgers():
    """With another one each ledger that there is would be damaged (P807); this one overflows."""
    assert PositionsSum(2, "1eb55e04252a136cc30fa45cd4f61ec8") == counted(STANDS)


def test_the_term_behind_a_ledger_depends_on_how_its_transaction_ended():
    assert (7, 4) == LEDGER.following
    assert (7, 3) == replace(LEDGER, protocol=1).following
    assert replace(LEDGER, protocol=0).following is None


def test_a_ledger_of_before_there_were_protocols_is_one_of_protocol_2():
    former = ledger_record_to_json(replace(LEDGER, protocol=1)).replace(b'"protocol":1,', b"")

    assert LEDGER == ledger_record_from_json(former)
