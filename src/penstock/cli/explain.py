"""`penstock explain`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from penstock.cli.output import print_json, print_line, talk_width
from penstock.cli.parameters import Json

if TYPE_CHECKING:
    from penstock.app.explain import ManualPage


def explain(code: str | None = None, *, json: Json = False) -> int:
    """Explain an error code: its cause, an example, what to do. Needs no network.

    Example: penstock explain P116

    Parameters
    ----------
    code
        The code, as printed with the error; without one, all codes are listed.
    """
    from penstock.app.explain import explain as look_up
    from penstock.app.explain import manual

    width = talk_width()
    pages = list(manual().values()) if code is None else [look_up(code)]
    if json:
        print_json(pages if code is None else pages[0])
        return 0
    for page in pages:
        first = page.cause or "".join(page.says[:1])
        line = f"{page.code}  {textwrap.shorten(first, width - 6)}"
        print_line(line if code is None else _text(page, width))
    return 0


def _text(page: ManualPage, width: int) -> str:
    from penstock.app.explain import ENDINGS

    parts = [
        f"{page.code}  {page.subject}" if page.subject else page.code,
        _listed("It says", page.says, width),
        _listed("Cause", (page.cause,), width),
        _listed("Example", (page.example,), width),
        _listed("Do", page.does, width),
        _listed("Ends", tuple(ENDINGS.get(each, each) for each in page.ending.split(", ")), width),
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, texts: tuple[str, ...], width: int) -> str:
    lines = [
        textwrap.fill(
            text,
            width,
            initial_indent=f"{title if not number else '':<9}",
            subsequent_indent=" " * 9,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for number, text in enumerate(filter(None, texts))
    ]
    return "\n".join(lines)
