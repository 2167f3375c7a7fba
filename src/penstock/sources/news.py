"""News of a pipeline as a source: what the commits of its tables say, as events.

Whether something happened is the table's word, read afresh; nothing is remembered but positions.

Invariants:
- each chain is a part, and so is the time up to which everything is in all tables;
- what is told of a chain depends on its position and its table alone, whoever reads;
- that time never goes back: what is not later than the position is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from penstock.core.commits import Chain, Landed
from penstock.core.errors import UnavailableError
from penstock.core.resolutions import records_only
from penstock.core.shards import is_of_first
from penstock.ports.histories import CommitsBehind
from penstock.ports.own_sources import Batch, OwnSource, Place, PositionGoneError
from penstock.ports.tables import Table, TableState, Verdict
from penstock.sources.news_events import (
    EVENTS,
    OF_COMMITS,
    OF_TABLES,
    Event,
    Facts,
    Told,
    events_of,
    row_of,
    through_row,
    told_of,
)

BATCH_EVENTS = 500
COMMITS, TABLES, THROUGH = "commits", "tables", "through"
NOTHING = CommitsBehind((), follows=True)
NOWHERE = Told("", -1, 0, {})
"""Where a chain stands that is not there yet."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A chain that is told of; `counts` says whether everything waits for its valid-through."""

    chain: Chain
    counts: bool = True


class FollowedTables(Protocol):
    """The tables of a pipeline, as they are found now."""

    def chains(self) -> Sequence[Followed]:
        """List the chains, those of quarantine too. Raises UnavailableError, InvalidError."""

    def load(self, table: str) -> Table | None:
        """Return a table by its full name; None where there is none. Raises as `chains`."""

    def require(self, chain: Chain, table: Table, state: TableState) -> None:
        """Refuse a table that was begun by another number of shards (P527)."""

    def close(self) -> None:
        """Let go of connections; they are opened again when they are needed."""


class NewsSource(OwnSource):
    """The news of a pipeline, of the kinds that are asked for: commits, tables, through."""

    def __init__(
        self, pipeline: str, tables: FollowedTables, kinds: Sequence[str], content_type: str
    ) -> None:
        self._pipeline, self._tables = pipeline, tables
        self._kinds, self._content_type = frozenset(kinds), content_type
        self._open: dict[str, Table] = {}

    def parts(self) -> Sequence[Place]:
        """Return the chains, and the time of all of them at the end."""
        chains = [each.chain for each in self._tables.chains()]
        if COMMITS not in self._kinds:
            chains = [each for each in chains if not each.is_quarantine]
        if not self._kinds & {COMMITS, TABLES}:
            chains = []
        through = [{"through": self._pipeline}] if THROUGH in self._kinds else []
        return [*({"table": each.table, "chain": each.name} for each in chains), *through]

    def end(self, part: Place) -> Place | None:
        """Return the position behind all that there is to tell, or before what is not there yet."""
        if "through" in part:
            for batch in self._through(None):
                return {**batch.next, "told": 0}
            return {"ms": 0, "told": 0}
        _, state = self._state(Chain(str(part["chain"]), str(part["table"])))
        if state is None or state.landed is None:
            return NOWHERE.place()
        newest = [each for each, _ in state.landed.recent[-1:]]
        return Told(
            state.uuid,
            state.schema_id,
            state.landed.segment,
            records_only(state.landed.offsets),
            snapshot=state.head,
            commit_id="".join(newest),
            gone_back=state.verdict is Verdict.ROLLED_BACK,
        ).place()

    def columns(self) -> pa.Schema:
        """Return the columns of events."""
        return EVENTS

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield events, some hundreds at a time.

        Raises PositionGoneError for a position that is none of news.
        """
        del until
        if "through" in part:
            yield from self._through(at)
            return
        try:
            told = None if at is None else told_of(at)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PositionGoneError(f"{dict(at or {})} is no position of news") from error
        yield from self._chain(part, told)

    def close(self) -> None:
        """Let go of catalogs."""
        self._open.clear()
        self._tables.close()

    def _chain(self, part: Place, told: Told | None) -> Iterator[Batch]:
        facts = self._facts(Chain(str(part["chain"]), str(part["table"])), told)
        if facts is None:
            return
        rows, place, count = list[Mapping[str, Any]](), dict[str, Any](), told.count if told else 0
        for event in events_of(told, facts):
            if not self._is_asked_for(event, part):
                continue
            count += 1
            numbered = replace(event, told=replace(event.told, count=count))
            rows.append(row_of(numbered, part, facts, self._content_type))
            place = numbered.told.place()
            if len(rows) == BATCH_EVENTS:
                yield Batch(rows, place)
                rows = []
        if rows:
            yield Batch(rows, place)

    def _is_asked_for(self, event: Event, part: Place) -> bool:
        """Of shards, the first tells what is so of the table; of itself each."""
        chain = Chain(str(part["chain"]), str(part["table"]))
        if event.type in OF_COMMITS:
            return COMMITS in self._kinds
        if chain.is_quarantine or TABLES not in self._kinds:
            return False
        return event.type not in OF_TABLES or is_of_first(chain.name)

    def _facts(self, chain: Chain, told: Told | None) -> Facts | None:
        """Read what a table says now; None where nothing of the chain is there, or in doubt."""
        table, state = self._state(chain)
        if table is None or state is None or state.landed is None:
            return None
        if state.verdict is Verdict.UNCERTAIN:
            return None
        known = told if told is not None and told.uuid == state.uuid else None
        behind, newest = NOTHING, state.landed.recent[-1:]
        is_told = known is not None and [known.commit_id] == [each for each, _ in newest]
        if COMMITS in self._kinds and not is_told:
            behind = table.commits(chain, state, "" if known is None else known.snapshot)
        return Facts(
            uuid=state.uuid,
            schema_id=state.schema_id,
            schema=state.schema,
            snapshot=state.head,
            landed=state.landed,
            is_rolled_back=state.verdict is Verdict.ROLLED_BACK,
            behind=behind,
        )

    def _through(self, at: Place | None) -> Iterator[Batch]:
        counting = self._counting()
        ledgers = [self._sound_ledger(each) for each in counting]
        if self._counting() != counting:  # something was added before the ledgers were read
            return
        times = [None if each is None else each.valid_through_ms for each in ledgers]
        known = [each for each in times if each is not None]
        reached, count = min(known, default=0), int(at["told"] or 0) if at else 0
        if not known or len(known) < len(times) or (at and reached <= int(at["ms"] or 0)):
            return
        cluster_id = next(each.cluster_id for each in ledgers if each is not None)
        row = through_row(self._pipeline, cluster_id, reached, count + 1, self._content_type)
        yield Batch([row], {"ms": reached, "told": count + 1})

    def _counting(self) -> list[Chain]:
        return [each.chain for each in self._tables.chains() if each.counts]

    def _sound_ledger(self, chain: Chain) -> Landed | None:
        _, state = self._state(chain)
        return None if state is None or not state.verdict.is_sound else state.landed

    def _state(self, chain: Chain) -> tuple[Table | None, TableState | None]:
        """Examine a chain afresh; a table that is gone may be there again."""
        if chain.table in self._open:
            with suppress(UnavailableError):
                return self._open[chain.table], self._open[chain.table].state(chain)
            del self._open[chain.table]
        table = self._tables.load(chain.table)
        if table is None:
            return None, None
        state = table.state(chain)
        self._tables.require(chain, table, state)
        self._open[chain.table] = table
        return table, state
