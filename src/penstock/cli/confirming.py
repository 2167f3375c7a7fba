"""Show what a command would change, ask for the pipeline's name, do it, and tell what was done.

Without a terminal and without `--yes NAME` a command that changes something is a dry run. With
`--json` each prints `{"plan": {…}, "done": null}`, where `done` is null when nothing was changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.cli.hints import pasteable
from penstock.cli.output import PLAIN, RED, print_json, say, tell

if TYPE_CHECKING:
    from penstock.app.changing import Change, Done


def change_by_hand(change: Change, act: Callable[[], Done], yes: str | None, *, json: bool) -> int:
    """Let `act` make a change once it is consented to, and print what came of it; exits with 0.

    Raises as `confirmed` and `act`.
    """
    done = act() if confirmed(change, yes) else None
    if json:
        print_json({"plan": asdict(change), "done": None if done is None else dict(done.data)})
    elif done is not None:
        for line in done.lines:
            tell(pasteable(line))
    return 0


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


def _painted(text: str) -> str:
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"{RED}{text}{PLAIN}" if colour else text
