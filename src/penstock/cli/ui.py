"""`penstock ui`."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import say
from penstock.cli.parameters import SPEC, Spec
from penstock.cli.specs import load_publications, load_spec, named_again, parts_of

if TYPE_CHECKING:
    from penstock.app.page.elsewhere import ElsewherePipeline
    from penstock.ports.runtime import Clock

LISTEN = "127.0.0.1:8090"


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
    watched = [_elsewhere(each, clock) for each in (spec, *more)]
    with ExitStack() as stack:
        stack.enter_context(signals(stop, Voice(), says=""))
        for each in watched:
            stack.enter_context(each.watching())
        url = stack.enter_context(page_served(address, watched, clock))
        say(f"The page is at {url}  Ctrl-C ends it.")
        stop.wait()
    return 0


def _elsewhere(path: Path, clock: Clock) -> ElsewherePipeline:
    from penstock.app.page.elsewhere import ElsewherePipeline

    parts = parts_of(path)
    pipeline = load_spec(path) if parts.lands else None
    publications = load_publications(path) if parts.publishes else None
    named = pipeline or publications
    assert named is not None
    return ElsewherePipeline(
        named.name, named_again(path), clock, pipeline=pipeline, publications=publications
    )
