"""Follows a table's log: what is known of its newest version, reading only what is new.

To open a log costs as much as the table has files, so it grows with every commit. What changes from
one commit to the next stands in the new entries, and those are read for the witnesses anyway; the
library's handle is needed to commit, and for what happened before the log was opened.

Invariants:
- a view is of one version, and that was the log's newest when the view was given: no entry came
  next, and no checkpoint told of one;
- a view is carried on along the log it was opened on only: the entry it stood at is there, byte for
  byte, after those behind it were read;
- whatever is odd opens the log afresh: that entry gone or another, a checkpoint ahead (entries
  before it may be cleaned up), an entry that cannot be read or that changes metadata or protocol,
  very many entries at once, a commit whose outcome is in doubt;
- a handle is taken at exactly the version of a view, by one thread, and never tries two commits on
  one version; it belongs to one opened log, and never serves a view of another.

Threads share no lock: views are values, and a handle in use is in nobody else's reach; who finds
none opens one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.faults import not_there, reading
from penstock.connectors.delta.forms import Form, form_of
from penstock.connectors.delta.ledger import OURS
from penstock.connectors.delta.log import Entry, Log, parsed
from penstock.connectors.delta.places import Root
from penstock.connectors.delta.target import Sizes
from penstock.core.errors import PenstockError

_ENTRIES_AT_ONCE = 64
_ENTRIES_KEPT = 32
# A handle has one piece for each version it was brought forward by; a commit goes through all.
_PIECES_MAX = 16


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What was found when a log was opened; the object stands for that very log.

    `transactions` are the ids looked up so far, as of `version`.
    """

    version: int
    form: Form
    transactions: dict[str, int | None] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What is known of a table at one version.

    `transactions` are ours of all entries since the log was opened, `entries` the newest of them;
    `checkpointed` is the version of the checkpoint written last, or -1.
    """

    opened: Opened
    version: int
    checkpointed: int
    head_entry: bytes | None = field(repr=False)
    transactions: Mapping[str, int] = field(default_factory=dict, repr=False)
    entries: Mapping[int, Entry] = field(default_factory=dict, repr=False)

    @property
    def form(self) -> Form:
        """Give what the table is."""
        return self.opened.form


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A handle of an opened log, since version `first`; `tried` when it was used for a commit."""

    handle: Handle
    opened: Opened
    first: int
    tried: bool = False

    @property
    def version(self) -> int:
        """Give the version the handle stands at; a commit leaves it there."""
        return int(self.handle.version())


class Following:
    """Follows the log of one table. What it gives is read afresh, in effect, each time."""

    def __init__(self, name: str, root: Root, sizes: Sizes) -> None:
        self.log = Log(root.filesystem(), root.location(name))
        self._name, self._root, self._sizes = name, root, sizes
        self._view: View | None = None
        self._spare: deque[Held] = deque(maxlen=1)

    def view(self) -> View:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        before = self._view
        with reading(self._name):
            view = None if before is None else self._carried_on(before)
        self._view = self._open() if view is None else view
        return self._view

    def entry(self, view: View, version: int) -> Entry | None:
        """Give an entry up to the view's version; None when it is not there any more."""
        return view.entries.get(version) or self.log.entry(version)

    def transaction(self, view: View, app_id: str) -> int | None:
        """Look up one of our transactions at the view's version. Raises what `take` raises."""
        if (version := view.transactions.get(app_id)) is not None:
            return version
        # No entry since has touched it, so it is what it was when the log was opened.
        known = view.opened.transactions
        if app_id not in known:
            held = self._waiting(view.opened)
            if held is None or held.version > view.version:
                held = self._opened_at(view)
            with reading(self._name):
                known[app_id] = held.handle.transaction_version(app_id)
            self.give_back(held)
        return known[app_id]

    def take(self, view: View) -> Held:
        """Take a handle at exactly the view's version, out of reach of all others.

        Raises UnavailableError, InvalidError (P438) when the version cannot be opened any more.
        """
        held = self._waiting(view.opened)
        if held is not None and (held.tried or held.version < view.version):
            held = self._forward(held)
        if held is None or held.version != view.version:
            return self._opened_at(view)
        return held

    def give_back(self, held: Held) -> None:
        """Let a handle wait for its next use; one that failed is not given back."""
        self._spare.append(held)

    def forget(self) -> None:
        """Open the log afresh next time, after an act whose outcome is in doubt."""
        self._view = None

    def keep_up(self, view: View) -> None:
        """Bring the waiting handle to the view's version, so that the next commit need not.

        Raises what `take` raises.
        """
        held = self._waiting(view.opened)
        if held is not None and _in_pieces(held, view):
            held = None
        if held is not None and (held.tried or held.version < view.version):
            held = self._forward(held)
        self.give_back(held or self._opened_at(view))

    def _carried_on(self, before: View) -> View | None:
        """Read on from a view; None when the log has to be opened afresh."""
        if before.head_entry is None:
            return None
        found: list[bytes] = []
        while (raw := self.log.raw(before.version + len(found) + 1)) is not None:
            found.append(raw)
            if len(found) > _ENTRIES_AT_ONCE:
                return None
        if self.log.raw(before.version) != before.head_entry:
            return None
        try:
            entries = [parsed(before.version + n, raw) for n, raw in enumerate(found, 1)]
            checkpointed = self.log.checkpointed()
        except ValueError:
            return None
        if checkpointed > before.version + len(found) or any(each.reshapes for each in entries):
            return None
        if not found and checkpointed == before.checkpointed:
            return before
        return _moved_on(before, entries, checkpointed, [before.head_entry, *found][-1])

    def _open(self) -> View:
        with reading(self._name):
            handle = self._handle(None)
            version = int(handle.version())
            head_entry = self.log.raw(version)
            checkpointed = self._checkpointed()
        opened = Opened(version, form_of(self._name, self._root, self._sizes, handle))
        self.give_back(Held(handle, opened, version))
        return View(opened, version, checkpointed, head_entry)

    def _opened_at(self, view: View) -> Held:
        with reading(self._name):
            handle = self._handle(view.version)
            uuid = str(handle.metadata().id)
        if uuid != view.form.uuid:
            raise not_there(self._name)
        return Held(handle, view.opened, view.version)

    def _handle(self, version: int | None) -> Handle:
        location = self._root.location(self._name)
        return Handle(location, version=version, storage_options=dict(self._root.options))

    def _checkpointed(self) -> int:
        try:
            return self.log.checkpointed()
        except ValueError:
            return -1

    def _waiting(self, opened: Opened) -> Held | None:
        try:
            held = self._spare.pop()
        except IndexError:
            return None
        return held if held.opened is opened else None

    def _forward(self, held: Held) -> Held | None:
        """Bring a handle to the log's newest version; None when it cannot be used any more."""
        before = held.version
        try:
            with reading(self._name):
                held.handle.update_incremental()
        except PenstockError:
            return None
        if held.tried and held.version == before:
            return None
        return replace(held, tried=False)


def _moved_on(before: View, entries: list[Entry], checkpointed: int, head_entry: bytes) -> View:
    ours = {
        app_id: version
        for entry in entries
        for app_id, version in entry.transactions.items()
        if app_id.startswith(OURS)
    }
    version = before.version + len(entries)
    known = {**before.entries, **{entry.version: entry for entry in entries}}
    return View(
        opened=before.opened,
        version=version,
        checkpointed=checkpointed,
        head_entry=head_entry,
        transactions={**before.transactions, **ours},
        entries={each: known[each] for each in known if each > version - _ENTRIES_KEPT},
    )


def _in_pieces(held: Held, view: View) -> bool:
    """Tell whether opening again, from a newer checkpoint, gives a handle in fewer pieces."""
    return view.checkpointed > held.first and view.version - held.first > _PIECES_MAX
