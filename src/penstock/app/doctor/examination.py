"""All checks in order: this machine first, then what the spec names, each with a result.

Invariants:
- a check that fails keeps no other from being made;
- nothing is written but a scratch table in each catalog, which is dropped again; with `touch=False`
  not even that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

from penstock.app.assembly import assembly
from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.process import SystemClock, token
from penstock.app.doctor import machine, publishing, tables
from penstock.app.inspect.audit import Progressed
from penstock.commit.catalog_probe import ProbeResult, probe
from penstock.core.errors import PenstockError, gravest
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import seconds_text
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.ports.connectors import LogConnector
from penstock.ports.runtime import Clock
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets

SKEW_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found, in the order of the checks."""

    checks: tuple[CheckResult, ...]

    @property
    def exit_code(self) -> int:
        """Return the exit code: the gravest that a run would end with for one of these."""
        return gravest(each.exit_code for each in self.checks)


def examine(
    pipeline: Pipeline | None,
    publications: Publications | None = None,
    *,
    touch: bool = True,
    environment: Mapping[str, str],
    progressed: Progressed = lambda _: None,
) -> Examination:
    """Check everything; without a pipeline and publications, this machine alone.

    With `touch` each catalog's compare-and-set is measured on a scratch table.
    """
    progressed("checking this machine")
    found = list(machine.findings(pipeline or publications, environment))
    if pipeline is not None:
        found += _outside(pipeline, SystemClock(), touch=touch, progressed=progressed)
    if publications is not None:
        progressed("checking the publications")
        found += publishing.findings(publications)
    return Examination(tuple(found))


def _outside(
    pipeline: Pipeline, clock: Clock, *, touch: bool, progressed: Progressed
) -> Iterator[CheckResult]:
    progressed("checking the brokers")
    brokers = list(_brokers(pipeline, clock))
    yield from brokers
    yield _store(pipeline)
    with ExitStack() as stack:
        catalogs: dict[str, TableFormat] = {}
        for name in pipeline.catalogs:
            progressed(f"checking catalog {name}")
            try:
                catalog = assembly.open_catalog(pipeline, name, UNHEARD, read_only=not touch)
            except PenstockError as error:
                yield failed("catalog", name, error)
                continue
            stack.callback(catalog.close)
            catalogs[name] = catalog
            yield from _catalog(pipeline, name, catalog, clock, touch=touch)
        if any(each.exit_code for each in brokers):
            why = "tables depend on topics, which could not be listed"
            yield unknown("tables", "all", why, "fix the broker connection first")
            return
        log = stack.enter_context(closing(assembly.open_log(pipeline)))
        progressed("checking the tables")
        try:
            yield from tables.findings(pipeline, log, catalogs)
        except PenstockError as error:
            yield failed("tables", "all", error)


def _brokers(pipeline: Pipeline, clock: Clock) -> Iterator[CheckResult]:
    examine = connector_of(LogConnector, assembly.LOG).examine
    try:
        if examine is not None:
            yield from examine(assembly.log_settings(pipeline), ProcessSecrets(), clock)
    except PenstockError as error:
        yield failed("brokers", "kafka", error)


def _store(pipeline: Pipeline) -> CheckResult:
    subject = "pending store"
    try:
        with closing(assembly.open_store(pipeline)) as store:
            held = store.holding(pipeline.name)
            waiting = len(store.pending(pipeline.name))
    except PenstockError as error:
        return failed("store", subject, error)
    generation = "no run yet" if held is None else f"generation {held.claim.generation}"
    return passed("store", subject, f"{generation}, {waiting} commits pending")


def _catalog(
    pipeline: Pipeline, name: str, catalog: TableFormat, clock: Clock, *, touch: bool
) -> Iterator[CheckResult]:
    namespace = _namespace(pipeline, name)
    if not touch or namespace is None:
        why = "not measured: it takes a scratch table"
        yield unknown("compare-and-set", name, why, "penstock doctor  without --read-only")
        return
    try:
        catalog.check()
        measured = probe(catalog, namespace, token(), clock)
    except PenstockError as error:
        yield failed("compare-and-set", name, error)
        return
    yield passed(
        "compare-and-set",
        name,
        "of two commits on one state the second was refused; table created in"
        f" {seconds_text(measured.create_seconds)}, both tried in"
        f" {seconds_text(measured.commit_seconds)}",
    )
    yield skew(name, measured)


def skew(name: str, measured: ProbeResult) -> CheckResult:
    """Compare the storage's clock with ours."""
    ahead, subject = measured.ahead_seconds, f"storage of {name}"
    if ahead is None:
        return unknown("clock", subject, "it returns no times", "")
    if abs(ahead) <= SKEW_SECONDS_MAX:
        return passed("clock", subject, "agrees with this machine's")
    text = f"is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    return warning("clock", subject, text, "set this machine's clock:  timedatectl set-ntp true")


def _namespace(pipeline: Pipeline, catalog: str) -> str | None:
    for full in (*(rule.into for rule in pipeline.tables), pipeline.quarantine.into):
        first, _, name = full.partition(".")
        namespace = name.rpartition(".")[0]
        if first == catalog and namespace and "{" not in namespace:
            return namespace
    return None
