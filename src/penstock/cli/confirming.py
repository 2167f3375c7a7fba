"""Show what a command would change, ask for the pipeline's name, apply it, print what was done.

Without a terminal and without `--yes NAME` such a command is a dry run. With `--json` it prints
`{"plan": {…}, "done": null}`, where `done` is null when nothing was changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.output import PLAIN, RED, pasteable, print_json, print_line, say
from penstock.cli.waiting import waits_shown

if TYPE_CHECKING:
    from penstock.app.repair.confirmed_change import Change
    from penstock.ports.runtime import Observer

Done = tuple[Any, Sequence[str]]
"""What was done, as data for machines and as lines for people."""


def confirm_and_apply(
    plan: Callable[[Observer], Change],
    apply: Callable[[], Done],
    yes: str | None,
    *,
    json: bool,
    dry_run: bool = False,
) -> int:
    """Apply a change once it is confirmed, print what was done, and return exit code 0; a dry run
    shows it and asks for nothing.

    Raises as `plan`, `confirmed` and `apply`.
    """
    with waits_shown(as_json=json) as observer:
        change = plan(observer)
    if dry_run:
        show(change)
    done = apply() if not dry_run and confirmed(change, yes) else None
    if json:
        print_json({"plan": change, "done": done and done[0]})
    elif done is not None:
        for line in done[1]:
            print_line(pasteable(line))
    return 0


def show(change: Change) -> None:
    """Say what a change would do, step by step."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for step in change.steps:
        say(f"  {RED}{step.text}{PLAIN}" if colour and step.destructive else f"  {step.text}")
    if not change.steps:
        say("  nothing to do")


def confirmed(change: Change, yes: str | None) -> bool:
    """Show a change and return whether to apply it; there may be none.

    `yes` is the value of `--yes`. Raises InvalidError (P171) for a name that is not the
    pipeline's.
    """
    from penstock.app.repair.confirmed_change import require_consent

    show(change)
    if not change.steps:
        return False
    if yes is None and not any(step.changes for step in change.steps):
        say("Nothing was changed, and there is nothing to apply.")
        return False
    given = yes
    if given is None and sys.stdin.isatty():
        say(f"Type the pipeline's name, {change.pipeline}, to apply this; anything else cancels.")
        given = sys.stdin.readline().strip()
        if not given:
            return False
    if given is None:
        say(f"Nothing was changed. To apply this:  --yes {change.pipeline}")
        return False
    require_consent(change, given)
    return True
