"""The page in a real browser: as people with a mouse, a keyboard, large text or no script see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from tests.page.looked_at import HOSTILE, NOW_MS, Still, look_at, shop, snapshot, table

from penstock.app.assembly.process import SystemClock
from penstock.web.serving import Address, page_served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = (
    "/",
    "/shop",
    "/shop/table?name=lake.bronze.items",
    "/shop/epochs",
    "/shop/members",
    "/shop/quarantine",
    "/shop/events",
    "/shop/maintenance",
    "/billing/publications",
    "/hostile",
    "/tenants?page=2",
    "/nowhere",
)


@contextmanager
def opened(chromium: Browser, url: str, **how: Any) -> Iterator[Page]:
    """Open a page, and fail where the browser complains of it."""
    context = chromium.new_context(**how)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(url)
    yield page
    context.close()
    assert [] == [each for each in complaints if "404" not in each and "403" not in each]


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [("light", {}), ("dark", {"runOnly": {"type": "rule", "values": ["color-contrast"]}})],
)
def test_axe_finds_nothing_wrong_with_any_page(
    chromium: Browser, axe: str, four: str, scheme: str, rules: dict[str, Any]
) -> None:
    found = {}
    with opened(chromium, four, color_scheme=scheme) as page:
        for each in PAGES if not rules else PAGES[:8:2]:
            page.goto(f"{four}{each}")
            page.evaluate(axe)
            result = page.evaluate(
                "rules => axe.run({resultTypes: ['violations'], ...rules})", rules
            )
            found[each] = [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"]]
            assert 1 == page.locator("h1").count()

    assert {each: [] for each in found} == found


def test_the_schemes_differ(chromium: Browser, four: str) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with opened(chromium, f"{four}/shop", color_scheme=scheme) as page:
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert ["rgb(251, 251, 249)", "rgb(18, 20, 23)"] == grounds


def test_all_is_reached_by_the_keyboard(chromium: Browser, four: str) -> None:
    with opened(chromium, f"{four}/shop") as page:
        page.keyboard.press("Tab")
        assert "Skip to content" == page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        assert "main" == page.evaluate("document.activeElement.id")
        seen = []
        while "Filter" not in seen:
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.textContent").strip())
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert "none" != outline
            assert len(seen) < 30
        assert ["Tables", "Epochs", "Members"] == [each for each in seen if each][:3]
        page.get_by_role("link", name="Epochs").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/shop/epochs")


def test_without_script_all_is_there_and_comes_again(chromium: Browser, four: str) -> None:
    with opened(chromium, f"{four}/shop", java_script_enabled=False) as page:
        assert page.get_by_role("link", name="lake.bronze.items").is_visible()
        assert "lake.bronze.items has been parked" in page.locator(".why").first.inner_text()
        assert "every 10 s" == page.locator("#live").inner_text()
        assert '<meta http-equiv="refresh" content="10">' in page.content()
        page.get_by_label("Name").fill("click")
        page.get_by_role("button", name="Filter").click()
        assert ["lake.bronze.clicks"] == page.locator("tbody th").all_inner_texts()


@pytest.mark.parametrize("path", ["/shop", "/shop/epochs", "/shop/events", "/", "/hostile"])
def test_text_twice_as_large_and_small_screens_need_no_scrolling_sideways(
    chromium: Browser, four: str, path: str
) -> None:
    with opened(chromium, f"{four}{path}", viewport={"width": 1280, "height": 800}) as page:
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.evaluate("document.documentElement.style.fontSize = ''")
        page.set_viewport_size({"width": 320, "height": 800})
        small = page.evaluate("document.documentElement.scrollWidth")

    assert (1280, 320) == (wide, small)


def test_hostile_names_are_text(chromium: Browser, four: str) -> None:
    with opened(chromium, f"{four}/hostile") as page:
        assert "hostile · Tables · Penstock" == page.title()
        assert len(HOSTILE) == page.locator("tbody th").count()
        links = page.locator("tbody th a").evaluate_all("all => all.map(each => each.href)")
        for link in links:
            page.goto(link)
            assert 1 == page.locator("#section").count()
        for section in ("events", "members", "maintenance"):
            page.goto(f"{four}/hostile/{section}")
            assert "hacked" not in page.title()
        page.goto(f"{four}/hostile/events?q={quote(HOSTILE[1])}")
        assert HOSTILE[1] == page.get_by_label("Words").input_value()


def test_what_changes_is_put_in_place_and_focus_stays(chromium: Browser, serve) -> None:
    watched = Still(shop())
    with opened(chromium, f"{serve(watched)}/shop") as page:
        link = page.get_by_role("link", name="lake.bronze.clicks")
        link.focus()
        tables = {"lake.bronze.clicks": table(7), "lake.bronze.new": table(9)}
        watched.found = replace(look_at(snapshot("shop", tables, 0)), now_ms=NOW_MS)
        page.wait_for_selector("text=all that is in Kafka is in the tables")
        assert "live" == page.locator("#live").inner_text()
        names = page.locator("tbody th").all_inner_texts()
        focused = page.evaluate("document.activeElement.textContent")

    assert ["lake.bronze.clicks", "lake.bronze.new"] == names
    assert "lake.bronze.clicks" == focused


def test_a_server_that_ends_is_told(chromium: Browser, serve) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(
            page_served(Address("127.0.0.1", 0), [Still(shop())], SystemClock())
        )
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{url}shop")
        page.wait_for_selector("#live[data-state=live]")
        stack.close()
        page.wait_for_selector("#live[data-state=lost]")
        assert re.match("not live", page.locator("#live").inner_text())
        context.close()


def test_a_token_is_entered_once(chromium: Browser, serve, tmp_path) -> None:
    file = tmp_path / "token"
    file.write_text("correct horse battery staple\n")
    file.chmod(0o600)
    url = serve(Still(shop()), token=file)
    with opened(chromium, f"{url}/shop") as page:
        assert f"{url}/enter" == page.url
        page.get_by_label("Token").fill("horse")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=That is not the token.")
        page.get_by_label("Token").fill("correct horse battery staple")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:text('Pipelines')")
        page.goto(f"{url}/shop")
        page.wait_for_selector("#live[data-state=live]")
        [cookie] = page.context.cookies()

    assert (True, "Strict") == (cookie["httpOnly"], cookie["sameSite"])
    assert "horse" not in cookie["value"]
