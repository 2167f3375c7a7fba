"""Which records of a partition count: by markers, whoever else has a transaction open."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from penstock.connectors.kafka.native.record_batches import CONTROL, headers_of
from penstock.connectors.kafka.transactions.decided import Written, decide, read
from penstock.ports.producers import Look

OURS, THEIRS = 1, 2


def wrote(producer, offset, key=b"k", value=b"v"):
    return Written(producer, ((offset, key, value),))


def committed(producer):
    return Written(producer, aborts=False)


def aborted(producer):
    return Written(producer, aborts=True)


def test_what_has_no_marker_above_the_stable_offset_is_undecided():
    assert Look({}, frozenset({b"k"})) == decide([wrote(OURS, 0)], stable=0)


def test_a_record_counts_by_its_marker_though_an_older_transaction_is_open():
    log = [wrote(THEIRS, 0, b"t"), wrote(OURS, 1), committed(OURS)]

    assert Look({b"k": b"v"}, frozenset({b"t"})) == decide(log, stable=0)


def test_what_was_aborted_does_not_count_and_what_follows_it_does():
    log = [wrote(OURS, 0, value=b"1"), aborted(OURS), wrote(OURS, 2, value=b"2"), committed(OURS)]

    assert Look({b"k": b"2"}) == decide(log, stable=4)


def test_below_the_stable_offset_a_record_whose_marker_was_compacted_counts():
    assert Look({b"k": b"v"}) == decide([wrote(OURS, 0)], stable=1)


def test_records_outside_of_transactions_count():
    assert Look({b"k": b"v"}) == decide([wrote(None, 0)], stable=1)


def test_a_tombstone_removes_an_entry_and_a_late_marker_does_not_bring_it_back():
    log = [
        wrote(THEIRS, 0, value=b"old"),
        wrote(OURS, 1, value=None),
        committed(OURS),
        committed(THEIRS),
    ]

    assert Look({}) == decide(log, stable=4)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from("wca")), max_size=30))
def test_every_key_is_what_its_highest_committed_record_says(acts):
    """Compared with replaying the log once for each producer."""
    log = [
        wrote(producer, offset, b"k", str(offset).encode())
        if act == "w"
        else Written(producer, aborts=act == "a")
        for offset, (producer, act) in enumerate(acts)
    ]
    outcomes = {}
    for offset, (producer, act) in enumerate(acts):
        if act == "w":
            ends = [other for who, other in acts[offset:] if who == producer and other != "w"]
            outcomes[offset] = ends[0] if ends else None
    counted = [offset for offset, outcome in outcomes.items() if outcome == "c"]
    found = decide(log, stable=0)

    assert ({b"k": str(max(counted)).encode()} if counted else {}) == found.entries
    assert (None in outcomes.values()) == (b"k" in found.undecided)


def test_batches_of_a_fetch_are_unpacked_each_with_its_own_records():
    """Markers, a batch that compaction emptied, and records without a key lie in between."""
    fetched = b"".join(
        [
            batch(0, [(b"a", b"1"), (None, b"-"), (b"b", None)], OURS),
            batch(3, [], OURS),
            marker(4, OURS),
            batch(5, [(b"c", b"2")], THEIRS),
        ]
    )

    assert [
        Written(OURS, ((0, b"a", b"1"), (2, b"b", None))),
        Written(OURS, aborts=False),
        Written(THEIRS, ((5, b"c", b"2"),)),
    ] == list(read(list(headers_of(fetched)), fetched))


def batch(base, rows, producer, attributes=0):
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    builder.set_producer_state(producer, 0, 0, True)
    for key, value in rows:
        builder.append(0, key, value)
    builder.close()
    data = bytearray(builder.buffer())
    data[:8] = base.to_bytes(8, "big")
    data[22] |= attributes
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def marker(base, producer):
    return batch(base, [(b"\x00\x00\x00\x01", b"")], producer, attributes=CONTROL)
