"""`penstock explain`."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, talk_width, tell

if TYPE_CHECKING:
    from penstock.app.explain import ManualPage


def explain(
    code: str | None = None, *, json: Annotated[bool, Parameter(negative=())] = False
) -> int:
    """Explain an error code: its cause, an example, what to do. Needs no network.

    Example: penstock explain P116

    Parameters
    ----------
    code
        The code, as printed with the error; all codes are listed when it is left out.
    json
        Print JSON.
    """
    from penstock.app.explain import explain as look_up
    from penstock.app.explain import manual

    if code is None:
        pages = list(manual().values())
        if json:
            print_json([asdict(page) for page in pages])
            return 0
        for page in pages:
            tell(f"{page.code}  {textwrap.shorten(_first(page), talk_width() - 6)}")
        return 0
    page = look_up(code)
    if json:
        print_json(asdict(page))
    else:
        tell(_text(page, talk_width()))
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
    told = [text for text in texts if text]
    indent = " " * 9
    lines = [
        textwrap.fill(
            text,
            width,
            initial_indent=f"{title if not number else '':<9}",
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for number, text in enumerate(told)
    ]
    return "\n".join(lines)


def _first(page: ManualPage) -> str:
    return page.cause or (page.says[0] if page.says else "")
