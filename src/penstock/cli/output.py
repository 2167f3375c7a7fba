"""How results and errors are printed: people's text or JSON, and the exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.errors import BugError, PenstockError
from penstock.spec.problems import Problem, SpecError, path_text

INTERRUPTED = 130
BUG = 70
USAGE = 2


def guarded(act: Callable[[], Any], words: Sequence[str]) -> int:
    """Run a command; translate how it ended into an exit code and print its error, if any."""
    from cyclopts import CycloptsError

    try:
        code = act()
    except CycloptsError:
        return USAGE  # it was printed by the parser
    except PenstockError as error:
        show_error(error, as_json="--json" in words)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as error:  # noqa: BLE001  the last fence: everything else was translated
        traceback.print_exc()
        bug = BugError(
            f"{type(error).__name__}: {error}",
            code="P700",
            hint="this is a bug of Penstock: please report it with the lines above",
        )
        show_error(bug, as_json="--json" in words)
        return BUG
    return code if isinstance(code, int) else 0


def show_error(error: PenstockError, *, as_json: bool) -> None:
    """Print an error: a sentence of fact, its code, and what to do."""
    if as_json:
        print_json({"error": error_data(error)})
        return
    if isinstance(error, SpecError):
        say(str(error))
        return
    say(f"{error.code}  {error.message}")
    if error.hint:
        say(f"      → {error.hint}")


def error_data(error: PenstockError) -> dict[str, Any]:
    """Give an error as plain data."""
    return {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
        **(
            {"problems": [_problem_data(p) for p in error.problems]}
            if isinstance(error, SpecError)
            else {}
        ),
    }


def _problem_data(problem: Problem) -> dict[str, Any]:
    place = problem.place
    return {
        "code": problem.code,
        "severity": problem.severity,
        "path": path_text(problem.path),
        "message": problem.message,
        "hint": problem.hint,
        **(
            {}
            if place is None
            else {"file": place.file, "line": place.line, "column": place.column}
        ),
    }


def print_json(data: Any) -> None:
    """Print data for machines on stdout."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print talk on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def tell(text: str = "") -> None:
    """Print data for people on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
