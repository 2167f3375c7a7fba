"""Show what a command would change, and ask for the pipeline's name before it is done.

Without a terminal and without `--yes NAME` a command that changes something is a dry run.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from penstock.cli.output import say

if TYPE_CHECKING:
    from penstock.app.changing import Change

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def confirmed(change: Change, yes: str | None) -> bool:
    """Show a change and tell whether it is to be made. False as well when there is none.

    `yes` is what `--yes` was given. Raises InvalidError (P171) for a name that is not the
    pipeline's.
    """
    from penstock.app.changing import consented

    for step in change.steps:
        say(f"  {_painted(step.text) if step.destructive else step.text}")
    if not change.steps:
        say("  nothing to do")
        return False
    given = yes
    if given is None and sys.stdin.isatty():
        say(f"Type the pipeline's name, {change.pipeline}, to do it; anything else leaves it.")
        given = sys.stdin.readline().strip()
        if not given:
            return False
    if given is None:
        say(f"Nothing was changed. To do it:  --yes {change.pipeline}")
        return False
    consented(change, given)
    return True


def told(change: Change) -> dict[str, Any]:
    """Give a change as plain data."""
    steps = [{"text": each.text, "destructive": each.destructive} for each in change.steps]
    return {"pipeline": change.pipeline, "steps": steps}


def _painted(text: str) -> str:
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"{_RED}{text}{_PLAIN}" if colour else text
