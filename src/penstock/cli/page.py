"""The page of `penstock run --page`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.app.page.views import Watched
    from penstock.ports.runtime import Clock


@contextmanager
def page_of_run(listen: str | None, watched: Sequence[Watched], clock: Clock) -> Iterator[str]:
    """Serve the page of this process inside the block, and yield its URL; "" without an address."""
    if listen is None:
        yield ""
        return
    from penstock.app.page.extra import require_page

    require_page()
    from penstock.web.serving import address_of, page_served

    with page_served(address_of(listen), watched, clock) as url:
        yield url
