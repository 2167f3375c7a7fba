"""Where a job's records are sorted, converted and written: open writers, books, and shelves.

Invariants:
- the books of a table balance: examined = landed + filtered + quarantined;
- a table that fails gets nothing from this job, and the others go on;
- all writers together hold at most `held_bytes_max` and one portion of a batch: the fullest is
  finished early.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, Struct, known, united
from penstock.landing.converting import converted_for
from penstock.landing.jobs import Coordinate, Job, LaneResult, Poison, TableJob
from penstock.landing.refusing import counted, nowhere, refuse, with_rejects
from penstock.landing.shelf import Shelf
from penstock.ports.log import RangeReader
from penstock.ports.running import Clock, Observer
from penstock.ports.tables import FileWriter, WriterFactory
from penstock.rows.codes import Code
from penstock.rows.computing import Functions, no_functions
from penstock.rows.convert import Converted, Reject
from penstock.rows.gate import Route
from penstock.rows.infer import columns_in
from penstock.rows.opening import Readers
from penstock.rows.options import Policy, RowOptions
from penstock.rows.portions import Growth, portions
from penstock.rows.quarantine import quarantine_rows
from penstock.rows.sorting import Mask, Share, Sorter
from penstock.rows.survey import survey
from penstock.rows.wishing import wished

_OF_TYPES = {
    Code.MISSING,
    Code.WRONG_TYPE,
    Code.OUT_OF_RANGE,
    Code.INEXACT,
    Code.UNREADABLE,
}
Files = dict[str, tuple[DataFile, ...]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with: `writers` by connector name, `readers` by a registry's settings,
    `functions` by their import path.
    """

    reader: RangeReader
    writers: Mapping[str, WriterFactory]
    observer: Observer
    clock: Clock
    readers: Callable[[Mapping[str, Any] | None], Readers] = lambda _: Readers()
    functions: Functions = no_functions


@dataclass(slots=True)
class Bench:
    """The open writers and books of one job."""

    job: Job
    tools: Tools
    schemas: dict[str, Schema] = field(default_factory=dict)
    wanted: dict[str, dict[str, Schema]] = field(default_factory=dict)
    tallies: dict[str, dict[TopicPartition, Tally]] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    _growths: dict[str, Growth] = field(default_factory=dict)
    _rows: Shelf = field(init=False)
    _rejects: Shelf = field(init=False)

    def __post_init__(self) -> None:
        self._rows = Shelf(self._writer, self.job.held_bytes_max)
        self._rejects = Shelf(self._reject_writer, self.job.held_bytes_max)

    def wants_headers(self, lane: Lane) -> bool:
        """Tell whether a table of the lane needs headers."""
        tables = [self.job.tables[name] for name in lane.tables]
        return any(table.wants_headers(lane.at.topic) for table in tables)

    def take(self, lane: Lane, batch: pa.RecordBatch) -> None:
        """Turn one batch into rows of every table of its lane, by portions that can be held."""
        if self.job.poison:
            batch = self._without_poison(lane, batch)
        growths = [self._growth(name) for name in lane.tables if name not in self.failed]
        for portion in portions(batch, growths):
            self._take(lane, portion)

    def _growth(self, name: str) -> Growth:
        if name not in self._growths:
            table = self.job.tables[name]
            self._growths[name] = Growth.of(table.schema, table.options)
        return self._growths[name]

    def _take(self, lane: Lane, batch: pa.RecordBatch) -> None:
        """Turn records into rows of every table of their lane; equal work is done once."""
        sorter = Sorter(batch, lane.at, self._routes(lane))
        done: list[tuple[TableJob, Converted]] = []
        for name in lane.tables:
            if name in self.failed:
                continue
            table = self.job.tables[name]
            try:
                share = self._share(name, table, sorter)
                if self.job.survey:
                    self._survey(self.schemas, name, table, batch.filter(share.mine))
                elif share.mine.any() or not table.gate(lane.at.topic).share:
                    self._land(name, table, sorter, share, done)
            except (UnavailableError, InvalidError) as error:
                self.fail(name, error)

    def _routes(self, lane: Lane) -> frozenset[str]:
        """List the routes, by their templates, that look at the records of a lane."""
        names = (name for name in lane.tables if name not in self.failed)
        gates = [self.job.tables[name].gate(lane.at.topic) for name in names]
        return frozenset(each.route.template for each in gates if each.route and not each.share)

    def fail(self, name: str, error: PenstockError) -> None:
        """Give up on one table in this job: what it wrote is left over, the others go on."""
        self.failed.setdefault(name, error)
        self.tallies.pop(name, None)
        self._rows.abandon(name)
        self._rejects.abandon(name)

    def finish(self, lanes: list[LaneResult]) -> tuple[Files, Files]:
        """Close all files and note the source ranges whose rows they may hold."""
        ranges: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for result in lanes:
            if result.reached > result.lane.covered.start:
                for name in result.lane.tables:
                    covered = OffsetRange(result.lane.covered.start, result.reached)
                    ranges[name][result.lane.at] = covered
        files = self._finished(self._rows, ranges)
        rejects = self._finished(self._rejects, ranges)
        return (
            {name: each for name, each in files.items() if name not in self.failed},
            {name: each for name, each in rejects.items() if name not in self.failed},
        )

    def _without_poison(self, lane: Lane, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse records that kill whoever looks at them, for each table or route of their lane.

        A survey knows nothing of tables, so it passes over all that kills.
        """
        kinds = Poison if self.job.survey else (Poison.LOOKED_AT,)
        here = self._is_poison(lane.at, batch, kinds)
        if not here.any() or self.job.survey:
            return batch.filter(pa.array(~here))
        sorter = Sorter(batch.filter(pa.array(here)), lane.at)
        for name in lane.tables:
            table = self.job.tables[name]
            if name in self.failed or table.gate(lane.at.topic).share:
                continue  # for a table of a route, the route refuses it
            offsets = sorter.batch.column("offset").to_numpy()
            rejects = refuse(Code.POISON, offsets[_fresh(table, sorter)])
            self._refuse(name, sorter, rejects)
            books = self.tallies.setdefault(name, {})
            tally = Tally(examined=len(rejects), quarantined=counted(rejects))
            books[lane.at] = books.get(lane.at, Tally()) + tally
        return batch.filter(pa.array(~here))

    def _is_poison(
        self, at: TopicPartition, batch: pa.RecordBatch, kinds: Iterable[Poison]
    ) -> Mask:
        poison = [where for where, kills in self.job.poison.items() if kills in kinds]
        offsets = np.array(_offsets_at(poison, at), np.int64)
        here: Mask = np.isin(batch.column("offset").to_numpy(), offsets)
        return here

    def _share(self, name: str, table: TableJob, sorter: Sorter) -> Share:
        """Tell which records are for a table, without those whose fate was decided before."""
        fresh = _fresh(table, sorter)
        gate = table.gate(sorter.at.topic)
        if gate.is_open:
            return Share(fresh, {}, {})
        readers = self.tools.readers(table.registry)
        share = sorter.share(gate, table.options, known=table.known, readers=readers)
        if gate.route is not None and share.unknown:
            share = self._strangers(name, table, gate.route, sorter, share)
        filtered = {reason: mask & fresh for reason, mask in share.filtered.items()}
        refused = {index: reject for index, reject in share.refused.items() if fresh[index]}
        return Share(share.mine & fresh, filtered, refused)

    def _strangers(
        self, name: str, table: TableJob, route: Route, sorter: Sorter, share: Share
    ) -> Share:
        """Judge records whose table does not exist: it is asked for, or they are refused."""
        if route.unknown == "fail":
            first = next(iter(share.unknown))
            raise InvalidError(
                f"{name}: a record asks for {first}, which does not exist",
                code="P465",
                hint="create the table, or set  unknown_tables: quarantine",
            )
        filtered, refused = dict(share.filtered), dict(share.refused)
        wanted = self.wanted.setdefault(name, {})
        for stranger, asking in share.unknown.items():
            if route.unknown != "create" or not table.room:
                refused |= sorter.refuse(asking, route)
                continue
            if stranger in wanted or len(wanted) <= table.room:
                self._survey(wanted, stranger, table, sorter.batch.filter(asking))
            filtered["routed"] = filtered["routed"] | asking
        return Share(share.mine, filtered, refused)

    def _survey(
        self, into: dict[str, Schema], name: str, table: TableJob, batch: pa.RecordBatch
    ) -> None:
        readers = self.tools.readers(table.registry)
        found = survey(batch, table.options, readers, columns_max=self.job.columns_max)
        into[name] = united((into.get(name, Struct(())), found))

    def _land(
        self,
        name: str,
        table: TableJob,
        sorter: Sorter,
        share: Share,
        done: list[tuple[TableJob, Converted]],
    ) -> None:
        converted = next((c for t, c in done if _alike(t, table)), None)
        if converted is None:
            converted = self._converted(table, sorter, share)
            done.append((table, converted))
        self._mind_schema(name, table, sorter, converted)
        if converted.rows.num_rows:
            self._rows.write(name, converted.rows)
        rejects = [*converted.rejects]
        if share.refused:
            rejects = sorted((*rejects, *share.refused.values()), key=lambda each: each.offset)
        self._refuse(name, sorter, rejects)
        filtered = {reason: int(mask.sum()) for reason, mask in share.filtered.items()}
        kept = {reason: count for reason, count in filtered.items() if count}
        tally = Tally(
            examined=int(share.mine.sum()) + sum(kept.values()) + len(share.refused),
            landed=converted.rows.num_rows,
            filtered={**converted.filtered, **kept},
            quarantined=counted(rejects),
        )
        books = self.tallies.setdefault(name, {})
        books[sorter.at] = books.get(sorter.at, Tally()) + tally

    def _converted(self, table: TableJob, sorter: Sorter, share: Share) -> Converted:
        """Convert a table's records; where there is none, those that give it no column are refused.

        Raises UnavailableError (P462) when one does: it was beyond what was surveyed.
        """
        kills = self._is_poison(sorter.at, sorter.batch, (Poison.CONVERTED,)) & share.mine
        takes = share.mine & ~kills
        mine = sorter.batch if takes.all() else sorter.batch.filter(takes)
        readers = self.tools.readers(table.registry)
        converted = converted_for(table, mine, sorter.at, readers, self.tools.functions)
        deadly = refuse(Code.POISON, sorter.batch.column("offset").to_numpy()[kills])
        converted = with_rejects(converted, deadly)
        if table.destination is not None:
            return converted
        seen: dict[str, Schema] = {"": Struct(())}
        if any(reject.code == Code.UNKNOWN_FIELD for reject in converted.rejects):
            self._survey(seen, "", table, mine)
        if known(seen[""]).fields:
            raise UnavailableError(
                "records beyond those that were surveyed give the table columns",
                code="P462",
                hint="it is surveyed again in the next epoch",
            )
        return nowhere(converted)

    def _mind_schema(
        self, name: str, table: TableJob, sorter: Sorter, converted: Converted
    ) -> None:
        """Do for refused records what `columns` and `types` say: wish for a wider schema, or stop.

        Raises InvalidError (P467) under `freeze`.
        """
        options = table.options
        if not {"evolve", "freeze"} & {options.columns, options.types}:
            return
        minded = {
            reject.offset: reject
            for reject in converted.rejects
            if _policy(options, reject) in ("evolve", "freeze")
        }
        if not minded or table.destination is None:
            return
        for reject in minded.values():
            if _policy(options, reject) == "freeze":
                raise _frozen(name, reject)
        offsets = sorter.batch.column("offset").to_numpy()
        positions = np.searchsorted(offsets, np.array([*minded], np.int64))
        refused = sorter.batch.take(pa.array(positions))
        base = self.schemas.get(name, table.schema)
        room = table.room - _added(base, table.schema)
        wish = wished(refused, base, options, self.tools.readers(table.registry), room)
        if wish != table.schema:
            self.schemas[name] = wish

    def _refuse(self, name: str, sorter: Sorter, rejects: list[Reject]) -> None:
        if not rejects:
            return
        rows = quarantine_rows(
            sorter.batch,
            rejects,
            pipeline=self.job.pipeline,
            table=name,
            at=sorter.at,
            epoch=self.job.epoch,
            at_ms=self.job.now_ms,
        )
        self._rejects.write(name, rows)

    def _writer(self, name: str) -> FileWriter:
        destination = self.job.tables[name].destination
        assert destination is not None, "rows without a table are rejected before"
        return self.tools.writers[destination.connector](
            destination.target, prefix=self.job.prefix, observer=self.tools.observer
        )

    def _reject_writer(self, name: str) -> FileWriter:
        del name
        destination = self.job.quarantine
        return self.tools.writers[destination.connector](
            destination.target, prefix=f"{self.job.prefix}-q", observer=self.tools.observer
        )

    def _finished(
        self, shelf: Shelf, ranges: Mapping[str, Mapping[TopicPartition, OffsetRange]]
    ) -> Files:
        files: Files = {}
        for name in shelf.names:
            try:
                closed = shelf.close(name)
            except (UnavailableError, InvalidError) as error:
                self.fail(name, error)
                continue
            files[name] = tuple(replace(file, ranges=dict(ranges[name])) for file in closed)
        return files


def _policy(options: RowOptions, reject: Reject) -> Policy:
    """Give what is to be done about a refused record."""
    if reject.code == Code.UNKNOWN_FIELD:
        return options.columns
    return options.types if reject.code in _OF_TYPES else "quarantine"


def _frozen(name: str, reject: Reject) -> InvalidError:
    return InvalidError(
        f"{name} is frozen, and a record does not fit: {reject.message}",
        code="P467",
        hint="change the table, or set  schema.columns  or  schema.types  to something else",
    )


def _added(wide: Schema, schema: Schema) -> int:
    return columns_in(wide) - columns_in(schema)


def _fresh(table: TableJob, sorter: Sorter) -> Mask:
    """Tell which records were not decided on before (data.md 5)."""
    offsets = _offsets_at(table.already, sorter.at)
    if not offsets:
        return np.ones(len(sorter.batch), np.bool_)
    fresh: Mask = ~np.isin(sorter.batch.column("offset").to_numpy(), np.array(offsets, np.int64))
    return fresh


def _alike(first: TableJob, second: TableJob) -> bool:
    """Tell whether two tables get the same rows from a batch."""
    return (
        first.schema == second.schema
        and first.options == second.options
        and first.already == second.already
        and first.registry == second.registry
        and first.gates == second.gates
        and first.computed == second.computed
        and (first.destination is None) == (second.destination is None)
    )


def _offsets_at(coordinates: Iterable[Coordinate], at: TopicPartition) -> list[int]:
    return [
        o
        for topic_id, partition, o in coordinates
        if (topic_id, partition) == (at.topic_id, at.partition)
    ]
