"""Which files are a pipeline's own, what is due, and what notes say."""

from __future__ import annotations

import pytest

from penstock.core.sweeps import (
    Note,
    StoredObject,
    SweepContext,
    noted_after,
    notes_from_json,
    notes_to_json,
    own_names,
    swept,
)

RANDOM = "0123456789abcdef"
OWN = (
    f"shop-12-0-0c0ffee0-{RANDOM}.parquet",
    f"shop-12-0-0c0ffee0-{RANDOM}.orc",
    f"shop-12-0-0c0ffee0-q-{RANDOM}.parquet",
    f"shop-12-0-0c0ffee0-sought-3-{RANDOM}.parquet",
    f"shop-{'a' * 32}-0c0ffee0-{RANDOM}-deletes.parquet",
    f"shop-{'a' * 32}-0c0ffee0-{RANDOM}-deletes.puffin",
    f"shop-closing-0c0ffee0-{RANDOM}.parquet",
    f"10010001-shop-12-0-0c0ffee0-{RANDOM}.parquet",
)
FREE = (
    f"shop-maintenance-0c0ffee0-{RANDOM}.parquet",
    f"shop-maintenance-0c0ffee0-{RANDOM}.orc",
    "snap-123-0-penstock-1dcbd5a2-0000-4000-8000-000000000000.avro",
    "penstock-1dcbd5a2-0000-4000-8000-000000000000-m3.avro",
)
OTHERS = (
    f"shop-eu-12-0-0c0ffee0-{RANDOM}.parquet",
    f"shop-1-12-0-0c0ffee0-{RANDOM}.parquet",
    f"10010002-shop-12-0-0c0ffee0-{RANDOM}.parquet",
    f"shop-maintenance-12-0-0c0ffee0-{RANDOM}.parquet",
    f"shop-eu-maintenance-0c0ffee0-{RANDOM}.parquet",
    "00042-1dcbd5a2-0000-4000-8000-000000000000.metadata.json",
    "1dcbd5a2-0000-4000-8000-000000000000-m0.avro",
    "snap-123-1-1dcbd5a2-0000-4000-8000-000000000000.avro",
    "part-00000-1dcbd5a2.c000.snappy.parquet",
    "deletion_vector_1dcbd5a2-0000-4000-8000-000000000000.bin",
    "unnamed-shop.json",
)


def stored(name: str, modified_ms: int = 0) -> StoredObject:
    return StoredObject(f"bucket/table/data/{name}", 10, modified_ms)


def context(*notes: Note, named: set[str] | None = None, **newest: str) -> SweepContext:
    return SweepContext(named or set(), notes, newest, 1000, horizon_ms=100, grace_ms=500)


def test_names_are_of_one_pipeline_however_alike_another_is() -> None:
    pattern = own_names("shop")
    assert [*OWN, *FREE] == [each for each in (*OWN, *FREE, *OTHERS) if pattern.fullmatch(each)]
    assert [*OWN] == [each for each in OWN if (m := pattern.fullmatch(each)) and m["claimed"]]
    assert not any((m := pattern.fullmatch(each)) and m["claimed"] for each in FREE)


@pytest.mark.parametrize("name", [*OWN, *FREE])
def test_a_file_is_new_then_waits_then_is_due(name: str) -> None:
    noted = Note(frozenset({name}), 400, {"shop.main": "c1"})
    young = Note(frozenset({name}), 501, {"shop.main": "c1"})
    pattern, files = own_names("shop"), [stored(name)]

    assert files == [*swept(files, pattern, context(**{"shop.main": "c2"})).new]
    assert files == [*swept(files, pattern, context(young, **{"shop.main": "c2"})).waiting]
    assert files == [*swept(files, pattern, context(noted, **{"shop.main": "c2"})).due]
    assert () == swept(files, pattern, context(noted, named={name})).unnamed
    assert () == swept([stored(name, 901)], pattern, context(noted)).unnamed


@pytest.mark.parametrize(("name", "fenced"), [*((each, True) for each in OWN), (FREE[0], False)])
def test_what_was_written_under_a_claim_waits_for_each_chain(name: str, fenced: bool) -> None:
    noted = Note(frozenset({name}), 0, {"shop.main": "c1", "shop/a.main": "q1"})
    one = context(noted, **{"shop.main": "c2", "shop/a.main": "q1"})
    both = context(noted, **{"shop.main": "c2", "shop/a.main": "q2"})
    never = context(Note(noted.names, 0, {}), **{"shop.main": "c2"})
    gone = context(noted, **{"shop.main": "c2"})
    pattern, files = own_names("shop"), [stored(name)]

    assert [fenced, False, fenced, fenced] == [
        bool(swept(files, pattern, each).unfenced) for each in (one, both, never, gone)
    ]


def test_notes_keep_what_nothing_names_and_are_read_as_they_were_written() -> None:
    old = Note(frozenset({OWN[0], OWN[1]}), 400, {"shop.main": "c1"})
    known = context(old, **{"shop.main": "c2"})
    found = swept([stored(OWN[0]), stored(OWN[2])], own_names("shop"), known)
    notes = noted_after(found, known)

    assert (
        Note(frozenset({OWN[0]}), 400, {"shop.main": "c1"}),
        Note(frozenset({OWN[2]}), 1000, {"shop.main": "c2"}),
    ) == notes
    assert notes == notes_from_json(notes_to_json(notes))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "notes": []}', '{"version": 1}'])
def test_damaged_notes_are_none(text: str) -> None:
    assert () == notes_from_json(text)
