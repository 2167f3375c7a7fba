"""`penstock audit --values`: what metadata says of every live file, compared with what it holds.

Invariants:
- it writes nothing, reads no ledger, and takes any table of a catalog: ours or not; Kafka is asked
  only which tables the rules of the spec name;
- one file is read at a time, a few rows of it at a time (files/contents.py);
- a file that is missing or damaged is a finding like another; storage that does not answer is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from penstock.app.assembly import assembly
from penstock.app.inspect.audit import Progressed
from penstock.core.errors import (
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
    gravest,
)
from penstock.core.statistics import (
    Fault,
    Leaf,
    Mismatch,
    described_columns,
    mismatches,
    unreadable,
)
from penstock.files.contents import contents_of
from penstock.files.errors import first_line
from penstock.landing.tables import opening, route_tables
from penstock.landing.waiting import KAFKA
from penstock.ports.tables import StatedFile, Table, TableFormat
from penstock.spec.language.notation import PLACEHOLDER
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import is_led_to, no_table

FOUND_MAX = 1000
"""How many findings of one table are kept; the rest is counted."""
_REPORT_EVERY_FILES = 100


class Outcome(StrEnum):
    """Name what the audit of one table came to."""

    RIGHT = "ok"
    WRONG = "wrong"
    NOTHING = "nothing to compare"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ValuesAudit:
    """What was found of one table; `mismatches` are the first ones, `further` counts the rest.

    `files`, their `rows`, and `columns` of which metadata says anything were compared;
    `not_compared` says in sentences what was not, and why.
    """

    table: str
    files: int = 0
    columns: int = 0
    rows: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    further: int = 0
    not_compared: tuple[str, ...] = ()
    problem: PenstockError | None = None

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of this table's audit."""
        if self.problem is not None:
            return Outcome.ERROR
        if self.mismatches:
            return Outcome.WRONG
        return Outcome.RIGHT if self.files and self.columns else Outcome.NOTHING


@dataclass(frozen=True, slots=True)
class ValuesAudits:
    """What was found: exit code 4 on a mismatch, else the gravest problem's.

    It is 0 when all that was compared is right, and 2 when nothing was compared in any table.
    """

    tables: tuple[ValuesAudit, ...]

    @property
    def exit_code(self) -> int:
        """Return the exit code (interface.md 2)."""
        if any(each.mismatches for each in self.tables):
            return DecisionNeededError.exit_code
        if all(each.outcome is Outcome.NOTHING for each in self.tables):
            return InvalidError.exit_code
        return gravest(each.problem.exit_code for each in self.tables if each.problem is not None)


def audit_values(
    pipeline: Pipeline, *, tables: Sequence[str] = (), progressed: Progressed = lambda _: None
) -> ValuesAudits:
    """Audit the tables named, by a rule of the spec or by none; else all of the spec's.

    Those are the tables that topics are routed to now, and the quarantine where it is there. Raises
    InvalidError (P185) for a name in no catalog of the spec, UnavailableError when brokers that are
    needed are down.
    """
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        require_catalogs(tables, catalogs)
        if not tables:
            progressed(f"waiting for {KAFKA}")
        names = [*dict.fromkeys(tables)] or _named_by(pipeline, catalogs)
        found = []
        for table in names:
            progressed(f"comparing the files of {table}")
            catalog, _, name = table.partition(".")
            try:
                audit = replace(values_of(catalogs[catalog], name, progressed), table=table)
            except PenstockError as error:
                audit = ValuesAudit(table, problem=error)
            found.append(audit)
        return ValuesAudits(tuple(_named_better(pipeline, catalogs, each) for each in found))


def require_catalogs(tables: Iterable[str], catalogs: Mapping[str, TableFormat]) -> None:
    """Raise InvalidError (P185) for a name that begins with none of the catalogs."""
    for name in tables:
        if name.partition(".")[0] not in catalogs:
            raise InvalidError(
                f"{name} is in no catalog of this spec",
                code="P185",
                hint=f"begin with one of its catalogs: {', '.join(sorted(catalogs))}",
            )


def loaded(catalog: TableFormat, name: str, shown: str) -> Table:
    """Load a table by its name within the catalog. Raises InvalidError (P461) by the name shown."""
    table = catalog.load(name)
    if table is None:
        raise InvalidError(
            f"table {shown} does not exist",
            code="P461",
            hint="nothing has landed in it yet, or it was dropped; see  penstock status",
        )
    return table


def _named_by(pipeline: Pipeline, catalogs: Mapping[str, TableFormat]) -> list[str]:
    settings = assembly.settings_of(pipeline)
    with closing(assembly.open_log(pipeline)) as log:
        targets, wanted, _ = opening.route_topics(settings, log.partitions())
    names = sorted(route_tables.expand_routes(settings, catalogs, targets, wanted)[0])
    catalog, _, name = pipeline.quarantine.into.partition(".")
    try:
        there = catalogs[catalog].load(name) is not None
    except PenstockError:
        there = True  # that this is not known is reported of the table
    return [*names, pipeline.quarantine.into] if there else names


def _named_better(
    pipeline: Pipeline, catalogs: Mapping[str, TableFormat], found: ValuesAudit
) -> ValuesAudit:
    """Suggest a name for a table that is not there and that no rule of the spec leads to."""
    absent = found.problem is not None and found.problem.code == "P461"
    if not absent or is_led_to(pipeline, found.table) or found.table == pipeline.quarantine.into:
        return found
    names = [*(rule.table for rule in pipeline.tables), pipeline.quarantine.into]
    if any(PLACEHOLDER.search(name) for name in names):
        try:
            names = _named_by(pipeline, catalogs)
        except PenstockError:
            names = [name for name in names if not PLACEHOLDER.search(name)]
    return replace(found, problem=no_table(found.table, names))


def values_of(
    catalog: TableFormat, name: str, progressed: Progressed = lambda _: None
) -> ValuesAudit:
    """Compare the metadata of a table's live files with what they hold.

    `name` is the one within the catalog, as `TableFormat.load` takes it. Raises InvalidError
    (P461 there is no such table), UnavailableError, and what reading the table raises.
    """
    table = loaded(catalog, name, name)
    files = rows = further = 0
    columns: set[Leaf] = set()
    found: list[Mismatch] = []
    not_compared: list[str] = []
    for stated in table.stated():
        if isinstance(stated, Mismatch):
            wrong = [stated]
        elif stated.statistics.not_compared:
            not_compared += stated.statistics.not_compared
            continue
        else:
            files += 1
            columns |= described_columns(stated.statistics)
            if files % _REPORT_EVERY_FILES == 0:
                progressed(f"{name}: {files:,} files and {rows:,} rows compared")
            records, wrong = _compared(name, stated)
            rows += records
        kept = wrong[: FOUND_MAX - len(found)]
        found += kept
        further += len(wrong) - len(kept)
    return ValuesAudit(name, files, len(columns), rows, tuple(found), further, tuple(not_compared))


def _compared(name: str, file: StatedFile) -> tuple[int, list[Mismatch]]:
    stated = file.statistics
    try:
        with file.open() as source:
            held = contents_of(source, stated)
    except FileNotFoundError:
        why = "it is not there"
    except OSError as error:
        raise UnavailableError(
            f"a file of {name} could not be read: {stated.path}: {first_line(error)}",
            code="P430",
            hint="see that the storage answers, then audit again",
        ) from error
    except pa.ArrowException as error:
        why = f"it cannot be read: {first_line(error)}"
    else:
        return held.records, mismatches(stated, held)
    lost = Mismatch(stated.path, "", Fault.FILE, "a live file", why)
    return 0, [*unreadable(stated), lost]
