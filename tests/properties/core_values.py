"""Strategies for the core's values."""

from dataclasses import replace

from hypothesis import strategies as st

from penstock.core.accounting import Tally
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    DataFile,
    Keyed,
    Landed,
)
from penstock.core.offsets import OffsetRange, TopicPartition, span

texts = st.text(max_size=12)
counts = st.integers(0, 2**40)
partitions = st.builds(
    TopicPartition, st.sampled_from(["id-a", "id-b", "é/…"]), st.integers(0, 5), st.just("orders")
)
positions = st.dictionaries(partitions, counts, max_size=5)
ranges = st.tuples(counts, st.integers(1, 10**6)).map(lambda pair: span(pair[0], sum(pair)))
progress = st.dictionaries(partitions, ranges, max_size=5)
tallies = st.builds(
    Tally,
    counts,
    counts,
    st.dictionaries(texts, counts, max_size=3),
    st.dictionaries(texts, counts, max_size=3),
    counts,
)
keys = st.lists(texts, min_size=1, max_size=3, unique=True).map(tuple)
files = st.builds(DataFile, texts, counts, counts, progress, texts, texts)
ledgers = st.builds(
    Landed,
    chain=texts,
    cluster_id=texts,
    generation=counts,
    owner=texts,
    segment=counts,
    rules_hash=texts,
    offsets=positions,
    recent=st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
    valid_through_ms=st.none() | counts,
    keyed=st.none() | st.builds(Keyed, keys, st.booleans(), positions, compares_from=positions),
    grown=st.lists(st.dictionaries(partitions, counts, min_size=1, max_size=3), max_size=2).map(
        tuple
    ),
)
appends = st.builds(
    Committable,
    chain=st.builds(Chain, texts, texts),
    table_uuid=texts,
    segment=counts,
    commit_id=texts,
    attempt=texts,
    generation=counts,
    owner=texts,
    cluster_id=texts,
    epoch=counts,
    kind=st.sampled_from([CommitKind.APPEND, CommitKind.ANCHOR]),
    progress=progress,
    files=st.lists(files, max_size=3).map(tuple),
    rules_hash=texts,
    schema_id=st.integers(-1, 100),
    valid_through_ms=st.none() | counts,
    origins=positions,
    tallies=st.dictionaries(partitions, tallies, max_size=3),
)
row_deltas = st.builds(
    replace,
    appends,
    kind=st.just(CommitKind.ROW_DELTA),
    touched=st.none() | st.binary(max_size=9),
    keys=keys,
    compares_offsets=st.booleans(),
)
begins = st.builds(
    replace, appends, kind=st.just(CommitKind.ANCHOR), ends=positions, growths=counts
)
committables = appends | begins | row_deltas


def concatenated(first, second):
    """Join two stretches, where the second goes on exactly where the first ended."""
    joined = dict(first)
    for at, later in second.items():
        earlier = joined.get(at)
        assert earlier is None or earlier.stop == later.start, f"{at}: {earlier} then {later}"
        joined[at] = later if earlier is None else OffsetRange(earlier.start, later.stop)
    return joined
