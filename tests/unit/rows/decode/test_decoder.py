"""Readers of schemas are kept, and what is kept is bounded in number and in bytes."""

from __future__ import annotations

import json

import pytest

from penstock.rows.decode import decoder
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError

OPTIONS = RowOptions({}, format="json-schema-envelope")
SIZE = 300


def schema(number: int) -> bytes:
    document = {"type": "struct", "doc": str(number), "fields": [{"type": "int64", "field": "a"}]}
    return json.dumps(document).encode().ljust(SIZE)


def test_a_reader_is_kept_under_a_short_name_of_its_schema() -> None:
    readers = ReaderCache()

    assert readers.of_text(schema(1), OPTIONS) is readers.of_text(schema(1), OPTIONS)
    assert readers.of_text(schema(1), OPTIONS) is not readers.of_text(schema(2), OPTIONS)
    parts = [part for place in readers._cached for part in place if isinstance(part, bytes)]
    assert [32, 32] == [len(part) for part in parts]


def test_readers_are_let_go_when_their_schemas_are_too_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder, "KEPT_BYTES_MAX", 10 * SIZE)
    readers = ReaderCache()

    counts = []
    for number in range(25):
        readers.of_text(schema(number), OPTIONS)
        counts.append(len(readers._cached))

    assert [*range(1, 11), *range(1, 11), *range(1, 6)] == counts


def test_what_a_schema_is_refused_for_is_kept_without_the_frames_it_came_by() -> None:
    readers = ReaderCache()
    depths = []
    for _ in range(3):
        with pytest.raises(RejectError) as refused:
            readers.of_text(b'{"type":"nope"}', OPTIONS)
        depths.append(len(refused.traceback))

    assert [depths[0]] * 3 == depths
