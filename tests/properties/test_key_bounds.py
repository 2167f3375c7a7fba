"""A file with a touched key is never left out of a look-up, whatever its bounds are cut to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251  seeded
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.readers.lakes import Lakes, chain
from tests.properties.nasty_values import NOT_OF_DELTA, values_of

from penstock.core.schema import Decimal, Field, Fixed, Kind, Struct, Type
from penstock.ports.tables import TableDefinition
from penstock.rows.arrow_types import arrow_type
from penstock.rows.keyed.file_bounds import KeyBounds

FILES, ROWS = 24, 3
BOUNDED: dict[str, Type] = {
    "i": Kind.INT,
    "l": Kind.LONG,
    "s": Kind.STRING,
    "on_day": Kind.DATE,
    "local": Kind.TIMESTAMP,
    "ts": Kind.TIMESTAMPTZ,
    "n9": Decimal(9, 2),
    "n38": Decimal(38, 10),
}
ROUNDED = "n38"
"""Others state rounded bounds of it in Delta, so that none is believed."""
ELSE: dict[str, Type] = {
    "ok": Kind.BOOLEAN,
    "b": Kind.BINARY,
    "u": Kind.UUID,
    "tod": Kind.TIME,
    "x": Fixed(4),
}


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lakes]:
    lakes = Lakes(tmp_path)
    yield lakes
    lakes.close()


@pytest.mark.parametrize("table", ["lake.shop.t", "delta.shop.t"])
def test_a_file_that_holds_a_key_is_never_left_out(lakes: Lakes, table: str) -> None:
    random = Random(11)
    every = BOUNDED | ELSE
    columns = {
        name: type_
        for name, type_ in every.items()
        if not (table.startswith("delta") and type_ in NOT_OF_DELTA)
    }
    schema = Struct((Field("id", Kind.LONG), *(Field(*each) for each in columns.items())))
    lakes.create(table, TableDefinition(schema))
    held: dict[str, list[dict[str, Any]]] = {}
    for number in range(FILES):
        rows = [
            {"id": number * ROWS + at, **{n: random.choice(values_of(columns[n])) for n in columns}}
            for at in range(ROWS)
        ]
        [file] = lakes.landed(table, rows).files
        held[file.path] = rows
    files = lakes.table(table).live_files(lakes.table(table).state(chain(table)))
    assert len(held) == len(files)

    for name, type_ in columns.items():
        left_out = 0
        for value in values_of(type_):
            keys = KeyBounds((name,), (pa.array([value], arrow_type(type_)),))
            for file in files:
                may = keys.may_be_in(file.bounds)
                assert may or value not in [row[name] for row in held[file.path]], (name, value)
                left_out += not may
        unknown = name in ELSE or (name == ROUNDED and table.startswith("delta"))
        assert left_out or unknown, name
