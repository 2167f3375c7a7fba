"""What this release meets and changes where an older one has run, before it is started.

Invariants:
- nothing is written: no table, no store, no scratch file; the store stays as the older one left it;
- a check that fails keeps no other from being made;
- a warning is what changes with the first run, or what a person has to do before it.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from penstock.app.assembly import assembly, engines
from penstock.app.assembly.process import SystemClock, this_owner
from penstock.app.assembly.publishing import publication_of
from penstock.app.doctor import machine, tables
from penstock.app.doctor.examination import Examination
from penstock.app.inspect.audit import Progressed
from penstock.core.commits import Chain
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.version import __version__
from penstock.landing.settings import TableLocation
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableFormat
from penstock.spec.checks.agreement import is_remote
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications
from penstock.spec.rules import rules_hash

AS_IT_WAS = "stays as it is"
PACK_AGAIN = "pack it again with this release:  deploy/spark/pack-environment"


def examine_upgrade(
    pipeline: Pipeline | None,
    publications: Publications | None = None,
    *,
    environment: Mapping[str, str],
    progressed: Progressed = lambda _: None,
) -> Examination:
    """Compare this release with what a spec's runs have left; without a spec, with this machine."""
    progressed("checking this machine")
    found = [*_machine(pipeline or publications, environment)]
    if pipeline is not None:
        progressed("checking the pending store")
        found += _store(pipeline, pipeline.name)
        found += _tables(pipeline, progressed)
    if publications is not None:
        progressed("checking the publications")
        for rule in publications.publish:
            found += _store(publications, publication_of(publications, rule).claimed_as)
    return Examination(tuple(found))


def _machine(
    spec: Pipeline | Publications | None, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    yield passed("release", machine.HERE, f"penstock {__version__}")
    if spec is not None:
        yield passed("spec", spec.name, "has no word that this release does not know")
    yield machine.python(environment)
    yield machine.libraries()
    if spec is None or spec.spark.master == engines.INLINE:
        return
    conf = dict(spec.spark.conf)
    yield machine.spark()
    yield machine.java(environment)
    yield machine.jars(conf)
    yield from executors(spec.spark.master, conf)


def executors(master: str, conf: Mapping[str, str]) -> Iterator[CheckResult]:
    """Compare what executors are given with what is installed here."""
    archives = [each.partition("#")[0] for each in conf.get("spark.archives", "").split(",")]
    for name in filter(None, archives):
        path = Path(name.removeprefix("file://"))
        if re.match(r"(?!file:)\w+:", name) or not path.exists():
            yield unknown("executors", name, "is not on this machine", PACK_AGAIN)
        else:
            yield packed(path)
    image = conf.get("spark.kubernetes.container.image", "")
    if image:
        yield unknown("executors", image, "an image is not looked into", "build it of this release")
    elif is_remote(master) and not any(archives):
        where = "have an environment of their own"
        yield unknown("executors", master, where, "install this release there, too")


def packed(archive: Path) -> CheckResult:
    """Compare a packed environment with this one."""
    from penstock.engines.spark.packed import versions_in
    from penstock.engines.spark.versions import disagreements, versions_here

    try:
        differing = disagreements(versions_here(), versions_in(archive))
    except (OSError, tarfile.TarError, EOFError) as error:
        return unknown("executors", str(archive), f"cannot be read: {error}", PACK_AGAIN)
    if differing:
        return warning("executors", str(archive), "; ".join(differing), PACK_AGAIN)
    return passed("executors", str(archive), "has the versions of this environment")


def _store(spec: Pipeline | Publications, claimed_as: str) -> Iterator[CheckResult]:
    subject = f"pending store of {claimed_as}"
    try:
        found = assembly.open_store_as_found(spec)
        if found is None:
            yield unknown("store", subject, "its connector cannot look without writing", "")
            return
        with closing(found.store) as store:
            yield _layout(subject, found.adds)
            yield from _claimed(subject, store, claimed_as)
    except PenstockError as error:
        yield failed("store", subject, error)


def _layout(subject: str, adds: tuple[str, ...]) -> CheckResult:
    if not adds:
        return passed("store", subject, AS_IT_WAS)
    text = f"the first run adds {number_of(len(adds), 'table')}: {', '.join(adds)}"
    return warning("store", subject, text, "nothing to do: an older release ignores them")


def _claimed(subject: str, store: PendingStore, claimed_as: str) -> Iterator[CheckResult]:
    waiting = len(store.pending(claimed_as))
    if waiting:
        text = f"{number_of(waiting, 'prepared commit')}, which this release reads and settles"
        yield passed("store", subject, text)
    try:
        store.require_free(claimed_as, this_owner(), now_ms=SystemClock().now_ms())
    except UnavailableError as error:
        yield warning("owner", claimed_as, error.message, "stop it first, with SIGTERM")


def _tables(pipeline: Pipeline, progressed: Progressed) -> Iterator[CheckResult]:
    with ExitStack() as stack:
        catalogs: dict[str, TableFormat] = {}
        for name in pipeline.catalogs:
            progressed(f"checking catalog {name}")
            try:
                catalog = assembly.open_catalog(pipeline, name, UNHEARD, read_only=True)
            except PenstockError as error:
                yield failed("catalog", name, error)
                continue
            stack.callback(catalog.close)
            catalogs[name] = catalog
        progressed("checking the tables")
        try:
            log = stack.enter_context(closing(assembly.open_log(pipeline)))
            for place, chain in tables.places(pipeline, log, catalogs):
                yield _table(pipeline, catalogs[place.catalog], place, chain)
        except PenstockError as error:
            yield failed("tables", "all", error)


def _table(
    pipeline: Pipeline, catalog: TableFormat, place: TableLocation, chain: Chain | None
) -> CheckResult:
    """Read all that chains keep in a table: ledgers of a newer release are refused (P190)."""
    try:
        table = catalog.load(place.name)
        if table is None:
            return passed("table", place.table, "is not there yet")
        state = table.state(chain or Chain(pipeline.name, place.table))
        ledgers = table.ledgers(state)
    except PenstockError as error:
        return failed("table", place.table, error)
    text = f"{number_of(len(ledgers), 'ledger')}, which this release reads; {AS_IT_WAS}"
    landed = None if chain is None else state.landed
    if landed is not None and landed.rules_hash != rules_hash(pipeline):
        other = "was fed by other rules: the spec has changed, or this release has other defaults"
        return warning("table", place.table, other, "see what it does:  penstock plan")
    return passed("table", place.table, text)
