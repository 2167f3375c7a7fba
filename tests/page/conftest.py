"""A browser, and pages for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.page.looked_at import Still, billing, hostile, many, shop
from tests.servers.browser import browser_files, running

from penstock.app.assembly.process import SystemClock
from penstock.web.serving import Address, page_served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Serve = Callable[..., str]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with running() as browser:
        yield browser


@pytest.fixture(scope="session")
def axe() -> str:
    return browser_files().axe.read_text()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve pipelines at an address of this machine; gives the URL without its last slash."""
    with ExitStack() as stack:

        def served(*watched: Still, named: tuple[str, ...] = (), token: Path | None = None) -> str:
            address = Address("127.0.0.1", 0, named, token)
            return stack.enter_context(page_served(address, watched, SystemClock())).rstrip("/")

        yield served


@pytest.fixture(scope="session")
def four() -> Iterator[str]:
    """Serve four pipelines that never change, to all tests."""
    watched = [Still(each) for each in (shop(), billing(), hostile(), many(1000))]
    with page_served(Address("127.0.0.1", 0), watched, SystemClock()) as url:
        yield url.rstrip("/")
