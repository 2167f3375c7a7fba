"""`penstock transactions`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.output import print_json, print_line, result_console
from penstock.cli.parameters import SPEC, Json, Spec, Yes
from penstock.cli.specs import load_publications, load_spec, parts_of
from penstock.observe.formatting import age_text, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.transactions import OpenTransaction

STYLES = {"hanging": "bold red", "unknown": "yellow"}


def transactions(
    spec: Spec = SPEC,
    *,
    cluster: bool = False,
    abort: str | None = None,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """List transactions that are open in Kafka, and those that hang; abort one.

    Readers of committed records, as Penstock is one, stop where a transaction is open. An open one
    is ended by its producer, or by its timeout; a hanging one by nobody: its coordinator does not
    know of it. Listing writes nothing. An abort of an open one fences its producer. With neither
    --yes nor a terminal --abort only shows the change.

    Example: penstock transactions shop.yaml

    Parameters
    ----------
    cluster
        Look through all topics of the cluster, not only through those of the spec.
    abort
        The transaction to abort: a transactional id, or the producer id of a hanging one.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.inspect.open_transactions import listed
    from penstock.app.repair import abort_transaction as repair
    from penstock.ports.transactions import Scope

    publishes, clock = parts_of(spec).publishes, SystemClock()
    read = load_publications(spec) if publishes else load_spec(spec, any_shard=True)
    scope = Scope.CLUSTER if cluster else Scope.SPEC
    if abort is None:
        found = listed(read, scope)
        if json:
            print_json({"transactions": found})
        elif found:
            _show(found, clock.now_ms())
        else:
            print_line("no transaction is open")
        return 0
    name = abort

    def apply() -> Done:
        done = repair.abort(read, scope, name)
        lines = [f"aborted {each.name}: {each.held} can be read on" for each in done]
        return {"aborted": done}, lines

    plan = partial(repair.abort_plan, read, scope, name, clock)
    return confirm_and_apply(lambda _: plan(), apply, yes, json=json)


def _show(found: Sequence[OpenTransaction], now_ms: int) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("transaction", "state", "producer", "open for", "holds up"):
        folds = title == "holds up"
        table.add_column(title, header_style="dim", overflow="fold", no_wrap=not folds)
    for each in found:
        age = age_text(now_ms - each.began_ms) if each.began_ms else "-"
        timeout = f" of {age_text(each.timeout_ms)}" if each.timeout_ms else ""
        table.add_row(
            Text(one_line(each.name), "bold"),
            Text(each.state.value, STYLES.get(each.state, "")),
            f"{each.producer_id}/{each.epoch}",
            f"{age}{timeout}",
            Text(one_line(each.held)),
        )
    result_console().print(table)
