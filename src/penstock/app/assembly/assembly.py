"""The composition root: a spec becomes settings and a world of connectors.

Everything else is given what it needs; here is decided what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

from penstock.app.assembly.connectors import (
    connector_of,
    store_of,
    table_connector,
)
from penstock.app.assembly.engines import open_engine
from penstock.app.assembly.keyed_rules import identifier_fields, keyed_options
from penstock.app.assembly.lazy_catalogs import LazyCatalogs
from penstock.app.assembly.placing import placing_of
from penstock.app.assembly.process import SystemClock, commit_executor, jitter, this_owner, token
from penstock.app.assembly.reopening_log import ReopeningLog
from penstock.app.assembly.worker import exchange, writer
from penstock.core.errors import InvalidError
from penstock.core.events import WaitBegan
from penstock.core.hold import Hold, HoldAct
from penstock.core.schema import SOURCE_PREFIX
from penstock.files.reopening import Reopening
from penstock.landing.run import FormerSpec
from penstock.landing.settings import (
    Consent,
    Environment,
    HealthOf,
    RewrittenTable,
    Routes,
    Settings,
    Start,
    TableLocation,
    TableTarget,
)
from penstock.observe.fanout import UNHEARD
from penstock.observe.group_mirror import GroupMirror
from penstock.ports.connectors import READ_ONLY, LogConnector, TableConnector
from penstock.ports.groups import Follower
from penstock.ports.log import Log, RangeReader
from penstock.ports.reports import Reports
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.runtime import Engine, Observer
from penstock.ports.store import Owner, PendingStore, StoreAsFound
from penstock.ports.table_locks import TableLocks
from penstock.ports.tables import TableFormat
from penstock.ports.transactions import Transactions
from penstock.rows.options import RowOptions
from penstock.rows.quarantine.rows import QUARANTINE_SCHEMA
from penstock.rows.route.filters import ComputedColumns, DynamicRoute, RecordFilter, SqlExpression
from penstock.spec.checks.rules import is_read
from penstock.spec.language.expressions import expression, fields_of, looked_at
from penstock.spec.model import Pipeline, require_shard
from penstock.spec.publications import Publications
from penstock.spec.routing.topics import Target as Routed
from penstock.spec.routing.topics import routes
from penstock.spec.rules import rules_hash, rules_text, with_rules
from penstock.spec.secrets import ProcessSecrets
from penstock.spec.settings.records import REGISTERED, Records
from penstock.spec.settings.table import Table

LOG = "kafka"


def settings_of(
    pipeline: Pipeline, *, accept: frozenset[Consent] = frozenset(), faults: str = ""
) -> Settings:
    """Return the coordinator's settings. Raises InvalidError for an unknown catalog, and where no
    shard is named (P528).
    """
    require_shard(pipeline)
    commit = pipeline.commit
    return Settings(
        pipeline=pipeline.name,
        rules_hash=rules_hash(pipeline),
        rules_text=rules_text(pipeline),
        routes=partial(targets_of, pipeline),
        former_routes=partial(_former_routes, pipeline),
        quarantine=place_of(pipeline, pipeline.quarantine.into),
        quarantine_schema=QUARANTINE_SCHEMA,
        start=_start(pipeline),
        log=log_settings(pipeline),
        every_seconds=commit.every_seconds,
        records_max=commit.or_records,
        bytes_max=commit.or_bytes,
        slice_bytes=pipeline.slice_bytes,
        timeout_seconds=commit.timeout_seconds,
        anchor_every_seconds=commit.anchor_every_seconds,
        commits_at_once=commit.at_once,
        max_epochs=pipeline.pending.max_epochs,
        retain=commit.retain,
        columns_max=pipeline.limits.columns,
        tables_max=pipeline.limits.tables,
        new_columns_per_hour=pipeline.limits.new_columns_per_hour,
        stop_above_share=pipeline.quarantine.stop_above_share,
        rejects_keep_headers=pipeline.quarantine.headers == "keep",
        stop_across_partitions=frozenset(
            rule.table for rule in pipeline.tables if rule.across_partitions == "stop"
        ),
        rewritten={
            rule.table: RewrittenTable(place_of(pipeline, rule.table).connector, size)
            for rule in pipeline.tables
            if (size := rule.rewritten_bytes_max) is not None
        },
        hold=Hold(
            pipeline.maintain.hold.excess_files,
            HoldAct(pipeline.maintain.hold.then),
            pipeline.maintain.hold.every_most_seconds,
        ),
        accept=accept,
        crash_plan=faults,
        shards=pipeline.shards,
    )


def targets_of(pipeline: Pipeline, topics: Collection[str]) -> dict[str, tuple[TableTarget, ...]]:
    """Return the targets of topics, by the spec's rules. Raises InvalidError when they collide."""
    return {
        topic: tuple(_target(pipeline, topic, each) for each in found)
        for topic, found in routes(pipeline, topics).items()
    }


def _former_routes(pipeline: Pipeline, text: str) -> Routes:
    kept = with_rules(pipeline, text)
    return lambda topics: targets_of(kept, [each for each in topics if is_read(each, kept.kafka)])


def former_of(
    pipeline: Pipeline, *, accept: frozenset[Consent] = frozenset(), faults: str = ""
) -> FormerSpec:
    """Return what opens the settings and the log of a pipeline by rules that its store kept."""

    @contextmanager
    def former(text: str) -> Iterator[tuple[Settings, Log]]:
        kept = with_rules(pipeline, text)
        settings = settings_of(kept, accept=accept, faults=faults)
        with closing(open_log(kept)) as log:
            yield settings, log

    return former


def place_of(pipeline: Pipeline, table: str) -> TableLocation:
    """Find where a table is from its name in the spec."""
    catalog, _, name = table.partition(".")
    connector, _ = table_connector(pipeline.catalogs[catalog].type)
    return TableLocation(table, catalog, name, connector)


def log_settings(pipeline: Pipeline) -> dict[str, Any]:
    """Return what a worker needs to read the log; references to secrets stay references."""
    return {**pipeline.kafka.revealed(), "connector": LOG}


def open_log(pipeline: Pipeline) -> Log:
    """Open the log for listing; anew when secrets change."""
    settings, secrets = log_settings(pipeline), ProcessSecrets()
    opening = partial(connector_of(LogConnector, LOG).open_log, settings, secrets)
    return ReopeningLog(Reopening(settings, secrets, opening, lambda log: log.close()))


def open_reader(pipeline: Pipeline) -> RangeReader:
    """Open the log for reading in this process."""
    return connector_of(LogConnector, LOG).open_reader(log_settings(pipeline), ProcessSecrets())


def open_transactions(settings: Mapping[str, Any]) -> Transactions:
    """Open the list of the cluster's open transactions."""
    opening = connector_of(LogConnector, LOG).open_transactions
    assert opening is not None, "the connector for Kafka has it"
    return opening(settings, ProcessSecrets())


def open_catalogs(pipeline: Pipeline, stack: ExitStack, *, read_only: bool = False) -> LazyCatalogs:
    """Return the catalogs of the spec, for a command that reads: each is asked for only once.

    With `read_only` nothing at all is created. `stack` closes them again. Raises InvalidError
    (P528) for shards of which none is named.
    """
    require_shard(pipeline)
    opening = {
        name: partial(open_catalog, pipeline, name, UNHEARD, read_only=read_only)
        for name in pipeline.catalogs
    }
    return stack.enter_context(closing(LazyCatalogs(opening, asks_once=True)))


def open_store(spec: Pipeline | Publications) -> PendingStore:
    """Open the pending store. Raises InvalidError (P528) for shards of which none is named."""
    if isinstance(spec, Pipeline):
        require_shard(spec)
    connector, address = store_of(spec)
    return connector.open_store(address, ProcessSecrets())


def open_store_as_found(spec: Pipeline | Publications) -> StoreAsFound | None:
    """Open the pending store to look at it; None where its connector cannot but change it.

    Raises InvalidError: P528, and what the store is refused for; UnavailableError.
    """
    if isinstance(spec, Pipeline):
        require_shard(spec)
    connector, address = store_of(spec)
    opening = connector.open_as_found
    return None if opening is None else opening(address, ProcessSecrets())


def open_reports(spec: Pipeline | Publications) -> Reports | None:
    """Open what runs say of themselves, beside the pending store; None where it keeps nothing."""
    connector, address = store_of(spec)
    opening = connector.open_reports
    return None if opening is None else opening(address, ProcessSecrets())


def open_environment(
    pipeline: Pipeline,
    stack: ExitStack,
    *,
    observer: Observer,
    engine: Callable[[], Engine] | None = None,
    owner: Owner | None = None,
    health: HealthOf = dict,
) -> Environment:
    """Open everything a run needs; `stack` closes it again. It is a new owner, or the one given.

    The engine is slow to start, so what is quick to fail comes before it, and the rest meanwhile.
    """
    log = stack.enter_context(closing(open_log(pipeline)))
    observer(WaitBegan("Kafka to answer and list topics"))
    # Brokers that do not answer and topics that do not exist are reported before a JVM is started.
    cluster_id = log.cluster_id()
    log.partitions()
    started = engine() if engine is not None else open_engine(pipeline, observer=observer)
    stack.callback(started.close)
    opening = {name: partial(open_catalog, pipeline, name, observer) for name in pipeline.catalogs}
    catalogs = stack.enter_context(closing(LazyCatalogs(opening)))
    catalogs.check()
    observer(WaitBegan("the pending store to answer"))
    store = stack.enter_context(closing(open_store(pipeline)))
    return Environment(
        log=log,
        cluster_id=cluster_id,
        catalogs=catalogs,
        writers=writer,
        store=store,
        engine=started,
        observer=observer,
        clock=SystemClock(),
        owner=owner or this_owner(),
        jitter=jitter,
        token=token,
        commit_executor=commit_executor,
        health=health,
        follower=_follower(pipeline, stack, observer),
        exchanges=exchange,
        table_locks=_table_locks(pipeline, stack),
    )


def _table_locks(pipeline: Pipeline, stack: ExitStack) -> TableLocks | None:
    """Return the locks by which shards pass; None for one writer, or a store in a file."""
    connector, address = store_of(pipeline)
    opening = connector.open_table_locks if pipeline.shards > 1 else None
    return opening and stack.enter_context(closing(opening(address, ProcessSecrets())))


def _follower(pipeline: Pipeline, stack: ExitStack, observer: Observer) -> Follower | None:
    """Return what moves the group of the spec. Raises InvalidError (P213)."""
    name = pipeline.kafka.mirror_group
    if name is None:
        return None
    opening = connector_of(LogConnector, LOG).open_group
    assert opening is not None, "the connector for Kafka has it"
    group = opening(log_settings(pipeline), ProcessSecrets(), name)
    metadata = f"penstock {pipeline.name}"
    return stack.enter_context(GroupMirror(group, name, metadata, observer, SystemClock()))


def open_catalog(
    pipeline: Pipeline, name: str, observer: Observer, *, read_only: bool = False
) -> TableFormat:
    """Open one catalog of the spec by its name. Raises InvalidError, UnavailableError."""
    observer(WaitBegan(f"catalog {name} to answer"))
    entry = pipeline.catalogs[name]
    _, connector = table_connector(entry.type)
    settings: Mapping[str, Any] = {
        **entry.settings(name),
        "penstock.target_file_bytes": str(pipeline.target_file_bytes),
        "penstock.row_group_bytes": str(pipeline.row_group_bytes),
        "penstock.open_writers": str(pipeline.limits.open_writers),
        **({READ_ONLY: True} if read_only else {}),
    }
    return connector.open_catalog(settings, ProcessSecrets(), observer)


def _gate(pipeline: Pipeline, routed: Routed) -> RecordFilter:
    rule, route = routed.rule, None
    if rule.route:
        parts = _expressions(rule, rule.route, f"tables[{routed.number}].route")
        route = DynamicRoute(routed.table, parts, unknown=rule.unknown_tables)
    above = tuple(_condition(pipeline, number) for number in routed.above)
    where = _condition(pipeline, routed.number) if rule.where else None
    return RecordFilter(above, where, route)


def _condition(pipeline: Pipeline, number: int) -> SqlExpression:
    rule = pipeline.tables[number]
    assert rule.where is not None, "a rule takes a part of a topic's records by its condition"
    return _expressions(rule, {"where": rule.where}, f"tables[{number}]")["where"]


def _expressions(rule: Table, texts: Mapping[str, str], place: str) -> dict[str, SqlExpression]:
    declared = fields_of(rule.schema_.hint_types())
    return {
        name: SqlExpression(text, looked_at(expression(text), declared), f"{place}.{name}")
        for name, text in texts.items()
    }


def _target(pipeline: Pipeline, topic: str, routed: Routed) -> TableTarget:
    rule, schema, transform = routed.rule, routed.rule.schema_, routed.rule.transform
    records = rule.records_by(pipeline.records)
    changes: dict[str, str] = {name: f"_change_{name}" for name in rule.change_columns}
    gate = _gate(pipeline, routed)
    place = place_of(pipeline, routed.table)
    return TableTarget(
        location=place,
        options=RowOptions(
            source_columns={name: f"{SOURCE_PREFIX}{name}" for name in rule.source_columns},
            columns=schema.columns,
            types=schema.types,
            record_bytes_max=pipeline.limits.record_bytes,
            depth_max=pipeline.limits.depth,
            tombstones=rule.tombstones_by(pipeline.records),
            assume_zone=schema.assume_zone,
            drop_offset=schema.drop_offset,
            case_sensitive=schema.case_sensitive,
            match=schema.match,
            format=records.format,
            framing=records.framing,
            schema_id=records.schema_id,
            compression=records.compression,
            envelope=records.envelope,
            change_columns={} if records.envelope == "none" else changes,
            unavailable_value=records.unavailable_value,
            key_format=records.key_format,
            header_columns=dict(rule.header_columns),
            reserved=connector_of(TableConnector, place.connector).reserved(rule.properties),
            keyed=keyed_options(rule),
            fills_defaults=schema.defaults == "absent_or_null",
        ),
        create=schema.create,
        hints=schema.hint_types(),
        partition_by=tuple(rule.partition_by),
        properties=dict(rule.properties),
        identifier_fields=identifier_fields(rule, pipeline.catalogs[place.catalog]),
        sort_by=tuple(rule.sort_by),
        row_deletes=RowDeleteMode(rule.row_deletes),
        placing=placing_of(rule, connector_of(TableConnector, place.connector)),
        registry=_registry_settings(pipeline, records),
        filters={} if gate.passes_all else {topic: gate},
        computed=_computed(rule, f"tables[{routed.number}].transform.columns"),
        computed_types=transform.types(fields_of(schema.hint_types())) if transform else {},
    )


def _computed(rule: Table, place: str) -> ComputedColumns:
    transform = rule.transform
    if transform is None:
        return ComputedColumns()
    expressions, function = _expressions(rule, transform.columns, place), transform.function
    if function is None:
        return ComputedColumns(expressions)
    return ComputedColumns(expressions, function.call, tuple(function.columns))


def _registry_settings(pipeline: Pipeline, records: Records) -> dict[str, Any] | None:
    registry = records.registry or pipeline.records.registry
    if registry is None or not {records.format, records.key_format} & REGISTERED:
        return None
    return registry.settings()


def _start(pipeline: Pipeline) -> Start:
    start = pipeline.kafka.start
    if isinstance(start, str):
        if start not in ("earliest", "latest"):
            raise InvalidError(f"start: {start!r}", code="P107", hint="earliest or latest")
        return "earliest" if start == "earliest" else "latest"
    if isinstance(start, Mapping):
        return start
    return int(start.timestamp() * 1000)
