"""What a publication keeps of its transactions is read as it was written."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_positions import objects, texts

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import canonical
from penstock.core.receipts import (
    Batches,
    LedgerRecord,
    Move,
    PositionsSum,
    PublishedTotals,
    Receipt,
    counted,
    ledger_record_from_json,
    ledger_record_to_json,
    receipt_from_parts,
    receipt_to_parts,
)

counts = st.integers(0, 2**40)
flat = objects.map(canonical)
stands = st.dictionaries(flat, flat, max_size=5)
reasons = st.dictionaries(texts, counts, max_size=3)
ledgers = st.builds(
    LedgerRecord,
    **dict.fromkeys(["uuid", "group", "owner", "commit", "rules_hash"], texts),
    **dict.fromkeys(
        ["generation", "epoch", "segment", "producer_id", "producer_epoch"],
        counts,
    ),
    positions=st.builds(PositionsSum, counts, texts),
    totals=st.builds(PublishedTotals, counts, counts, counts),
    accepted_ends=st.dictionaries(
        st.builds(TopicPartition, texts, counts, texts), counts, max_size=3
    ),
)
batches = st.builds(
    lambda first, more, records, count, crc: Batches(first, first + more, records, count, crc),
    counts,
    counts,
    st.integers(1, 2**40),
    st.integers(1, 2**20),
    st.none() | counts,
)
receipts = st.builds(
    Receipt,
    texts,
    st.integers(1, 2**40),
    counts,
    counts,
    counts,
    counts,
    reasons,
    reasons,
    st.dictionaries(flat, st.builds(Move, st.none() | flat, flat), max_size=5),
    st.dictionaries(st.builds(TopicPartition, texts, counts, texts), batches, max_size=5),
)


@given(ledgers)
def test_a_ledger_is_read_as_it_was_written(ledger):
    assert ledger == ledger_record_from_json(ledger_record_to_json(ledger))


@given(receipts, st.sampled_from([300, 500, 256_000]))
def test_a_receipt_is_read_as_it_was_written_in_however_many_parts(receipt, part_bytes_max):
    parts = receipt_to_parts(receipt, part_bytes_max=part_bytes_max)

    assert receipt == receipt_from_parts(parts)


@given(stands, stands)
def test_sums_of_positions_are_equal_exactly_when_the_positions_are(one, other):
    assert (one == other) == (counted(one) == counted(other))


@given(receipts, ledgers, st.data())
def test_what_was_damaged_is_refused_or_read(receipt, ledger, data):
    for value, parse in (
        (receipt_to_parts(receipt)[0], lambda value: receipt_from_parts([value])),
        (ledger_record_to_json(ledger), ledger_record_from_json),
    ):
        members = json.loads(value)
        name = data.draw(st.sampled_from(sorted(members)))
        members[name] = data.draw(st.none() | st.integers(-9, 9) | texts | st.just([[1]]))
        with suppress(InvalidError):
            parse(json.dumps(members).encode())
