"""What outlives a process comes back equal, and no text does more than raise InvalidError."""

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.core_values import committables, ledgers

from penstock.core.accounting import Tally
from penstock.core.commits import Chain, CommitId, CommitKind, DataFile, Keyed
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition, span
from penstock.core.serialization import (
    committable_from_json,
    committable_to_json,
    epochs_to_json,
    keyed_from_text,
    keyed_to_text,
    ledger_from_json,
    ledger_to_json,
    positions_to_json,
    progress_to_json,
)
from penstock.testing.prepared import origin, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
READERS = [ledger_from_json, committable_from_json]
COMMIT = prepared(
    CHAIN,
    {0: (0, 3)},
    files=[DataFile("a", 1, 2, {TopicPartition("i", 0, "t"): span(0, 3)})],
    origins={4: 7},
)

FULL = replace(
    COMMIT,
    valid_through_ms=5,
    leader_epochs={TopicPartition("i", 0, "t"): 4},
    tallies={TopicPartition("i", 0, "t"): Tally(3, 1, {"rule": 1}, {"parse": 1})},
)
LEDGER = replace(
    origin(CHAIN, {0: 1}),
    valid_through_ms=5,
    leader_epochs={TopicPartition("i", 0, "t"): 4},
    recent=((CommitId("c"), "files"),),
)
KEYED = replace(LEDGER, keyed=Keyed(("id", "region"), compares_offsets=True))
DELTA = replace(
    FULL,
    kind=CommitKind.ROW_DELTA,
    touched=b"\x00keys\xff",
    keys=("id",),
    compares_offsets=True,
    tallies={TopicPartition("i", 0, "t"): Tally(3, 1, {}, {}, 2)},
)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(ledgers)
def test_a_ledger_comes_back_equal(ledger):
    assert ledger == ledger_from_json(ledger_to_json(ledger))


@given(committables)
def test_a_committable_comes_back_equal(commit):
    assert commit == committable_from_json(committable_to_json(commit))


@given(ledgers)
def test_writing_again_gives_the_same_text(ledger):
    text = ledger_to_json(ledger)

    assert text == ledger_to_json(ledger_from_json(text))


@pytest.mark.parametrize("read", READERS)
@given(text=st.text() | documents.map(json.dumps))
def test_any_text_gives_a_value_or_an_invalid_error(read, text):
    with pytest.raises(InvalidError):
        read(text)


@given(st.data())
def test_a_ledger_with_one_thing_changed_gives_a_value_or_an_invalid_error(data):
    mutated_is_refused_or_read(ledger_from_json, ledger_to_json(KEYED), data)


@given(st.data())
def test_a_committable_with_one_thing_changed_gives_a_value_or_an_invalid_error(data):
    mutated_is_refused_or_read(committable_from_json, committable_to_json(DELTA), data)


def mutated_is_refused_or_read(read, text, data):
    document = json.loads(text)
    places = list(paths(document))
    *way, last = data.draw(st.sampled_from(places))
    holder = document
    for step in way:
        holder = holder[step]
    holder[last] = data.draw(documents)
    with suppress(InvalidError):
        read(json.dumps(document))


def paths(document, prefix=()):
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in items:
        yield (*prefix, key)
        yield from paths(value, (*prefix, key))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "9" * 10_000,
        '{"v":' + "9" * 10_000 + "}",
        '{"v":1e999}',
        '{"v":NaN}',
        "\ud800",
        "null",
        "",
    ],
    ids=["deep", "long number", "long version", "infinite", "nan", "surrogate", "null", "empty"],
)
def test_hostile_text_is_refused(read, text):
    with pytest.raises(InvalidError):
        read(text)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (ledger_from_json, ledger_to_json(origin(CHAIN, {0: 1}))),
        (committable_from_json, committable_to_json(COMMIT)),
    ],
    ids=["ledger", "committable"],
)
def test_a_newer_version_is_refused_with_what_it_needs(read, text):
    with pytest.raises(InvalidError, match="version 5") as refused:
        read(text.replace('"v":1', '"v":5'))

    assert "P190" == refused.value.code


def test_former_releases_refuse_what_has_a_sequence():
    """They know version 2, and Delta's transactions by the name of the keys in them."""
    keyed = replace(KEYED.keyed, sequence=("lsn", "no"))
    ledger, delta = replace(KEYED, keyed=keyed), replace(DELTA, sequence=("lsn",))

    assert ledger == ledger_from_json(ledger_to_json(ledger))
    assert delta == committable_from_json(committable_to_json(delta))
    assert keyed == keyed_from_text(keyed_to_text(keyed))
    assert (3, 3) == (
        json.loads(ledger_to_json(ledger))["v"],
        json.loads(committable_to_json(delta))["v"],
    )
    assert (2, 2) == (
        json.loads(ledger_to_json(KEYED))["v"],
        json.loads(committable_to_json(DELTA))["v"],
    )
    assert "keys" not in json.loads(keyed_to_text(keyed))


def test_a_row_delta_comes_back_with_its_keys_and_former_releases_refuse_it():
    text = committable_to_json(DELTA)

    assert DELTA == committable_from_json(text)
    assert (2, 1) == (json.loads(text)["v"], json.loads(committable_to_json(COMMIT))["v"])
    for damaged in ("%%%", 5, None, ["a"]):
        with pytest.raises(InvalidError) as refused:
            committable_from_json(json.dumps({**json.loads(text), "touched": damaged}))
        assert "P191" == refused.value.code


def test_the_ledger_of_a_keyed_chain_is_refused_by_releases_that_would_append():
    text = ledger_to_json(KEYED)
    data = json.loads(text)

    assert KEYED == ledger_from_json(text)
    assert 2 == data["v"]
    assert {"keys": ["id", "region"], "compares_offsets": True} == data["keyed"]
    since = replace(KEYED, keyed=replace(KEYED.keyed, since=KEYED.offsets))
    assert since == ledger_from_json(ledger_to_json(since)) != KEYED
    for damaged in (
        {**data, "v": 1},
        {name: value for name, value in data.items() if name != "keyed"},
        {**data, "keyed": {"keys": [], "compares_offsets": True}},
        {**data, "keyed": {"keys": ["id", "id"], "compares_offsets": True}},
        {**data, "keyed": {"keys": "id", "compares_offsets": True}},
        {**data, "keyed": {"keys": ["id"], "compares_offsets": 1}},
        {**data, "keyed": {"keys": ["id"]}},
        {**data, "keyed": None},
    ):
        with pytest.raises(InvalidError) as refused:
            ledger_from_json(json.dumps(damaged))
        assert "P191" == refused.value.code


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"keys":["id"]}', '{"keys":[1]}'])
def test_a_text_that_says_no_keys_is_refused(text):
    with pytest.raises(InvalidError) as refused:
        keyed_from_text(text)
    assert "P191" == refused.value.code


@pytest.mark.parametrize("more", [[0], [-1], [None], ["1"], [1, 1]])
def test_what_was_superseded_is_written_only_where_it_is_not_0(more):
    data = json.loads(committable_to_json(COMMIT))
    data["tallies"] = [["i", 0, "t", 3, 3, {}, {}, *more]]

    with pytest.raises(InvalidError):
        committable_from_json(json.dumps(data))


def test_the_text_of_a_ledger_is_as_the_tables_have_it():
    """Ledgers are kept in tables for years: this text may be added to, and not changed."""
    assert (
        '{"chain":"shop","cluster":"cluster-1","generation":1,'
        '"leader_epochs":[],"owner":"owner-1","recent":[],'
        '"rules":"rules-1","segment":0,"topics":{"AAAAAAAAAAAAAAAAAAAAAQ":{"name":"orders",'
        '"offsets":{"0":5}}},"v":1,"valid_through_ms":null}'
    ) == ledger_to_json(origin(CHAIN, {0: 5}))


@pytest.mark.parametrize("empty", ["", {}, 0, None, False])
@pytest.mark.parametrize("name", ["files", "progress", "leader_epochs", "tallies", "origins"])
def test_what_has_no_members_is_not_taken_for_an_empty_list(name, empty):
    """Without its files a commit would move the ledger past records that never landed."""
    data = {**json.loads(committable_to_json(COMMIT)), name: empty}
    if (name, empty) == ("origins", {}):
        return  # an object is valid there

    with pytest.raises(InvalidError):
        committable_from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", 0),
        ("leader_epochs", [["t", 0, "orders", 1], ["t", 0, "orders", 2]]),
        ("topics", {"t": {"name": "orders", "offsets": {}}}),
        ("topics", {"t": {"name": "orders", "offsets": {"00": 1}}}),
        ("topics", {"t": {"name": "orders", "offsets": {"1_0": 1}}}),
        ("recent", {}),
        ("recent", ["ab"]),
    ],
)
def test_a_ledger_that_says_a_thing_in_another_way_is_refused(name, value):
    data = {**json.loads(ledger_to_json(origin(CHAIN, {0: 1}))), name: value}

    with pytest.raises(InvalidError):
        ledger_from_json(json.dumps(data))


def full(text):
    """Return the places of a document with a number or a text, and the document."""
    document = json.loads(text)
    leaves = [place for place in paths(document) if type(held(document, place)) in (int, str)]
    return document, leaves


def held(document, place):
    for step in place:
        document = document[step]
    return document


@pytest.mark.parametrize(
    ("read", "document", "place"),
    [
        (read, document, place)
        for read, (document, leaves) in (
            (ledger_from_json, full(ledger_to_json(LEDGER))),
            (ledger_from_json, full(ledger_to_json(KEYED))),
            (committable_from_json, full(committable_to_json(FULL))),
            (committable_from_json, full(committable_to_json(DELTA))),
        )
        for place in leaves
    ],
)
def test_a_thing_of_another_kind_is_refused_everywhere(read, document, place):
    """A text of a digit, a half, a truth are no whole numbers; a number is no text."""
    wrong = ["1", 1.0, True] if isinstance(held(document, place), int) else [1, ["a"], {"a": 1}]
    for value in [*wrong, [], {}]:
        changed = deepcopy(document)
        held(changed, place[:-1])[place[-1]] = value
        with pytest.raises(InvalidError):
            read(json.dumps(changed))


def test_names_are_written_in_the_text_as_people_write_them():
    assert "bestellungen-größe" in ledger_to_json(replace(LEDGER, chain="bestellungen-größe"))


def test_the_text_of_ranges_does_not_depend_on_their_order():
    ranges = {TopicPartition("i", number, "t"): span(0, 3) for number in (2, 0, 1)}

    assert [0, 1, 2] == [number for _, number, *_ in progress_to_json(ranges)]
    (topic,) = positions_to_json(dict.fromkeys(ranges, 0)).values()
    assert ["0", "1", "2"] == [*topic["offsets"]]
    epochs = dict.fromkeys(ranges, 1)
    assert [0, 1, 2] == [number for _, number, *_ in epochs_to_json(epochs)]


def test_the_text_of_a_commit_does_not_depend_on_the_order_of_its_books():
    books = [(TopicPartition("t", n, "orders"), Tally(n, n, {}, {})) for n in range(3)]

    assert committable_to_json(replace(COMMIT, tallies=dict(books))) == committable_to_json(
        replace(COMMIT, tallies=dict(reversed(books)))
    )
