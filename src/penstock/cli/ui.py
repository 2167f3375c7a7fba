"""`penstock ui`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import say
from penstock.cli.parameters import SPEC, Spec
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_publications, load_shards, named_again, parts_of

if TYPE_CHECKING:
    from penstock.app.page.elsewhere import ElsewherePipeline
    from penstock.ports.runtime import Clock

LISTEN = "127.0.0.1:8090"


@by_shard(at_once=True)
def ui(
    spec: Spec = SPEC,
    *more: Annotated[Path, Parameter(help="Further specs to show.")],
    listen: str = LISTEN,
    host: tuple[str, ...] = (),
    token: Path | None = None,
) -> int:
    """Show pipelines as a page in a browser, from any host that reaches their store, until Ctrl-C.

    Nothing can be changed there. Needs the extra: pip install "penstock[page]".

    Example: penstock ui shop.yaml billing.yaml

    Parameters
    ----------
    listen
        Serve the page at host:port; beyond this machine it asks for a token.
    host
        A name under which a proxy serves it, over TLS; repeat for more.
    token
        A file with the token that viewers enter: 16 characters or more.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.page.extra import require_page
    from penstock.cli.run import Voice, signals

    require_page()
    from penstock.web.serving import address_of, page_served

    clock, stop = SystemClock(), threading.Event()
    address = address_of(listen, named=host, token_file=token)
    watched = [each for path in (spec, *more) for each in _elsewhere(path, clock)]
    with ExitStack() as stack:
        stack.enter_context(signals(stop, Voice(), says=""))
        for each in watched:
            stack.enter_context(each.watching())
        url = stack.enter_context(page_served(address, watched, clock))
        say(f"The page is at {url}  Ctrl-C ends it.")
        stop.wait()
    return 0


def _elsewhere(path: Path, clock: Clock) -> Iterator[ElsewherePipeline]:
    """Watch what a spec lands, shard by shard, and what it publishes beside the first of them."""
    from penstock.app.page.elsewhere import ElsewherePipeline

    parts, words = parts_of(path), named_again(path)
    shards = load_shards(path) if parts.lands else []
    published = load_publications(path) if parts.publishes else None
    for pipeline in shards:
        yield ElsewherePipeline(
            pipeline.name, words, clock, pipeline=pipeline, publications=published
        )
        published = None
    if published is not None:
        yield ElsewherePipeline(published.name, words, clock, pipeline=None, publications=published)
