"""`penstock audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli import publications
from penstock.cli.output import fields_of, pasteable, print_line, print_result, say, show_error
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_spec, parts_of
from penstock.core.errors import InvalidError, gravest
from penstock.observe.formatting import number_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.app.inspect.audit import Audit, ChainAudit, TableAudit
    from penstock.app.inspect.keys_audit import KeysAudits
    from penstock.app.inspect.metadata_audit import ValuesAudit, ValuesAudits
    from penstock.app.inspect.row_count import RowCount


KINDS = {"witnesses": "rolled back"}
RULES = "rules"
JSON_HELP = (
    'Print JSON: each table with "lag_records", its unread records (null: unknown); with --values '
    'its "outcome": "ok", "wrong", "nothing to compare" or "error".'
)


@by_shard()
def audit(
    *tables: str,
    spec: Spec = SPEC,
    count: bool = False,
    values: bool = False,
    keys: str | None = None,
    json: Annotated[Json, Parameter(help=JSON_HELP)] = False,
) -> int:
    """Prove that no record is lost or duplicated: chains from metadata, rows with --count.

    Also shows how many records in Kafka each table has not read yet.

    With --values instead, checks that the metadata of every live file agrees with its contents, so
    that a reader's filter finds all rows that match. Exits with 4 on a break, and says where; with
    --values also with 2 where nothing could be compared in any table, and with --count where
    nothing could be in any publication of a spec that only publishes. With --keys, counts rows by
    key. Writes nothing.

    Example: penstock audit shop.yaml lake.bronze.orders --count

    Parameters
    ----------
    tables
        Tables by their names in the spec, or publications of a spec that only publishes; default:
        all. With --values any table of a catalog of
        the spec.
    count
        Also compare every row with Kafka, record by record; in a keyed table each key's row with
        its last change.
    values
        Compare bounds, counts, sizes and partition values in the metadata of every live file with
        its contents, whichever writer made it.
    keys
        Count the rows of each key instead: these columns, as id,region, or "rules" for the keys of
        the rules. Exits with 4 where a key has several rows. Takes any table of a catalog.
    """
    progressed = (lambda _: None) if json else say
    if count + values + (keys is not None) > 1:
        raise InvalidError(
            "--count, --values and --keys are three audits",
            code="P444",
            hint="run them one after the other",
        )
    if keys is not None:
        return _audit_keys(spec, tables, keys, progressed, json=json)
    if values:
        return _audit_values(spec, tables, progressed, json=json)
    return _audit_rows(spec, tables, progressed, count=count, json=json)


def _audit_keys(
    spec: Path, tables: tuple[str, ...], keys: str, progressed: Callable[[str], None], *, json: bool
) -> int:
    from penstock.app.inspect.keys_audit import audit_keys

    named = () if keys == RULES else _columns(keys)
    seen = audit_keys(load_spec(spec), tables=tables, keys=named, progressed=progressed)
    print_result(seen, data=_keys_data, show=_print_keys, json=json)
    return seen.exit_code


def _audit_values(
    spec: Path, tables: tuple[str, ...], progressed: Callable[[str], None], *, json: bool
) -> int:
    from penstock.app.inspect.metadata_audit import audit_values

    compared = audit_values(load_spec(spec), tables=tables, progressed=progressed)
    print_result(compared, data=_values_data, show=_print_values, json=json)
    return compared.exit_code


def _audit_rows(
    spec: Path,
    tables: tuple[str, ...],
    progressed: Callable[[str], None],
    *,
    count: bool,
    json: bool,
) -> int:
    from penstock.app.inspect.audit import audit as prove

    parts = parts_of(spec)
    if not parts.lands:
        return publications.audited(spec, tables, rows=count).show(json=json)
    found = prove(load_spec(spec), tables=tables, rows=count, progressed=progressed)
    published = publications.NOTHING
    if parts.publishes and not tables:
        published = publications.audited(spec, (), rows=count)
    print_result(
        found, data=lambda all_: {**_data(all_), **published.data}, show=print_audit, json=json
    )
    if not json:
        published.show_lines()
    return gravest((found.exit_code, published.exit_code))


def _columns(text: str) -> list[str]:
    """Read the names of columns. Raises InvalidError (P444): an empty one, one given twice."""
    names = [each.strip() for each in text.split(",")]
    if not all(names) or len({*names}) < len(names):
        raise InvalidError(
            f"{text[:80]!r} does not name the columns of a key",
            code="P444",
            hint="--keys id,region, or  --keys rules",
        )
    return names


def print_audit(found: Audit) -> None:
    """Print an audit for people."""
    for each in found.tables:
        _print_table(each)


def _data(found: Audit) -> dict[str, Any]:
    return {
        "exit_code": found.exit_code,
        "tables": [_with_error(fields_of(each)) for each in found.tables],
    }


def _with_error(table: dict[str, Any]) -> dict[str, Any]:
    problem = table.pop("problem")
    return {**table, "error": problem}


def _print_table(each: TableAudit) -> None:
    print_line(each.table)
    if each.problem is not None:
        show_error(each.problem, as_json=False)
    for chain in each.chains:
        print_line(f"  {_chain_text(chain)}")
    counted = each.row_count
    if counted is not None:
        print_line(f"  rows: {_rows_text(counted)}")
        for reason in counted.not_compared:
            print_line(f"  not compared: {reason}")
        for skipped in counted.skipped_offsets:
            print_line(f"  no row: {skipped}")
    for broken in each.breaks:
        print_line(f"  BROKEN {KINDS.get(broken.kind, broken.kind)}: {broken.message}")
    for way in _ways_out(each):
        print_line(f"    → {pasteable(way)}")
    if each.problem is None and not each.breaks:
        print_line(f"  ok: {_proven(each)}")
    if each.problem is None and each.lag_records != 0:
        print_line(f"  lag: {_lag(each)}")


def _rows_text(counted: RowCount) -> str:
    replaced = f"{counted.superseded:,} replaced or deleted by later ones + "
    present, past = ("is", "was") if counted.unchecked == 1 else ("are", "were")
    older = f"{present} older than Kafka's log" if counted.keys is None else f"{past} not compared"
    unchecked = f"; {number_of(counted.unchecked, 'row')} {older}"
    return (
        f"{counted.records:,} records in Kafka = "
        f"{counted.rows - counted.unchecked:,} in the table + "
        f"{'' if counted.keys is None else replaced}"
        f"{counted.quarantined:,} in quarantine + {counted.filtered:,} filtered"
        f"{unchecked if counted.unchecked else ''}"
    )


def _ways_out(each: TableAudit) -> list[str]:
    kinds = {broken.kind for broken in each.breaks}
    if "witnesses" in kinds:
        return [f"it was rolled back:  penstock explain P455; meant:  penstock seek {each.table}"]
    if each.row_count is not None and each.row_count.keys is not None:
        places = " ".join(each.row_count.applied_again)
        meant = f"apply their changes again:  penstock seek --reapply {each.table} {places}"
        return [meant] * bool(places)
    topics = {one.where.rpartition("[")[0] for one in each.breaks if one.kind == "lost"}
    if topics:
        return [
            f"rows that are missing at the end of the table:  penstock seek {each.table}",
            f"between others:  penstock replay {each.table} {' '.join(sorted(topics))} --new-rows",
        ]
    return []


def _proven(each: TableAudit) -> str:
    row_count = each.row_count
    if row_count is None:
        return "chain gapless"
    if row_count.not_compared if row_count.keys is None else row_count.partitions_not_compared:
        where = number_of(row_count.partitions_not_compared, "partition")
        return f"chain gapless; rows not compared in {where}"
    if row_count.keys is not None:
        which = f"each of {number_of(row_count.keys, 'key')} that Kafka still has a change of"
        return f"chain gapless, {which} has the row of its last one, or none after a delete"
    outcome = "landed or quarantined once" if row_count.quarantined else "landed once"
    which = "every record" if each.lag_records == 0 else "every record that it has read"
    if row_count.skipped_offsets or row_count.unchecked:
        which += " and that Kafka still has" if each.lag_records else " that Kafka still has"
    return f"chain gapless, {which} {outcome}"


def _lag(each: TableAudit) -> str:
    if each.lag_records is None:
        return "? records of its topics in Kafka: a partition has no leader"
    held = number_of(each.lag_records, "record")
    why = pasteable("penstock status")
    return f"{held} of its topics in Kafka, which it has not read yet; why:  {why}"


def _chain_text(chain: ChainAudit) -> str:
    name = "quarantine chain" if "/" in chain.chain else "chain"
    files = "" if "/" in chain.chain else f", {number_of(chain.files, 'file')}"
    commits = number_of(chain.commits, "commit")
    if not chain.complete:
        return f"{name}: history kept for the newest {commits}{files}"
    return f"{name}: {commits} recorded{files}"


def _print_values(found: ValuesAudits) -> None:
    for each in found.tables:
        _print_values_of(each)
    if not found.tables:
        print_line("nothing to compare: no topic is routed to a table, and there is no quarantine")


def _print_values_of(each: ValuesAudit) -> None:
    print_line(each.table)
    if each.problem is not None:
        show_error(each.problem, as_json=False)
        return
    compared = ((each.files, "file"), (each.columns, "column"), (each.rows, "row"))
    print_line(f"  compared: {', '.join(number_of(*one) for one in compared)}")
    for reason in each.not_compared:
        print_line(f"  not compared: {reason}")
    for wrong in each.mismatches:
        where = f"{wrong.column} in {wrong.file}" if wrong.column else wrong.file
        print_line(f"  WRONG {wrong.fault}: {where}")
        print_line(f"    the metadata says {wrong.stated}, the file holds {wrong.held}")
        print_line(f"    why it matters: {wrong.harm}")
    if each.further:
        print_line(f"  and {each.further:,} more")
    if each.outcome == "nothing to compare":
        print_line(f"  nothing to compare: {_why_nothing(each)}")
    if each.outcome == "ok":
        which = "every file that was compared" if each.not_compared else "every file"
        print_line(f"  ok: the metadata says of {which} what it holds")


def _print_keys(found: KeysAudits) -> None:
    from penstock.app.inspect.keys_audit import said

    for each in found.tables:
        print_line(each.table)
        for line in said(each) if each.problem is None or each.rows else ():
            print_line(f"  {line}")
        if each.problem is not None:
            show_error(each.problem, as_json=False)


def _keys_data(found: KeysAudits) -> dict[str, Any]:
    tables = [_with_error(fields_of(each)) for each in found.tables]
    return {"exit_code": found.exit_code, "tables": tables}


def _why_nothing(each: ValuesAudit) -> str:
    if each.files:
        return f"the metadata of {number_of(each.files, 'file')} says nothing of columns"
    return "no file could be compared" if each.not_compared else "no live file"


def _values_data(found: ValuesAudits) -> dict[str, Any]:
    tables = []
    for each in found.tables:
        table = {"table": each.table, "outcome": each.outcome, **fields_of(each)}
        table["mismatches"] = [{**fields_of(one), "harm": one.harm} for one in each.mismatches]
        tables.append(_with_error(table))
    return {"exit_code": found.exit_code, "tables": tables}
