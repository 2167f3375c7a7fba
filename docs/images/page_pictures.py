"""Takes the pictures of the page: `make pictures`, in the browser of its tests.

What is shown is an example that never changes; a picture of a browser differs from one machine to
the next by its fonts, so that no test compares it.
"""

from __future__ import annotations

from pathlib import Path

from tests.page.looked_at import Still, billing, shop
from tests.servers.browser import running

from penstock.app.assembly.process import SystemClock
from penstock.web.serving import Address, page_served

HERE = Path(__file__).parent
PICTURES = {"page": ("shop", 700), "page-epochs": ("shop/epochs", 760)}
WIDTH = 1080


def main() -> None:
    """Take each picture in both schemes."""
    watched = [Still(shop()), Still(billing())]
    with page_served(Address("127.0.0.1", 0), watched, SystemClock()) as url, running() as browser:
        for name, (path, height) in PICTURES.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": WIDTH, "height": height},
                    color_scheme="dark" if scheme == "dark" else "light",
                    reduced_motion="reduce",
                )
                page.goto(f"{url}{path}")
                page.wait_for_selector("#live[data-state=live]")
                page.screenshot(path=HERE / f"{name}-{scheme}.png")
                page.close()


if __name__ == "__main__":
    main()
