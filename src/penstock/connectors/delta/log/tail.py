"""Follows a table's log: what is known of its newest version, reading only what is new.

To open a log costs as much as the table has files, so it grows with every commit. What changes from
one commit to the next is in the new entries, and those are read for the witnesses anyway.

Invariants:
- a view is of one version, the log's newest when the view was returned: no entry came next, and no
  checkpoint named one;
- a view is advanced along the log it was opened on only: its entry is still there, byte for byte,
  after the later ones were read; where there are none, on an object store both are asked for at
  once, and before anything is put the log is looked at again (next_version.py);
- what is known of the past is of that same log: of a log opened afresh, it stays known when the
  entry it reached is still there, byte for byte;
- anything unexpected opens the log afresh: that entry missing or replaced, a checkpoint ahead
  (entries before it may be cleaned up), an entry that cannot be read or that changes metadata,
  protocol or domains, very many entries at once, a commit with an unknown outcome.

Threads share no lock: views are values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.commit_file import log_of
from penstock.connectors.delta.log.ledger import ERA, OURS
from penstock.connectors.delta.log.reader import Entry, Log, Reconciled, parsed
from penstock.connectors.delta.log.summary import LogSummary, joined, past_of
from penstock.connectors.delta.log.table_metadata import TableMetadata, form_of
from penstock.core import table_errors
from penstock.files import FileOptions

_ENTRIES_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class LogView:
    """A table at one version.

    `transactions` are ours, `domains` all there are; `checkpointed` is the version of the
    checkpoint written last, or -1. `past` reaches up to this version, and as far down as was asked
    for. Views with the same `opened` are of one log.
    """

    form: TableMetadata
    version: int
    checkpointed: int
    head_entry: bytes | None = field(repr=False)
    transactions: Mapping[str, int] = field(repr=False)
    domains: Mapping[str, str] = field(repr=False)
    past: LogSummary = field(repr=False)
    opened: object = field(repr=False)


class LogTail:
    """Follows the log of one table. Its results are as if read afresh each time."""

    def __init__(self, name: str, root: StorageRoot, options: FileOptions) -> None:
        self.name, self.root, self._options = name, root, options
        self._view: LogView | None = None
        self._former: LogView | None = None

    @property
    def log(self) -> Log:
        """The table's log, read with the credentials of now."""
        return log_of(self.root, self.name)

    def view(self) -> LogView:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        before = self._view
        with reading(self.name):
            view = None if before is None else self._carried_on(before)
        return self._keep(self._open(before or self._former) if view is None else view)

    def last(self) -> LogView:
        """Return the view given last, for what need not be new; a new one when there is none."""
        return self._view or self.view()

    def landed(self, before: LogView, body: bytes, checkpointed: int) -> None:
        """Take over a version put after a view; it and the entry before it were read back."""
        entry = parsed(before.version + 1, body)
        self._keep(_moved_on(before, [entry], checkpointed, body))

    def reaching(self, view: LogView, version: int) -> LogView:
        """Return a view with a past that reaches down to a version; read what is not known of it.

        Raises UnavailableError, InvalidError (P438).
        """
        if view.past.first <= version:
            return view
        with reading(self.name):
            entries = self.log.entries(range(version, view.past.first))
            view = replace(view, past=joined(past_of(version, entries), view.past))
            same = view.head_entry is not None and self.log.raw(view.version) == view.head_entry
        return self._keep(view) if same else view

    def handle(self, view: LogView) -> Handle:
        """Open the library's handle at the view's version: expensive, for it reads the file list.

        Raises UnavailableError, InvalidError (P438) when the version cannot be opened any more.
        """
        with reading(self.name):
            handle = self._handle(view.version)
            uuid = str(handle.metadata().id)
        if uuid != view.form.uuid:
            raise table_errors.missing(self.name)
        return handle

    def forget(self) -> None:
        """Open the log afresh next time, after an act with an unknown outcome."""
        self._former, self._view = self._view or self._former, None

    def _keep(self, view: LogView) -> LogView:
        """Remember a view unless a newer one is; what either knows of the past is known to both."""
        held = self._view
        if held is None or held.opened is not view.opened:
            self._view = view
        elif held.version > view.version:
            self._view = replace(held, past=joined(view.past, held.past))
        else:
            self._view = view = replace(view, past=joined(held.past, view.past))
        return view

    def _carried_on(self, before: LogView) -> LogView | None:
        """Read on from a view; None when the log has to be opened afresh."""
        if before.head_entry is None:
            return None
        last = before.version
        (following, head_entry), checkpointed = self.log.read_with_checkpoint(last + 1, last)
        found: list[bytes] = []
        while following is not None:
            found.append(following)
            if len(found) > _ENTRIES_AT_ONCE:
                return None
            following = self.log.raw(last + len(found) + 1)
        if found:
            (head_entry,), checkpointed = self.log.read_with_checkpoint(last)
        if head_entry != before.head_entry:
            return None
        try:
            entries = [parsed(before.version + n, raw) for n, raw in enumerate(found, 1)]
        except ValueError:
            return None
        if checkpointed > before.version + len(found) or any(each.reshapes for each in entries):
            return None
        if not found and checkpointed == before.checkpointed:
            return before
        return _moved_on(before, entries, checkpointed, [before.head_entry, *found][-1])

    def _open(self, former: LogView | None) -> LogView:
        with reading(self.name):
            handle = self._handle(None)
            version = int(handle.version())
            head_entry = self.log.raw(version)
            checkpointed = self.log.checkpointed()
            held = self.log.reconciled(version)
        form = form_of(self.name, self.root, self._options, handle, held.domains)
        transactions, domains = _ours(held.transactions), held.domains
        with reading(self.name):
            known = None if former is None else self._past_after(former, form, version)
        past, opened = known or (LogSummary(version + 1, version + 1), object())
        return LogView(form, version, checkpointed, head_entry, transactions, domains, past, opened)

    def _past_after(
        self, former: LogView, form: TableMetadata, version: int
    ) -> tuple[LogSummary, object] | None:
        """Carry the past of a former view on to a version; None when it is another log's."""
        if former.form.uuid != form.uuid or former.version > version or former.head_entry is None:
            return None
        after = former.version + 1
        try:
            since = past_of(after, self.log.entries(range(after, version + 1)))
        except ValueError:
            return None
        if self.log.raw(former.version) != former.head_entry:
            return None
        return joined(former.past, since), former.opened

    def _handle(self, version: int | None) -> Handle:
        location = self.root.location(self.name)
        return Handle(location, version=version, storage_options=dict(self.root.options))


def _moved_on(
    before: LogView, entries: list[Entry], checkpointed: int, head_entry: bytes
) -> LogView:
    held = Reconciled(before.transactions, before.domains).after(entries)
    version = before.version + len(entries)
    past = joined(before.past, past_of(before.version + 1, entries))
    return replace(
        before,
        version=version,
        checkpointed=checkpointed,
        head_entry=head_entry,
        transactions=_ours(held.transactions),
        domains=held.domains,
        past=past,
    )


def _ours(transactions: Mapping[str, int]) -> dict[str, int]:
    return {
        app_id: version
        for app_id, version in transactions.items()
        if app_id.startswith(OURS) or app_id == ERA
    }
