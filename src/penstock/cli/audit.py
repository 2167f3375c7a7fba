"""`penstock audit`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.hints import pasteable
from penstock.cli.output import error_data, print_result, say, show_error, tell
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec
from penstock.core.errors import InvalidError
from penstock.observe.formatting import number_of

if TYPE_CHECKING:
    from penstock.app.inspect.audit import Audit, ChainAudit, TableAudit
    from penstock.app.inspect.metadata_audit import ValuesAudit, ValuesAudits


JSON_HELP = (
    'Print JSON: each table with "waiting", its unread records (null: unknown); with --values its '
    '"outcome": "ok", "wrong", "nothing to compare" or "error".'
)


def audit(
    *tables: str,
    spec: Spec = SPEC,
    count: bool = False,
    values: bool = False,
    json: Annotated[Json, Parameter(help=JSON_HELP)] = False,
) -> int:
    """Prove that no record is lost or duplicated: chains from metadata, rows with --count.

    Also shows how many records in Kafka each table has not read yet.

    With --values instead, checks that the metadata of every live file agrees with its contents, so
    that a reader's filter finds all rows that match. Exits with 4 on a break, and says where; with
    --values also with 2 where nothing could be compared in any table. Writes nothing.

    Example: penstock audit shop.yaml lake.bronze.orders --count

    Parameters
    ----------
    tables
        Tables by their names in the spec; default: all. With --values any table of a catalog of
        the spec.
    count
        Also compare every row with Kafka, record by record.
    values
        Compare bounds, counts, sizes and partition values in the metadata of every live file with
        its contents, whichever writer made it.
    """
    from penstock.app.inspect.audit import audit as prove
    from penstock.app.inspect.metadata_audit import audit_values

    progressed = (lambda _: None) if json else say
    if values:
        if count:
            raise InvalidError(
                "--values and --count are two audits",
                code="P444",
                hint="run them one after the other",
            )
        compared = audit_values(load_spec(spec), tables=tables, progressed=progressed)
        print_result(compared, data=_values_data, show=print_values, json=json)
        return compared.exit_code
    found = prove(load_spec(spec), tables=tables, rows=count, progressed=progressed)
    print_result(found, data=_data, show=print_audit, json=json)
    return found.exit_code


def print_audit(found: Audit) -> None:
    """Print an audit for people."""
    for each in found.tables:
        _print_table(each)


def _data(found: Audit) -> dict[str, Any]:
    return {
        "exit_code": found.exit_code,
        "tables": [
            {
                "table": each.table,
                "chains": [asdict(chain) for chain in each.chains],
                "census": asdict(each.census) if each.census else None,
                "waiting": each.waiting,
                "error": error_data(each.problem) if each.problem else None,
            }
            for each in found.tables
        ],
    }


def _print_table(each: TableAudit) -> None:
    tell(each.table)
    if each.problem is not None:
        show_error(each.problem, as_json=False)
    for chain in each.chains:
        tell(f"  {_chain_text(chain)}")
    census = each.census
    if census is not None:
        older = f"; {census.unchecked:,} rows are older than Kafka's log"
        tell(
            f"  rows: {census.records:,} records in Kafka = {census.rows - census.unchecked:,} in "
            f"the table + {census.quarantined:,} in quarantine + {census.skipped:,} left out"
            f"{older if census.unchecked else ''}"
        )
    for untold in () if census is None else census.untold:
        tell(f"  not compared: {untold}")
    for broken in each.breaks:
        tell(f"  BROKEN {broken.kind}: {broken.message}")
    for way in _ways_out(each):
        tell(f"    → {pasteable(way)}")
    if each.problem is None and not each.breaks:
        tell(f"  ok: {_proven(each)}")
    if each.problem is None and each.waiting != 0:
        tell(f"  waiting: {_waiting(each)}")


def _ways_out(each: TableAudit) -> list[str]:
    """Name the commands that show what can be done about rows that are gone."""
    kinds = {broken.kind for broken in each.breaks}
    if "witnesses" in kinds:
        return [f"it was rolled back:  penstock explain P455; meant:  penstock seek {each.table}"]
    topics = {one.where.rpartition("[")[0] for one in each.breaks if one.kind == "lost"}
    if topics:
        return [
            f"rows that are gone at the end of the table:  penstock seek {each.table}",
            f"between others:  penstock replay {each.table} {' '.join(sorted(topics))} --new-rows",
        ]
    return []


def _proven(each: TableAudit) -> str:
    if each.census is None:
        return "chain gapless"
    fate = "landed or quarantined once" if each.census.quarantined else "landed once"
    which = "every record" if each.waiting == 0 else "every record that it has read"
    return f"chain gapless, {which} {fate}"


def _waiting(each: TableAudit) -> str:
    if each.waiting is None:
        return "? records of its topics in Kafka: a partition has no leader"
    held = number_of(each.waiting, "record")
    why = pasteable("penstock status")
    return f"{held} of its topics in Kafka, which it has not read yet; why:  {why}"


def _chain_text(chain: ChainAudit) -> str:
    told = "from the beginning" if chain.from_the_beginning else "the oldest were trimmed"
    name = "quarantine chain" if "/" in chain.chain else "chain"
    files = "" if "/" in chain.chain else f", {number_of(chain.files, 'file')}"
    return f"{name}: {number_of(chain.commits, 'commit')} told ({told}){files}"


def print_values(found: ValuesAudits) -> None:
    """Print an audit of values for people."""
    for each in found.tables:
        _print_values(each)
    if not found.tables:
        tell("nothing to compare: no topic is routed to a table, and there is no quarantine")


def _print_values(each: ValuesAudit) -> None:
    tell(each.table)
    if each.problem is not None:
        show_error(each.problem, as_json=False)
        return
    compared = ((each.files, "file"), (each.columns, "column"), (each.rows, "row"))
    tell(f"  compared: {', '.join(number_of(*one) for one in compared)}")
    for untold in each.untold:
        tell(f"  not compared: {untold}")
    for wrong in each.mismatches:
        where = f"{wrong.column} in {wrong.file}" if wrong.column else wrong.file
        tell(f"  WRONG {wrong.fault}: {where}")
        tell(f"    the metadata says {wrong.stated}, the file holds {wrong.held}")
        tell(f"    why it matters: {wrong.harm}")
    if each.further:
        tell(f"  and {each.further:,} more")
    if each.outcome == "nothing to compare":
        tell(f"  nothing to compare: {_why_nothing(each)}")
    if each.outcome == "ok":
        which = "every file that was compared" if each.untold else "every file"
        tell(f"  ok: the metadata says of {which} what it holds")


def _why_nothing(each: ValuesAudit) -> str:
    if each.files:
        return f"the metadata of {number_of(each.files, 'file')} says nothing of columns"
    return "no file could be compared" if each.untold else "no live file"


def _values_data(found: ValuesAudits) -> dict[str, Any]:
    return {
        "exit_code": found.exit_code,
        "tables": [
            {
                "table": each.table,
                "outcome": each.outcome,
                "files": each.files,
                "columns": each.columns,
                "rows": each.rows,
                "mismatches": [{**asdict(one), "harm": one.harm} for one in each.mismatches],
                "further": each.further,
                "untold": list(each.untold),
                "error": error_data(each.problem) if each.problem else None,
            }
            for each in found.tables
        ],
    }
