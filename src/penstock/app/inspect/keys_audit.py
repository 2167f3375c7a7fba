"""`penstock audit --keys`: whether a table has one row for each key, before or after it is keyed.

A table that has been appended to may have several rows of a key, or rows without one. A run deletes
further rows of a key when the key changes, and leaves the others as they are: who changes the mode
of a rule wants to know how many there are.

Invariants:
- it writes nothing, reads no record, and takes any table of a catalog: ours or not;
- of each row it holds the digest of its key at most, of about `ROWS_MAX` rows at a time, whatever
  the keys are: rows are shared out by the hashes of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.assembly import assembly
from penstock.app.inspect.audit import Progressed
from penstock.app.inspect.metadata_audit import loaded, require_catalogs
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError, InvalidError, PenstockError, gravest
from penstock.core.key_columns import require_key_columns
from penstock.observe.formatting import number_of
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.keyed.digest import grouped, key_columns_of, key_digests
from penstock.rows.keyed.hashes import key_hashes
from penstock.spec.model import Pipeline

ROWS_MAX = 20_000_000
"""Sorted, they take 1 GB of memory, and 1.8 GB where keys are hashed (docs/design/0259)."""
EXAMPLES_MAX = 5


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key with several rows; `key` is a JSON object of its columns."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True)
class KeysAudit:
    """What was found of one table.

    `keyless` rows have a null in a column of the key. `repeated` keys have several rows, `surplus`
    in all beyond the first of each. `is_keyed`: the pipeline has changed rows in it.
    """

    table: str
    keys: tuple[str, ...]
    rows: int = 0
    keyless: int = 0
    repeated: int = 0
    surplus: int = 0
    examples: tuple[RepeatedKey, ...] = ()
    is_keyed: bool = False
    problem: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class KeysAudits:
    """What was found: exit code 4 where a key has several rows, else the gravest problem's."""

    tables: tuple[KeysAudit, ...]

    @property
    def exit_code(self) -> int:
        """Return the exit code (interface.md 2)."""
        if any(each.repeated for each in self.tables):
            return DecisionNeededError.exit_code
        return gravest(each.problem.exit_code for each in self.tables if each.problem is not None)


def audit_keys(
    pipeline: Pipeline,
    *,
    tables: Sequence[str] = (),
    keys: Sequence[str] = (),
    progressed: Progressed = lambda _: None,
) -> KeysAudits:
    """Audit the tables named by `keys`, or else by those of their rules; without names, the tables
    whose rules have keys.

    Raises InvalidError: P185 for a name in no catalog of the spec, P444 where no keys are known.
    """
    of_rules = {rule.table: tuple(rule.keys) for rule in pipeline.tables if rule.keys}
    modes = {rule.table: RowDeleteMode(rule.row_deletes) for rule in pipeline.tables}
    wanted = {name: tuple(keys) or of_rules.get(name, ()) for name in tables or of_rules}
    if unknown := [name for name, own in wanted.items() if not own] or (not wanted and ["spec"]):
        raise InvalidError(
            f"no rule says what the keys of {unknown[0]} are"
            if wanted
            else "no rule of the spec has keys",
            code="P444",
            hint="penstock audit lake.silver.orders --keys id",
        )
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        require_catalogs(wanted, catalogs)
        found = []
        for name, own in wanted.items():
            progressed(f"reading the keys of {name}")
            try:
                mode = modes.get(name, RowDeleteMode.AUTO)
                found.append(_audited(pipeline.name, catalogs, name, own, mode))
            except PenstockError as error:
                found.append(KeysAudit(name, own, problem=error))
        return KeysAudits(tuple(found))


def _audited(
    pipeline: str,
    catalogs: Mapping[str, TableFormat],
    name: str,
    keys: tuple[str, ...],
    mode: RowDeleteMode,
) -> KeysAudit:
    catalog, _, inner = name.partition(".")
    table = loaded(catalogs[catalog], inner, name)
    state = table.state(Chain(pipeline, name))
    require_key_columns(name, state.schema, keys)
    is_keyed = state.landed is not None and state.landed.keyed is not None
    found = replace(keys_of(table, state, keys), table=name, is_keyed=is_keyed)
    try:
        table.require_row_deletes(state, mode)
    except InvalidError as error:
        return replace(found, problem=error)
    return found


def keys_of(table: Table, state: TableState, keys: tuple[str, ...]) -> KeysAudit:
    """Count rows by key. Raises what reading the table raises."""
    types = {name: arrow_schema(state.schema).field(name).type for name in keys}
    rows = sum(file.rows - file.deleted for file in table.live_files(state))
    passes, repeated, surplus, keyless = -(-rows // ROWS_MAX) or 1, 0, 0, 0
    examples: list[pa.Array] = []
    for number in range(passes):
        parts = [key_digests([pa.array([], each) for each in types.values()])]
        for batch in _read(table, state, keys):
            columns, whole = key_columns_of(batch, types)
            keyless += int((~whole).sum()) if number == 0 else 0
            columns = [column.filter(pa.array(whole)) for column in columns]
            mine = pa.array(key_hashes(columns) % passes == number)
            parts.append(key_digests([column.filter(mine) for column in columns]))
        several, counts = _several(parts)
        repeated += len(counts)
        surplus += int(counts.sum()) - len(counts)
        examples.append(several[:EXAMPLES_MAX])
    shown = pa.concat_arrays(examples)[:EXAMPLES_MAX]
    return KeysAudit(
        "", keys, rows, keyless, repeated, surplus, _examples(table, state, types, shown)
    )


def _several(parts: Sequence[pa.Array]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the digests that are there several times, and how often each is."""
    digests = pa.concat_arrays(parts)
    order, begins = grouped(digests)
    counts = np.diff(begins, append=len(order))
    several = np.flatnonzero(counts > 1)
    return digests.take(pa.array(order[begins[several]])), counts[several]


def _examples(
    table: Table, state: TableState, types: Mapping[str, pa.DataType], digests: pa.Array
) -> tuple[RepeatedKey, ...]:
    """Return some keys in words; they are read again, for only their digests were kept."""
    counts = np.zeros(len(digests), np.int64)
    texts: dict[int, str] = {}
    for batch in _read(table, state, [*types]) if len(digests) else ():
        columns, whole = key_columns_of(batch, types)
        kept = batch.filter(pa.array(whole))
        own = key_digests([column.filter(pa.array(whole)) for column in columns])
        which = pc.index_in(own, value_set=digests)
        hits = np.flatnonzero(which.is_valid().to_numpy(zero_copy_only=False))
        numbers: npt.NDArray[np.int64] = which.drop_null().to_numpy().astype(np.int64)
        np.add.at(counts, numbers, 1)
        for row, number in zip(hits.tolist(), numbers.tolist(), strict=True):
            if number not in texts:
                key = kept.select([*types]).slice(row, 1).to_pylist()[0]
                texts[number] = json.dumps(key, default=str, ensure_ascii=False)
    return tuple(RepeatedKey(texts[n], int(counts[n])) for n in sorted(texts))


def _read(table: Table, state: TableState, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    read = partial(table.read_live, state, columns=columns)
    for file in table.live_files(state):
        yield from read(file)


def said(found: KeysAudit) -> list[str]:
    """Say in sentences what was found of a table."""
    key = ", ".join(found.keys)
    lines = [f"{number_of(found.rows, 'row')} by {key}"]
    if found.keyless:
        lines.append(
            f"{number_of(found.keyless, 'row')} with a null in the key: no change will touch them"
        )
    if not found.repeated:
        return [*lines, "ok: one row for each key"]
    lines.append(
        f"{number_of(found.repeated, 'key')} with several rows, {found.surplus:,} too many: the "
        "next change of a key leaves one of it, the others stay as they are"
    )
    return [*lines, *(f"  {each.key}: {each.rows:,} rows" for each in found.examples)]
