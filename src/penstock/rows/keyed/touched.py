"""The keys that a commit changes, as they are kept with it until it lands (docs/design/0243).

One row a key: the key and its digest, whether a row is brought for it, the record it comes from,
and where that row lies: the ordinal of its file, -1 for a delete, and its position there. After
them, rows of the commit's own files that later changes of the same commit supersede: they are
deleted where they lie. As Arrow streams, compressed, after their checksum; the names of key and
source columns and the partitions are in the metadata, so that a commit is resolved by what it says
itself, whatever the spec says by then. A slice writes such a part for what it netted; `merge.py`
makes one of all parts of an epoch.

Invariants:
- what was damaged, or is of a newer version, is refused (P191, P190), never half understood;
- the digests of keys that have to be hashed are hashed once, where the part is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.rows.arrow_arrays import Mask, mask_of
from penstock.rows.keyed.digest import is_hashed, key_digests
from penstock.rows.keyed.net import Changes

VERSION = 3
"""Of a retry; with a sequence it is 2, of others 1, which former releases read."""
SOURCE = ("topic", "partition", "offset")
"""What the source columns of a row that a change is compared with hold."""
_CHECKSUM_BYTES = 4
_ABOUT = b"penstock"
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")
_DIGEST = "_digest"
_GONE = "_gone"
_PLACES = ("_upsert", "_counts", "_lane", "_offset", "_sub", "_file", "_row")
_SUPERSEDED = ("_file", "_row")
_DAMAGED = (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError)


class Retry(StrEnum):
    """What a retry may do to a key: replace or delete its row, or also bring one where it has none
    now.
    """

    REPLACES = "replaces"
    INSERTS = "inserts"


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """Keys that are touched, and of each the record, and the row that it brings.

    `source` names the table's source columns by what they hold: topic, partition, offset; it is
    empty where the table lacks one. `lanes` are partitions in the order of the fold; `lane`,
    `offset` and `sub` are the place of a change in it. `counts` is false for the half of a change
    of key that deletes the former one. `gone` says which rows are those of deleted keys; it is None
    where no change brings one. `sequence` are columns by which a change is later than another, by
    name; none where the order of the log decides. `superseded_file` and `superseded_row` are rows
    of the commit's own files that later changes supersede; `across` counts the keys that the commit
    changes in two partitions. `retry` is None but for records that were rejected before.
    """

    names: tuple[str, ...]
    source: Mapping[str, str]
    lanes: tuple[TopicPartition, ...]
    keys: tuple[pa.Array, ...]
    digests: pa.Array
    upsert: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.bool_]
    lane: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    sub: npt.NDArray[np.int8]
    file: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    superseded_file: npt.NDArray[np.int32]
    superseded_row: npt.NDArray[np.int64]
    across: int = 0
    gone: Mask | None = None
    sequence: Mapping[str, pa.Array] = field(default_factory=dict)
    retry: Retry | None = None

    def __post_init__(self) -> None:
        numbers = (self.upsert, self.counts, self.lane, self.offset, self.sub, self.file, self.row)
        assert {len(self.digests)} == {len(each) for each in numbers}, "one of each a key"

    @property
    def deletes(self) -> Mask:
        """Return which changes delete their key, whether they bring a row or not."""
        return ~self.upsert if self.gone is None else ~self.upsert | self.gone

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of the key's columns."""
        return {name: key.type for name, key in zip(self.names, self.keys, strict=True)}


def touched_to_bytes(
    changes: Changes,
    names: Sequence[str],
    lanes: Sequence[TopicPartition],
    places: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]],
    source: Mapping[str, str],
    *,
    flag: str | None = None,
    sequence: Sequence[str] = (),
    retry: Retry | None = None,
) -> bytes:
    """Write the keys of net changes; `places` are files and rows, -1 of those that bring none.

    `flag` is the column that is true in the rows of deleted keys, `sequence` are those by which
    changes compare. `retry` is as in `TouchedRows`.
    """
    keys = tuple(changes.rows.column(name) for name in names)
    file, row = places
    return written(
        TouchedRows(
            names=tuple(names),
            source=source,
            lanes=tuple(lanes),
            keys=keys,
            digests=key_digests(keys),
            upsert=changes.upsert,
            counts=changes.counts,
            lane=changes.lane,
            offset=changes.offset,
            sub=changes.sub,
            file=file,
            row=row,
            superseded_file=np.zeros(0, np.int32),
            superseded_row=np.zeros(0, np.int64),
            gone=None if flag is None else mask_of(changes.rows.column(flag)),
            sequence={name: changes.rows.column(name) for name in sequence},
            retry=retry,
        )
    )


def written(touched: TouchedRows) -> bytes:
    """Write keys that are touched."""
    about = {
        "v": VERSION if touched.retry else 2 if touched.sequence else 1,
        "keys": [*touched.names],
        "source": dict(touched.source),
        "lanes": [[at.topic_id, at.partition, at.topic] for at in touched.lanes],
        "across": touched.across,
        **({"sequence": [*touched.sequence]} if touched.sequence else {}),
        **({"retry": str(touched.retry)} if touched.retry else {}),
    }
    columns = [*touched.keys, *([touched.digests] if is_hashed(touched.digests) else [])]
    names = [*(f"k{place}" for place in range(len(touched.keys))), _DIGEST][: len(columns)]
    numbers = (
        touched.upsert,
        touched.counts,
        touched.lane,
        touched.offset,
        touched.sub,
        touched.file,
        touched.row,
    )
    if touched.gone is not None:
        columns, names = [*columns, pa.array(touched.gone)], [*names, _GONE]
    columns += touched.sequence.values()
    names += (f"s{place}" for place in range(len(touched.sequence)))
    rows = pa.RecordBatch.from_arrays([*columns, *map(pa.array, numbers)], [*names, *_PLACES])
    superseded = pa.RecordBatch.from_arrays(
        [pa.array(touched.superseded_file), pa.array(touched.superseded_row)], [*_SUPERSEDED]
    )
    sink = pa.BufferOutputStream()
    for batch in (rows.replace_schema_metadata({_ABOUT: json.dumps(about)}), superseded):
        with pa.ipc.new_stream(sink, batch.schema, options=_ZSTD) as stream:
            stream.write_batch(batch)
    streams = sink.getvalue()
    return crc32(streams).to_bytes(_CHECKSUM_BYTES) + bytes(streams)


def touched_from_bytes(content: bytes) -> TouchedRows:
    """Read what was written. Raises InvalidError (P190 a newer version, P191 damaged)."""
    with _reading():
        streams = memoryview(content)[_CHECKSUM_BYTES:]
        if crc32(streams).to_bytes(_CHECKSUM_BYTES) != content[:_CHECKSUM_BYTES]:
            raise ValueError("the checksum is another one")
        source = pa.BufferReader(pa.py_buffer(streams))
        rows, superseded = (
            pa.ipc.open_stream(source).read_all().combine_chunks() for _ in range(2)
        )
        about = json.loads(rows.schema.metadata[_ABOUT])
        if about["v"] > VERSION:
            raise InvalidError(
                f"the keys of this pending commit have version {about['v']}, and this penstock "
                f"reads up to {VERSION}",
                code="P190",
                hint="use the newer penstock that wrote it, or upgrade this one",
            )
        names = tuple(about["keys"])
        keys = tuple(_whole(rows, f"k{place}") for place in range(len(names)))
        upsert, counts, *numbers = (_whole(rows, name) for name in _PLACES)
        lane, offset, sub, file, row = (each.to_numpy() for each in numbers)
        return TouchedRows(
            names=names,
            source=about["source"],
            lanes=tuple(TopicPartition(*each) for each in about["lanes"]),
            keys=keys,
            digests=_whole(rows, _DIGEST) if _DIGEST in rows.column_names else key_digests(keys),
            upsert=upsert.to_numpy(zero_copy_only=False),
            counts=counts.to_numpy(zero_copy_only=False),
            lane=lane,
            offset=offset,
            sub=sub,
            file=file,
            row=row,
            superseded_file=_whole(superseded, "_file").to_numpy(),
            superseded_row=_whole(superseded, "_row").to_numpy(),
            across=about["across"],
            sequence={
                name: _whole(rows, f"s{place}")
                for place, name in enumerate(about.get("sequence", ()))
            },
            gone=mask_of(_whole(rows, _GONE)) if _GONE in rows.column_names else None,
            retry=Retry(about["retry"]) if "retry" in about else None,
        )


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise InvalidError(
            f"these are no keys of a pending commit of Penstock: {type(error).__name__}: {error}",
            code="P191",
            hint="they were edited or damaged by others; restore the store from a backup",
        ) from error


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
