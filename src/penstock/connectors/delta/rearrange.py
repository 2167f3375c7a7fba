"""The entry of a rearrangement: files in the place of others with the same rows, nothing claimed.

Invariants (docs/design/0289, 0291):
- only what the log itself proves of each chain is vouched for, never what a live file suggests;
- our newest words on a chain are repeated to the byte, where the log still has them: transactions
  alone know neither its owner nor its recent commits;
- where the file goes that vouches for a chain, one that took its rows does from then on;
- what was deleted while files were written again comes with them, as vectors;
- no `generation` is written: it fences nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.files.file_metadata import additions
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.actions import now_ms, removal
from penstock.connectors.delta.log.commit_file import entry_with, optimized
from penstock.connectors.delta.log.entries import Actions, vouchers
from penstock.connectors.delta.log.judging import judged
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.read.live_map import KnownFile
from penstock.connectors.delta.row_deletes import RowDelta
from penstock.connectors.delta.vectors.descriptor import id_of
from penstock.core import table_errors
from penstock.core.commits import DataFile
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.tables import Verdict

Deleting = Callable[[Sequence[DataFile], Sequence[Add], Sequence[RowDeletes]], RowDelta]
"""Writes the vectors of files that are about to be added."""


def proven(tail: LogTail, view: LogView) -> LogView:
    """Return a view with the past of all chains; raise DecisionNeededError (P846) where the log
    does not prove one of them.
    """
    for chain in ledger.chains_in(view.transactions):
        file = ledger.app_id(chain, ledger.FILE)

        def unseen(view: LogView, file: str = file) -> bool | None:
            return None if file not in view.transactions else False

        with reading(tail.name):
            finding, view = judged(tail, view, chain, unseen)
        if finding.verdict is not Verdict.AGREED:
            raise table_errors.not_vouched(tail.name, chain, finding.evidence)
    return view


def new_era(view: LogView) -> Actions:
    """Return an entry that raises the era, and repeats our newest words on each chain."""
    marks = [mark for chain in ledger.chains_in(view.transactions) for mark in _newest(view, chain)]
    raised = {ledger.ERA: view.transactions.get(ledger.ERA, 0) + 1}
    return entry_with(raised, marks, [], [], optimized([], []))


def rearrangement(
    name: str,
    view: LogView,
    live: Mapping[str, KnownFile],
    rearrangements: Sequence[Rearrangement],
    deleting: Deleting,
) -> Actions:
    """Return the entry. Raises BugError (P707, P848), InvalidError (P439)."""
    removed = _removed(name, live, rearrangements)
    files = [file for each in rearrangements for file in each.files]
    added: Sequence[Mapping[str, Any]] = additions(files, view.form.target) if files else []
    if row_deletes := [each for of in rearrangements for each in of.row_deletes]:
        added = deleting(files, added, row_deletes).added
    now = now_ms()
    gone = [{**removal(each, now), "dataChange": False} for each in removed]
    come = [{**each, "dataChange": False} for each in added]
    chains = ledger.chains_in(view.transactions)
    marks = [mark for chain in chains for mark in _newest(view, chain)]
    return entry_with(_carried(view, removed, come), marks, come, gone, optimized(come, gone))


def _removed(
    name: str, live: Mapping[str, KnownFile], rearrangements: Sequence[Rearrangement]
) -> list[Add]:
    found: dict[str, Add] = {}
    for each in rearrangements:
        for path, deleted in each.replaced.items():
            known = live.get(path)
            if known is None or path in found or known.file.delete_state != deleted:
                raise table_errors.not_rearrangeable(name, path)
            found[path] = known.add
    return [*found.values()]


def _newest(view: LogView, chain: str) -> Iterator[dict[str, Any]]:
    """Yield our newest words on a chain again, where the log has them and nobody damaged them."""
    own = view.past.own(chain, view.transactions[ledger.app_id(chain, ledger.SEQUENCE)])
    mark = own.mark(chain) if own else None
    if mark is not None and ledger.landed_in(mark) is not None:
        yield ledger.mark_of_rearrangement(mark)


def _carried(
    view: LogView, removed: Sequence[Add], added: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the transactions of chains for which a file vouches that goes."""
    if not added:
        return {}
    names = (each for add in removed for each in vouchers(add["path"], id_of(add)))
    gone = {ledger.file_hash(each) for each in names}
    files = {ledger.app_id(chain, ledger.FILE) for chain in ledger.chains_in(view.transactions)}
    newest = ledger.file_hash(str(added[-1]["path"]))
    return {each: newest for each in files if view.transactions.get(each) in gone}
