"""Reads one table for one chain: protocol, columns, transactions, log, and the witnesses' verdict.

Invariants:
- everything is of one version: that of the handle, which goes into the state and back to commit;
- a table that asks its writers for what we do not honour gives no state, but the feature's name.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.faults import moved, reading
from penstock.connectors.delta.features import Demands, require_honourable
from penstock.connectors.delta.ledger import (
    FILE,
    GENERATION,
    ROLLED_BACK,
    SEQUENCE,
    app_id,
    file_hash,
)
from penstock.connectors.delta.log import Log
from penstock.connectors.delta.places import Root
from penstock.connectors.delta.schemas import schema_of
from penstock.connectors.delta.target import Sizes, Target, indexed_by, target_to_json
from penstock.connectors.delta.witnesses import Facts, Judgement, judge
from penstock.core.commits import Chain
from penstock.core.schema import Schema
from penstock.ports.tables import TableState, Verdict


@dataclass(slots=True)
class Examined:
    """Hold the handle a state was read from, for one commit."""

    table: Handle = field(repr=False)
    version: int
    partition_by: tuple[str, ...]
    head_entry: bytes | None = field(repr=False)
    used: bool = False

    def use(self, name: str) -> None:
        """Take the handle for the one commit it is good for. Raises ConflictError."""
        if self.used:
            raise moved(name, "a commit was tried on this state before")
        self.used = True


def examined(name: str, location: str, root: Root, sizes: Sizes, chain: Chain) -> TableState:
    """Read a table afresh. Raises UnavailableError, InvalidError (P435, P436, P438)."""
    log = Log(root.filesystem(), location)
    with reading(name):
        handle = Handle(location, storage_options=dict(root.options))
        metadata, version = handle.metadata(), handle.version()
        head_entry = log.raw(version)
        text = handle.schema().to_json()
    require_honourable(name, _demands(handle, metadata.configuration))
    schema = schema_of(text, name)
    partition_by = tuple(metadata.partition_columns)
    judgement = _judgement(name, handle, log, chain)
    target = Target(
        table=name,
        location=location,
        schema=schema,
        partition_by=partition_by,
        indexed=indexed_by(metadata.configuration),
        sizes=sizes,
        storage=root.public,
    )
    return TableState(
        uuid=str(metadata.id),
        head=str(version),
        schema=schema,
        schema_id=_schema_id(schema, partition_by),
        landed=judgement.landed,
        verdict=judgement.verdict,
        evidence=judgement.evidence,
        target=target_to_json(target),
        handle=Examined(handle, version, partition_by, head_entry),
    )


def _demands(handle: Handle, configuration: Mapping[str, str]) -> Demands:
    protocol = handle.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    return Demands(protocol.min_writer_version, sorted(features), configuration)


def _judgement(name: str, handle: Handle, log: Log, chain: Chain) -> Judgement:
    def version_of(kind: str) -> int | None:
        found: int | None = handle.transaction_version(app_id(chain.name, kind))
        return found

    def file_is_live() -> bool | None:
        landed = version_of(FILE)
        if landed is None:
            return None
        names = (uri.rpartition("/")[2] for uri in handle.file_uris())
        return any(file_hash(each) == landed for each in names)

    with reading(name):
        generation, sequence = version_of(GENERATION), version_of(SEQUENCE)
        if generation is None or sequence is None:
            return Judgement(Verdict.ABSENT, f"no transaction of {chain.name}", None)
        head = handle.version()
        return judge(
            Facts(
                chain=chain.name,
                generation=generation,
                sequence=sequence,
                rolled_back=version_of(ROLLED_BACK),
                entries=[log.entry(version) for version in range(sequence, head + 1)],
                transactions=lambda: log.transactions(head),
                file_is_live=file_is_live,
            )
        )


def _schema_id(schema: Schema, partition_by: tuple[str, ...]) -> int:
    """Give a number for the columns, since Delta numbers no schemas."""
    return zlib.crc32(f"{schema} by {partition_by}".encode()) >> 1
