"""Where a job's records are routed to tables, converted and counted.

Invariants:
- the books of a table balance: examined = landed + filtered + quarantined;
- a table that fails gets nothing from this job, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.errors import BugError, InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import known, united
from penstock.landing.foreign_errors import (
    CONVERT,
    SURVEY,
    converting,
    range_text,
)
from penstock.landing.task.context import TaskContext
from penstock.landing.task.convert import convert_for_table
from penstock.landing.task.coordinates import is_among, offsets_of
from penstock.landing.task.messages import Job, PoisonKind, TableJob
from penstock.landing.task.output import TaskOutput
from penstock.landing.task.rejects import (
    count_by_code,
    frozen,
    merge_rejects,
    policy_for,
    reject_without_columns,
    rejects_of,
)
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
    _growths: dict[str, Growth] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.output = TaskOutput(self.job, self.context)

    def wants_headers(self, lane: Lane) -> bool:
        """Return whether a table of the lane needs headers."""
        tables = [self.job.tables[name] for name in lane.tables]
        return any(table.wants_headers(lane.at.topic) for table in tables)

    def write(self, lane: Lane, batch: pa.RecordBatch) -> None:
        """Turn one batch into rows of every table of its lane, by portions that can be held."""
        if self.job.poison:
            batch = self._without_poison(lane, batch)
        growths = [self._growth(name) for name in lane.tables if name not in self.output.failed]
        for portion in portions(batch, growths):
            self._write_portion(lane, portion)

    def _growth(self, name: str) -> Growth:
        if name not in self._growths:
            table = self.job.tables[name]
            self._growths[name] = Growth.of(table.schema, table.options)
        return self._growths[name]

    def _write_portion(self, lane: Lane, batch: pa.RecordBatch) -> None:
        """Turn records into rows of every table of their lane; equal work is done once."""
        sorter = Router(batch, lane.at)
        done: list[tuple[TableJob, ConvertedBatch]] = []
        failing, here = (
            SURVEY if self.job.survey else CONVERT,
            range_text(lane.at, offsets_of(batch)),
        )
        for name in lane.tables:
            if name in self.output.failed:
                continue
            table = self.job.tables[name]
            try:
                with converting(name, failing, here):
                    self._write_table(name, table, sorter, done)
            except (UnavailableError, InvalidError, BugError) as error:
                self.output.fail(name, error)

    def _write_table(
        self,
        name: str,
        table: TableJob,
        sorter: Router,
        done: list[tuple[TableJob, ConvertedBatch]],
    ) -> None:
        share = self._routing(name, table, sorter)
        if self.job.survey:
            self._survey(self.schemas, name, table, sorter.batch.filter(share.mine))
        elif share.mine.any() or share.rejected or not table.filter_of(sorter.at.topic).share:
            self._land(name, table, sorter, share, done)

    def _without_poison(self, lane: Lane, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse records that kill whoever looks at them, for each table and route of their lane.

        A survey knows nothing of tables, so it passes over all that kills.
        """
        kinds = PoisonKind if self.job.survey else (PoisonKind.LOOKED_AT,)
        here = self._is_poison(lane.at, batch, kinds)
        if not here.any() or self.job.survey:
            return batch.filter(pa.array(~here))
        sorter = Router(batch.filter(pa.array(here)), lane.at)
        for name in lane.tables:
            table = self.job.tables[name]
            if name in self.output.failed:
                continue
            offsets = offsets_of(sorter.batch)
            rejects = rejects_of(
                RejectCode.POISON, offsets[~is_among(table.quarantined, lane.at, offsets)]
            )
            self.output.write_rejects(name, sorter, rejects)
            tally = Tally(examined=len(rejects), quarantined=count_by_code(rejects))
            self.output.count(name, lane.at, tally)
        return batch.filter(pa.array(~here))

    def _is_poison(
        self, at: TopicPartition, batch: pa.RecordBatch, kinds: Iterable[PoisonKind]
    ) -> Mask:
        poison = [where for where, kills in self.job.poison.items() if kills in kinds]
        return is_among(poison, at, offsets_of(batch))

    def _routing(self, name: str, table: TableJob, sorter: Router) -> Routing:
        """Return which records are for a table, without those decided before."""
        fresh = ~is_among(table.quarantined, sorter.at, offsets_of(sorter.batch))
        gate = table.filter_of(sorter.at.topic)
        if gate.passes_all:
            return Routing(fresh, {}, {})
        readers = self.context.readers(table.registry)
        share = sorter.route(gate, table.options, known=table.known, readers=readers)
        if gate.route is not None and share.unknown:
            share = self._unknown_tables(name, table, gate.route, sorter, share)
        filtered = {reason: mask & fresh for reason, mask in share.filtered.items()}
        refused = {index: reject for index, reject in share.rejected.items() if fresh[index]}
        return Routing(share.mine & fresh, filtered, refused)

    def _unknown_tables(
        self, name: str, table: TableJob, route: DynamicRoute, sorter: Router, share: Routing
    ) -> Routing:
        """Judge records whose table does not exist: it is asked for, or they are refused."""
        if route.unknown == "fail":
            first = next(iter(share.unknown))
            raise InvalidError(
                f"{name}: a record asks for {first}, which does not exist",
                code="P465",
                hint="create the table, or set  unknown_tables: quarantine",
            )
        filtered, refused = dict(share.filtered), dict(share.rejected)
        wanted = self.requested.setdefault(name, {})
        for stranger, asking in share.unknown.items():
            if route.unknown != "create" or not table.tables_max:
                refused |= sorter.reject(asking, route)
                continue
            if stranger in wanted or len(wanted) <= table.tables_max:
                self._survey(wanted, stranger, table, sorter.batch.filter(asking))
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
        sorter: Router,
        share: Routing,
        done: list[tuple[TableJob, ConvertedBatch]],
    ) -> None:
        converted = next((c for t, c in done if t.is_like(table)), None)
        if converted is None:
            converted = self._converted(table, sorter, share)
            done.append((table, converted))
        self._apply_schema_policy(name, table, sorter, converted)
        if converted.rows.num_rows:
            self.output.write_rows(name, sorter.at, converted)
        rejects = [*converted.rejects]
        if share.rejected:
            rejects = sorted((*rejects, *share.rejected.values()), key=lambda each: each.offset)
        self.output.write_rejects(name, sorter, rejects)
        filtered = {reason: int(mask.sum()) for reason, mask in share.filtered.items()}
        kept = {reason: count for reason, count in filtered.items() if count}
        tally = Tally(
            examined=int(share.mine.sum()) + sum(kept.values()) + len(share.rejected),
            landed=converted.rows.num_rows,
            filtered={**converted.filtered, **kept},
            quarantined=count_by_code(rejects),
        )
        self.output.count(name, sorter.at, tally)

    def _converted(self, table: TableJob, sorter: Router, share: Routing) -> ConvertedBatch:
        """Convert a table's records; where there is none, those that give it no column are refused.

        Raises UnavailableError (P462) when one does: it was beyond what was surveyed.
        """
        kills = self._is_poison(sorter.at, sorter.batch, (PoisonKind.CONVERTED,)) & share.mine
        takes = share.mine & ~kills
        mine = sorter.batch if takes.all() else sorter.batch.filter(takes)
        readers = self.context.readers(table.registry)
        converted = convert_for_table(table, mine, sorter.at, readers, self.context.functions)
        deadly = rejects_of(RejectCode.POISON, offsets_of(sorter.batch)[kills])
        converted = merge_rejects(converted, deadly)
        if table.write_target is not None:
            return converted
        seen: dict[str, Schema] = {"": Struct(())}
        if any(reject.code == RejectCode.UNKNOWN_FIELD for reject in converted.rejects):
            self._survey(seen, "", table, mine)
        if known(seen[""]).fields:
            raise UnavailableError(
                "records after the sampled ones have columns for the table",
                code="P462",
                hint="they are sampled again in the next epoch",
            )
        return reject_without_columns(converted)

    def _apply_schema_policy(
        self, name: str, table: TableJob, sorter: Router, converted: ConvertedBatch
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
        if not minded or table.write_target is None:
            return
        for reject in minded.values():
            if policy_for(reject, options) == "freeze":
                raise frozen(name, reject)
        offsets = offsets_of(sorter.batch)
        positions = np.searchsorted(offsets, np.array([*minded], np.int64))
        refused = sorter.batch.take(pa.array(positions))
        base = self.schemas.get(name, table.schema)
        room = table.tables_max - _added(base, table.schema)
        wish = requested_schema(refused, base, options, self.context.readers(table.registry), room)
        if wish != table.schema:
            self.schemas[name] = wish


def _added(wide: Schema, schema: Schema) -> int:
    return columns_in(wide) - columns_in(schema)
