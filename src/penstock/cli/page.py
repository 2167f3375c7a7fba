"""The page of `penstock run --page`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.observe.reporting import Happenings
    from penstock.observe.status import StatusBoard
    from penstock.ports.runtime import Clock
    from penstock.spec.model import Pipeline


@contextmanager
def page_of_run(
    listen: str,
    pipeline: Pipeline,
    *,
    spec: str,
    board: StatusBoard,
    happenings: Happenings,
    clock: Clock,
) -> Iterator[str]:
    """Serve the page of this process inside the block, and yield its URL."""
    from penstock.app.page.extra import require_page

    require_page()
    from penstock.app.page.views import OwnPipeline
    from penstock.web.serving import address_of, page_served

    own = OwnPipeline(pipeline, spec, board, happenings, clock)
    with page_served(address_of(listen), [own], clock) as url:
        yield url
