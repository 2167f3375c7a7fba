"""Where a job's records are routed to tables, converted and counted.

Invariants:
- the books of a table balance: examined = landed + superseded + filtered + quarantined;
- a table that fails gets nothing from this job, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import known, united
from penstock.landing.foreign_errors import CONVERT, SURVEY, converting, range_text
from penstock.landing.task.alike import by_class, classes_of
from penstock.landing.task.changes import lanes_of
from penstock.landing.task.context import TaskContext
from penstock.landing.task.convert import (
    Converted,
    convert_records,
    count_by_code,
    merge_rejects,
    policy_for,
    rejects_of,
)
from penstock.landing.task.coordinates import is_among, offsets_of
from penstock.landing.task.messages import Job, PoisonKind, TableJob
from penstock.landing.task.output import PARKS, TaskOutput
from penstock.rows.convert.batch import ConvertedBatch
from penstock.rows.decode.portions import Growth, portions
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.filters import DynamicRoute
from penstock.rows.route.router import Mask, Router, Routing
from penstock.rows.schema.evolution import requested_schema
from penstock.rows.schema.inference import columns_in
from penstock.rows.schema.survey import survey


@dataclass(slots=True)
class TaskSink:
    """The open writers and books of one job."""

    job: Job
    context: TaskContext
    schemas: dict[str, Schema] = field(default_factory=dict)
    requested: dict[str, dict[str, Schema]] = field(default_factory=dict)
    output: TaskOutput = field(init=False)
    _lanes: list[TopicPartition] = field(init=False)
    _classes: dict[str, int] = field(init=False)
    _growths: dict[str, Growth] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.output = TaskOutput(self.job, self.context)
        self._lanes = lanes_of(self.job)
        self._classes = classes_of(self.job.tables)

    def wants_headers(self, lane: Lane) -> bool:
        """Return whether a table of the lane needs headers, or what is rejected keeps them."""
        tables = [self.job.tables[name] for name in lane.tables]
        wanted = (table.wants_headers(lane.at.topic) for table in tables)
        return self.job.rejects_keep_headers or any(wanted)

    def write(self, lane: Lane, batch: pa.RecordBatch) -> None:
        """Turn one batch into rows of every table of its lane, by portions that can be held."""
        if self.job.poison:
            batch = self._without_poison(lane, batch)
        growths = [self._growth(name) for name in self._served(lane)]
        for portion in portions(batch, growths):
            self._write_portion(lane, portion)

    def _served(self, lane: Lane) -> list[str]:
        return [name for name in lane.tables if name not in self.output.failed]

    def _growth(self, name: str) -> Growth:
        if name not in self._growths:
            table = self.job.tables[name]
            self._growths[name] = Growth.of(table.schema, table.options)
        return self._growths[name]

    def _write_portion(self, lane: Lane, batch: pa.RecordBatch) -> None:
        router = Router(batch, lane.at)
        shares: dict[str, Routing] = {}
        for name in self._served(lane):
            with self._serving(name, router) as table:
                share = self._routing(name, table, router)
                if self.job.survey:
                    self._survey(self.schemas, name, table, router.batch.filter(share.mine))
                elif share.mine.any() or share.rejected or not table.filter_of(lane.at.topic).share:
                    shares[name] = share
        masks = {name: share.mine for name, share in shares.items()}
        convert = partial(self._converted, router)
        alike = by_class(masks, self._classes, offsets_of(batch), convert)
        for name, share in shares.items():
            with self._serving(name, router) as table:
                self._land(name, table, router, share, alike[name].of(name, table))

    @contextmanager
    def _serving(self, name: str, router: Router) -> Iterator[TableJob]:
        """Give the job of a table; its errors are its own: it gets nothing more from this job."""
        failing = SURVEY if self.job.survey else CONVERT
        here = range_text(router.at, offsets_of(router.batch))
        try:
            with converting(name, failing, here):
                yield self.job.tables[name]
        except PARKS as error:
            self.output.fail(name, error)

    def _without_poison(self, lane: Lane, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Reject records that kill the process that reads them, for each table and route of a lane.

        A survey knows nothing of tables, so it passes over all that kills.
        """
        kinds = PoisonKind if self.job.survey else (PoisonKind.READ,)
        here = self._is_poison(lane.at, batch, kinds)
        if not here.any() or self.job.survey:
            return batch.filter(pa.array(~here))
        router = Router(batch.filter(pa.array(here)), lane.at)
        for name in lane.tables:
            table = self.job.tables[name]
            if name in self.output.failed:
                continue
            offsets = offsets_of(router.batch)
            rejects = rejects_of(RejectCode.POISON, offsets[table.examines(lane.at, offsets)])
            self.output.write_rejects(name, router, rejects)
            tally = Tally(examined=len(rejects), quarantined=count_by_code(rejects))
            self.output.count(name, lane.at, tally)
        return batch.filter(pa.array(~here))

    def _is_poison(
        self, at: TopicPartition, batch: pa.RecordBatch, kinds: Iterable[PoisonKind]
    ) -> Mask:
        poison = [where for where, kills in self.job.poison.items() if kills in kinds]
        return is_among(poison, at, offsets_of(batch))

    def _routing(self, name: str, table: TableJob, router: Router) -> Routing:
        fresh = table.examines(router.at, offsets_of(router.batch))
        record_filter = table.filter_of(router.at.topic)
        if record_filter.passes_all:
            return Routing(fresh, {}, {})
        readers = self.context.readers(table.registry)
        share = router.route(record_filter, table.options, known=table.known, readers=readers)
        if record_filter.route is not None and share.unknown:
            share = self._unknown_tables(name, table, record_filter.route, router, share)
        filtered = {reason: mask & fresh for reason, mask in share.filtered.items()}
        refused = {index: reject for index, reject in share.rejected.items() if fresh[index]}
        return Routing(share.mine & fresh, filtered, refused)

    def _unknown_tables(
        self, name: str, table: TableJob, route: DynamicRoute, router: Router, share: Routing
    ) -> Routing:
        if route.unknown == "fail":
            first = next(iter(share.unknown))
            raise InvalidError(
                f"{name}: a record asks for {first}, which does not exist",
                code="P465",
                hint="create the table, or set  unknown_tables: quarantine",
            )
        filtered, refused = dict(share.filtered), dict(share.rejected)
        wanted = self.requested.setdefault(name, {})
        for table_name, asking in share.unknown.items():
            if route.unknown != "create" or not table.tables_max:
                refused |= router.reject(asking, route)
                continue
            if table_name in wanted or len(wanted) <= table.tables_max:
                self._survey(wanted, table_name, table, router.batch.filter(asking))
            filtered["routed"] = filtered["routed"] | asking
        return Routing(share.mine, filtered, refused)

    def _survey(
        self, into: dict[str, Schema], name: str, table: TableJob, batch: pa.RecordBatch
    ) -> None:
        readers = self.context.readers(table.registry)
        found = survey(batch, table.options, readers, columns_max=self.job.columns_max)
        into[name] = united((into.get(name, Struct(())), found))

    def _land(
        self,
        name: str,
        table: TableJob,
        router: Router,
        share: Routing,
        converted: Converted,
    ) -> None:
        self._apply_schema_policy(name, table, router, converted)
        landed = self.output.write(name, router.at, converted)
        rejects = [*merge_rejects(converted, [*share.rejected.values()]).rejects]
        self.output.write_rejects(name, router, rejects)
        filtered = {reason: int(mask.sum()) for reason, mask in share.filtered.items()}
        kept = {reason: count for reason, count in filtered.items() if count}
        tally = Tally(
            examined=int(share.mine.sum()) + sum(kept.values()) + len(share.rejected),
            landed=landed,
            filtered={**converted.filtered, **kept},
            quarantined=count_by_code(rejects),
        )
        self.output.count(name, router.at, tally)

    def _converted(self, router: Router, table: TableJob, mask: Mask) -> Converted:
        """Convert a table's records; where there is none, those that give it no column are refused.

        Raises UnavailableError (P462) when one does: it was beyond what was surveyed.
        """
        kills = self._is_poison(router.at, router.batch, (PoisonKind.CONVERTED,)) & mask
        takes = mask & ~kills
        mine = router.batch if takes.all() else router.batch.filter(takes)
        readers = self.context.readers(table.registry)
        converted = convert_records(
            table,
            mine,
            router.at,
            readers,
            self.context.functions,
            lane=self._lanes.index(router.at),
        )
        deadly = rejects_of(RejectCode.POISON, offsets_of(router.batch)[kills])
        converted = merge_rejects(converted, deadly)
        if table.write_target is not None:
            return converted
        assert isinstance(converted, ConvertedBatch), "a table that is not there has no keys"
        seen: dict[str, Schema] = {"": Struct(())}
        if any(reject.code == RejectCode.UNKNOWN_FIELD for reject in converted.rejects):
            self._survey(seen, "", table, mine)
        if known(seen[""]).fields:
            raise UnavailableError(
                "records after the sampled ones have columns for the table",
                code="P462",
                hint="they are sampled again in the next epoch",
            )
        empty = replace(converted, rows=converted.rows.slice(0, 0), offsets=converted.offsets[:0])
        return merge_rejects(empty, rejects_of(RejectCode.NO_COLUMNS, converted.offsets))

    def _apply_schema_policy(
        self, name: str, table: TableJob, router: Router, converted: Converted
    ) -> None:
        """Apply `columns` and `types` to rejected records: request a wider schema, or stop.

        Raises InvalidError (P467) under `freeze`.
        """
        options = table.options
        if not {"evolve", "freeze"} & {options.columns, options.types}:
            return
        by_offset = {
            reject.offset: reject
            for reject in converted.rejects
            if policy_for(reject, options) in ("evolve", "freeze")
        }
        if not by_offset or table.write_target is None:
            return
        for reject in by_offset.values():
            if policy_for(reject, options) == "freeze":
                raise InvalidError(
                    f"{name} is frozen, and a record does not fit: {reject.message}",
                    code="P467",
                    hint="change the table, or set  schema.columns  or  schema.types  to something"
                    " else",
                )
        offsets = offsets_of(router.batch)
        positions = np.searchsorted(offsets, np.array([*by_offset], np.int64))
        refused = router.batch.take(pa.array(positions))
        base = self.schemas.get(name, table.schema)
        room = table.tables_max - columns_in(base) + columns_in(table.schema)
        readers = self.context.readers(table.registry)
        requested = requested_schema(refused, base, options, readers, room)
        if requested != table.schema:
            self.schemas[name] = requested
