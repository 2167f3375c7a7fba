"""Where a job's records are sorted, converted and written: open writers, books, and shelves.

Invariants:
- the books of a table balance: examined = landed + filtered + quarantined;
- a table that fails gets nothing from this job, and the others go on;
- all writers together hold at most `held_bytes_max` and one portion of a batch: the fullest is
  finished early.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, Struct, known, united
from penstock.landing.tables.foreign_errors import (
    CONVERT,
    SURVEY,
    WRITE,
    culprits,
    making,
    stretch,
    stretches,
)
from penstock.landing.tables.quarantined_offsets import is_among, offsets_of
from penstock.landing.task.convert import converted_for
from penstock.landing.task.messages import Job, LaneResult, Poison, TableJob
from penstock.landing.task.rejects import counted, frozen, nowhere, policy_for, refuse, with_rejects
from penstock.landing.task.writer_pool import Shelf
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import FileWriter, WriterFactory
from penstock.rows import bisection
from penstock.rows.convert.batch import Converted, Reject
from penstock.rows.decode.decoder import Readers, plain_readers
from penstock.rows.decode.portions import Growth, portions
from penstock.rows.quarantine.rows import quarantine_rows
from penstock.rows.reject_codes import Code
from penstock.rows.route.compute import Functions, no_functions
from penstock.rows.route.filters import Route
from penstock.rows.route.router import Mask, Share, Sorter
from penstock.rows.schema.evolution import wished
from penstock.rows.schema.inference import columns_in
from penstock.rows.schema.survey import survey

Files = dict[str, tuple[DataFile, ...]]
REASONS_MAX = 20
"""How many different messages of a table's rejects are counted in one job, the most frequent."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with: `writers` by connector name, `readers` by a registry's settings,
    `functions` by their import path.
    """

    reader: RangeReader
    writers: Mapping[str, WriterFactory]
    observer: Observer
    clock: Clock
    readers: Callable[[Mapping[str, Any] | None], Readers] = field(default_factory=plain_readers)
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
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    _growths: dict[str, Growth] = field(default_factory=dict)
    _rows: Shelf = field(init=False)
    _rejects: Shelf = field(init=False)

    def __post_init__(self) -> None:
        self._rows = Shelf(self._writer, self.job.held_bytes_max)
        self._rejects = Shelf(self._reject_writer, self.job.held_bytes_max)

    def wants_headers(self, lane: Lane) -> bool:
        """Return whether a table of the lane needs headers."""
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
        sorter = Sorter(batch, lane.at)
        done: list[tuple[TableJob, Converted]] = []
        failing, here = SURVEY if self.job.survey else CONVERT, stretch(lane.at, offsets_of(batch))
        for name in lane.tables:
            if name in self.failed:
                continue
            table = self.job.tables[name]
            try:
                with making(name, failing, here):
                    self._serve(name, table, sorter, done)
            except (UnavailableError, InvalidError, BugError) as error:
                self.fail(name, error)

    def _serve(
        self,
        name: str,
        table: TableJob,
        sorter: Sorter,
        done: list[tuple[TableJob, Converted]],
    ) -> None:
        share = self._share(name, table, sorter)
        if self.job.survey:
            self._survey(self.schemas, name, table, sorter.batch.filter(share.mine))
        elif share.mine.any() or share.refused or not table.gate(sorter.at.topic).share:
            self._land(name, table, sorter, share, done)

    def fail(self, name: str, error: PenstockError) -> None:
        """Give up on one table in this job: what it wrote is left over, the others go on."""
        self.failed.setdefault(name, error)
        self.tallies.pop(name, None)
        self.reasons.pop(name, None)
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
        """Refuse records that kill whoever looks at them, for each table and route of their lane.

        A survey knows nothing of tables, so it passes over all that kills.
        """
        kinds = Poison if self.job.survey else (Poison.LOOKED_AT,)
        here = self._is_poison(lane.at, batch, kinds)
        if not here.any() or self.job.survey:
            return batch.filter(pa.array(~here))
        sorter = Sorter(batch.filter(pa.array(here)), lane.at)
        for name in lane.tables:
            table = self.job.tables[name]
            if name in self.failed:
                continue
            offsets = offsets_of(sorter.batch)
            rejects = refuse(Code.POISON, offsets[~is_among(table.already, lane.at, offsets)])
            self._refuse(name, sorter, rejects)
            books = self.tallies.setdefault(name, {})
            tally = Tally(examined=len(rejects), quarantined=counted(rejects))
            books[lane.at] = books.get(lane.at, Tally()) + tally
        return batch.filter(pa.array(~here))

    def _is_poison(
        self, at: TopicPartition, batch: pa.RecordBatch, kinds: Iterable[Poison]
    ) -> Mask:
        poison = [where for where, kills in self.job.poison.items() if kills in kinds]
        return is_among(poison, at, offsets_of(batch))

    def _share(self, name: str, table: TableJob, sorter: Sorter) -> Share:
        """Return which records are for a table, without those decided before."""
        fresh = ~is_among(table.already, sorter.at, offsets_of(sorter.batch))
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
        converted = next((c for t, c in done if t.is_like(table)), None)
        if converted is None:
            converted = self._converted(table, sorter, share)
            done.append((table, converted))
        self._mind_schema(name, table, sorter, converted)
        if converted.rows.num_rows:
            self._write(name, sorter.at, converted)
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

    def _write(self, name: str, at: TopicPartition, converted: Converted) -> None:
        """Write rows. Raises what writers raise; what nobody foresaw, with the rows that raise it.

        To find those, they are written again, to files that no commit knows.
        """
        try:
            self._rows.write(name, converted.rows)
        except bisection.UNFORESEEN:
            first, last = culprits(converted.rows, partial(self._try, name))
            with making(name, WRITE, stretch(at, converted.offsets[[first, last]])):
                raise

    def _try(self, name: str, rows: pa.RecordBatch) -> None:
        writer = self._writer(name)
        try:
            writer.write(rows)
        finally:
            writer.abandon()

    def _converted(self, table: TableJob, sorter: Sorter, share: Share) -> Converted:
        """Convert a table's records; where there is none, those that give it no column are refused.

        Raises UnavailableError (P462) when one does: it was beyond what was surveyed.
        """
        kills = self._is_poison(sorter.at, sorter.batch, (Poison.CONVERTED,)) & share.mine
        takes = share.mine & ~kills
        mine = sorter.batch if takes.all() else sorter.batch.filter(takes)
        readers = self.tools.readers(table.registry)
        converted = converted_for(table, mine, sorter.at, readers, self.tools.functions)
        deadly = refuse(Code.POISON, offsets_of(sorter.batch)[kills])
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
            if policy_for(reject, options) in ("evolve", "freeze")
        }
        if not minded or table.destination is None:
            return
        for reject in minded.values():
            if policy_for(reject, options) == "freeze":
                raise frozen(name, reject)
        offsets = offsets_of(sorter.batch)
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
        reasons = self.reasons.get(name, Counter()) + Counter(each.message for each in rejects)
        self.reasons[name] = Counter(dict(reasons.most_common(REASONS_MAX)))
        rows = quarantine_rows(
            sorter.batch,
            rejects,
            pipeline=self.job.pipeline,
            table=name,
            at=sorter.at,
            epoch=self.job.epoch,
            at_ms=self.job.now_ms,
        )
        with making(name, WRITE, stretch(sorter.at, offsets_of(sorter.batch))):
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
                with making(name, WRITE, stretches(ranges[name])):
                    closed = shelf.close(name)
            except (UnavailableError, InvalidError, BugError) as error:
                self.fail(name, error)
                continue
            files[name] = tuple(replace(file, ranges=dict(ranges[name])) for file in closed)
        return files


def _added(wide: Schema, schema: Schema) -> int:
    return columns_in(wide) - columns_in(schema)
