"""Reads one table for one chain: its newest version, and the verdict of the witnesses on it.

Invariant: everything is of one version: that of the view, which goes into the state and back to
commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.log.witnesses import Facts, Judgement, judge
from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.core import table_errors
from penstock.core.commits import Chain
from penstock.ports.tables import TableState, Verdict


@dataclass(slots=True)
class ExaminedState:
    """The view a state was read from, for one commit."""

    view: LogView = field(repr=False)
    used: bool = False

    def consume(self, name: str) -> None:
        """Take the view for the one commit it is good for. Raises ConflictError."""
        if self.used:
            raise table_errors.moved(name, "a commit was tried on this state before")
        self.used = True


def examined(name: str, following: LogTail, chain: Chain) -> TableState:
    """Read a table afresh. Raises UnavailableError, InvalidError (P435, P436, P438)."""
    view = following.view()
    sequence = _version_of(view, chain, ledger.SEQUENCE)
    if sequence is not None:
        view = following.reaching(view, sequence)
    with reading(name):
        judgement = _judgement(following, view, chain)
    return TableState(
        uuid=view.form.uuid,
        head=str(view.version),
        schema=view.form.schema,
        schema_id=view.form.schema_id,
        landed=judgement.landed,
        verdict=judgement.verdict,
        evidence=judgement.evidence,
        target=view.form.target,
        not_empty=view.form.not_empty,
        reserved=reserved(view.form.configuration),
        handle=ExaminedState(view),
    )


def _judgement(following: LogTail, view: LogView, chain: Chain) -> Judgement:
    def file_is_live() -> bool | None:
        landed = _version_of(view, chain, ledger.FILE)
        if landed is None:
            return None
        names = [uri.rpartition("/")[2] for uri in following.handle(view).file_uris()]
        return any(ledger.file_hash(each) == landed for each in names)

    generation = _version_of(view, chain, ledger.GENERATION)
    sequence = _version_of(view, chain, ledger.SEQUENCE)
    if generation is None or sequence is None:
        return Judgement(Verdict.ABSENT, f"no transaction of {chain.name}", None)
    return judge(
        Facts(
            chain=chain.name,
            generation=generation,
            sequence=sequence,
            rolled_back=_version_of(view, chain, ledger.ROLLED_BACK),
            past=view.past,
            transactions=lambda: view.transactions,
            file_is_live=file_is_live,
        )
    )


def _version_of(view: LogView, chain: Chain, kind: str) -> int | None:
    return view.transactions.get(ledger.app_id(chain.name, kind))
