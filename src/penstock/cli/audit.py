"""`penstock audit`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.output import error_data, print_json, say, show_error, tell
from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.observe.figures import number_of

if TYPE_CHECKING:
    from penstock.app.audit import Audit, ChainAudit, TableAudit


def audit(
    *tables: str,
    spec: Spec = SPEC,
    count: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Prove that nothing is lost or doubled: the chains from metadata, the rows with --count.

    Exits with 4 on a break, and says where. Nothing is written.

    Example: penstock audit shop.yaml lake.bronze.orders --count

    Parameters
    ----------
    tables
        Tables, by their names in the spec; all of them when left out.
    spec
        The spec of the pipeline.
    count
        Also compare every row with Kafka, record by record.
    json
        Print JSON.
    """
    from penstock.app.audit import audit as prove

    found = prove(
        load_spec(spec),
        tables=tables,
        rows=count,
        progressed=(lambda _: None) if json else say,
    )
    if json:
        print_json(_data(found))
    else:
        tell_audit(found)
    return found.exit_code


def tell_audit(found: Audit) -> None:
    """Print an audit for people."""
    for each in found.tables:
        _tell(each)


def _data(found: Audit) -> dict[str, Any]:
    return {
        "exit_code": found.exit_code,
        "tables": [
            {
                "table": each.table,
                "chains": [asdict(chain) for chain in each.chains],
                "census": asdict(each.census) if each.census else None,
                "error": error_data(each.problem) if each.problem else None,
            }
            for each in found.tables
        ],
    }


def _tell(each: TableAudit) -> None:
    tell(each.table)
    if each.problem is not None:
        show_error(each.problem, as_json=False)
    for chain in each.chains:
        tell(f"  {_chain_text(chain)}")
    census = each.census
    if census is not None:
        tell(
            f"  rows: {census.records:,} records in Kafka = {census.rows - census.unchecked:,} in "
            f"the table + {census.quarantined:,} in quarantine + {census.skipped:,} left out"
            + (
                f"; {census.unchecked:,} rows are older than Kafka's log"
                if census.unchecked
                else ""
            )
        )
    for untold in () if census is None else census.untold:
        tell(f"  not compared: {untold}")
    for broken in each.breaks:
        tell(f"  BROKEN {broken.kind}: {broken.message}")
    if each.problem is None and not each.breaks:
        tell(f"  ok: {_proven(each)}")


def _proven(each: TableAudit) -> str:
    if each.census is None:
        return "chain gapless"
    fate = "landed or quarantined once" if each.census.quarantined else "landed once"
    return f"chain gapless, every record {fate}"


def _chain_text(chain: ChainAudit) -> str:
    told = "from the beginning" if chain.from_the_beginning else "the oldest were trimmed"
    name = "quarantine chain" if "/" in chain.chain else "chain"
    files = "" if "/" in chain.chain else f", {number_of(chain.files, 'file')}"
    return f"{name}: {number_of(chain.commits, 'commit')} told ({told}){files}"
