"""Opens the news of a pipeline: the tables of its spec, and which chains there are.

A pipeline in shards has the chains of all of them in each table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

from penstock.app.assembly import assembly
from penstock.app.assembly.lazy_catalogs import LazyCatalogs
from penstock.core.commits import Chain
from penstock.landing.settings import Settings
from penstock.landing.tables.opening import (
    Listing,
    chains_of,
    require_same_shards,
    route_topics,
)
from penstock.landing.tables.route_tables import expand_routes
from penstock.observe.fanout import UNHEARD
from penstock.ports.log import Log
from penstock.ports.tables import Table, TableState
from penstock.sources.news import Followed, NewsSource
from penstock.spec.load import load
from penstock.spec.model import Pipeline


def opened(*, spec: str, kinds: Sequence[str], content_type: str) -> NewsSource:
    """Open the news of a spec. Raises SpecError."""
    pipeline = load(spec)
    return NewsSource(pipeline.name, PipelineTables(pipeline), kinds, content_type)


class PipelineTables:
    """Implements `sources.news.FollowedTables` over the catalogs of a spec, and its topics."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._shards = [assembly.settings_of(each) for each in pipeline.each_shard()]
        self._stack = ExitStack()
        self._world: tuple[Log, LazyCatalogs] | None = None

    def chains(self) -> Sequence[Followed]:
        """List the chains of each table, in the order of their names.

        Of a route everything waits as well: what it has not read may need another table. For a
        shard that no partition is of nothing waits: it lands nothing.
        """
        log, catalogs = self._opened()
        listing = log.partitions()
        found = [each for of in self._shards for each in _chains(of, catalogs, listing)]
        return sorted(found, key=lambda each: (each.chain.table, each.chain.name))

    def load(self, table: str) -> Table | None:
        """Load a table by its full name."""
        place = assembly.place_of(self._pipeline, table)
        return self._opened()[1][place.catalog].load(place.name)

    def require(self, chain: Chain, table: Table, state: TableState) -> None:
        """Refuse a table that was begun by another number of shards (P527)."""
        require_same_shards(self._shards[0], chain, table, state)

    def close(self) -> None:
        """Let go of catalogs and the cluster."""
        self._world = None
        self._stack.close()

    def _opened(self) -> tuple[Log, LazyCatalogs]:
        if self._world is None:
            pipeline, stack = self._pipeline, self._stack
            log = stack.enter_context(closing(assembly.open_log(pipeline)))
            opening = {
                name: partial(assembly.open_catalog, pipeline, name, UNHEARD, read_only=True)
                for name in pipeline.catalogs
            }
            self._world = log, stack.enter_context(closing(LazyCatalogs(opening)))
        return self._world


def _chains(settings: Settings, catalogs: LazyCatalogs, listing: Listing) -> Iterator[Followed]:
    """Yield the chains of one shard, or of a pipeline without shards."""
    targets, wanted, _ = route_topics(settings, listing)
    for each in targets.values():
        if each.is_route:
            yield Followed(chains_of(settings, each)[1])
    there, theirs = expand_routes(settings, catalogs, targets, wanted)
    for name, each in there.items():
        if not each.is_route:
            own, rejects = chains_of(settings, each)
            yield Followed(own, counts=bool(theirs[name]))
            yield Followed(rejects, counts=False)
