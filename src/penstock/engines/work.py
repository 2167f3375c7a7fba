"""Find the function that does the work; it travels by name, so that no code is pickled.

Invariant: a name is `module:function`, the function importable and `str -> str`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from penstock.core.errors import BugError, UnavailableError

Work = Callable[[str], str]

LANDING_WORK = "penstock.app.assembly.worker:work"
"""The body of a landing task; engines know it by name only."""
COPYING_WORK = "penstock.app.assembly.copying_worker:work"
"""The body of a task of maintenance."""


def find_work(name: str) -> Work:
    """Import the function that `module:function` names; raises BugError (P711) without one."""
    module_name, _, function_name = name.partition(":")
    try:
        work: Work = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BugError(
            f"The work {name!r} cannot be imported: {error}.",
            code="P711",
            hint="install the same penstock wherever workers run",
        ) from error
    return work


def cancelled() -> UnavailableError:
    """Build the error of a run that was cancelled."""
    return UnavailableError("The run was cancelled.", code="P605", hint="run it again")
