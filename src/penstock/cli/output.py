"""How results and errors are printed, as text or JSON, and how a command exits.

Invariants:
- the exit code does not depend on whether messages and errors could be printed;
- commands in hints name the spec in use, so that they work when pasted: code below the CLI knows no
  spec file and says `penstock run --accept gap`; after `penstock run shop.yaml` the hint reads
  `penstock run shop.yaml --accept gap`. The default spec is not named.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.core.errors import BugError, PenstockError

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.spec.problems import Problem

_Result = TypeVar("_Result")

INTERRUPTED = 130
BUG = 70
USAGE = 2
WIDTH_MIN, WIDTH_MAX = 60, 100
RED, PLAIN = "\x1b[31m", "\x1b[0m"
_COMMAND = re.compile(
    r"\bpenstock (?:run|plan|validate|status|doctor|test|audit|peek|seek|replay|load|pause|resume|"
    r"ui|members|handover|publish|maintain|transactions|quarantine [a-z]+)"
    r"(?![\w-])(?! FILE)"
)
_named: ContextVar[str] = ContextVar("named", default="")
_MARKS = re.compile(r"^P\d{3}(?=  )|(?<=  )P\d{3}$|(?<= )\^+(?= |$)", re.MULTILINE)


class NobodyReadsError(BrokenPipeError):
    """The reader of stdout has closed it, as `head` does."""


def result_console(*, soft_wrap: bool = False) -> Console:
    """Return a console on stdout; with `NO_COLOR` it writes no style at all."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(soft_wrap=soft_wrap, color_system=None if plain else "auto")


def guarded(act: Callable[[], Any], words: Sequence[str]) -> int:
    """Run a command, print its error if any, and return the exit code."""
    _replace_closed_streams()
    try:
        return copy_context().run(_ended, act, words)  # hints name its spec in there
    finally:
        _forget_unwritten()


def _ended(act: Callable[[], Any], words: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    try:
        code = act()
    except CycloptsError:
        return USAGE  # the parser has printed it
    except PenstockError as error:
        show_error(error, as_json="--json" in words)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except NobodyReadsError:
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as error:  # noqa: BLE001  the last fence: everything else was translated
        with suppress(OSError):
            traceback.print_exc()
        bug = BugError(
            f"{type(error).__name__}: {error}",
            code="P700",
            hint="this is a bug of Penstock: please report it with the lines above",
        )
        show_error(bug, as_json="--json" in words)
        return BUG
    return code if isinstance(code, int) else 0


def _replace_closed_streams() -> None:
    """Open streams that the process was started without, as under `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  for good


def _forget_unwritten() -> None:
    """Drop what could not be written: at exit Python would try again, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        if stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def show_error(error: PenstockError, *, as_json: bool) -> None:
    """Print an error, if that is possible: its code, a sentence of fact, and what to do."""
    if as_json:
        with suppress(OSError):
            print_json({"error": error})
        return
    problems = getattr(error, "problems", None)
    if problems is not None:  # a SpecError, which holds them all
        from penstock.spec.problems import render

        say(_painted(f"{error.message}\n{render(problems, width=talk_width())}"))
        return
    say(_painted(_filled(error.line, "      ")))
    if error.hint:
        say(_with_command(f"      → {pasteable(error.hint)}"))


def _painted(text: str) -> str:
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return _MARKS.sub(f"{RED}\\g<0>{PLAIN}", text)


def _with_command(hint: str) -> str:
    """Return a hint with the command at its end on a line of its own if it would wrap."""
    says, gap, command = hint.rpartition("  penstock ")
    if not gap or len(hint) <= talk_width() or not sys.stderr.isatty():
        return _filled(hint, "        ")
    return f"{_filled(says, '        ')}\n        penstock {command}"


def _filled(text: str, indent: str) -> str:
    """Return a text wrapped between words on a terminal, which would break within one."""
    if not sys.stderr.isatty():
        return text
    return textwrap.fill(
        text,
        talk_width(),
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def talk_width() -> int:
    """Return the width of messages: that of the terminal, within limits."""
    return min(max(shutil.get_terminal_size((WIDTH_MAX, 24)).columns, WIDTH_MIN), WIDTH_MAX)


def _error_data(error: PenstockError) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": pasteable(error.hint),
        "exit_code": error.exit_code,
    }
    problems = getattr(error, "problems", None)
    if problems is not None:
        data["problems"] = [_problem_data(problem) for problem in problems]
    return data


def _problem_data(problem: Problem) -> dict[str, Any]:
    from penstock.spec.problems import path_text

    names = ("code", "severity", "path", "message", "hint")
    data = {**{name: getattr(problem, name) for name in names}, "path": path_text(problem.path)}
    place = problem.place
    if place is not None:
        data |= {"file": place.file, "line": place.line, "column": place.column}
    return data


def print_result(
    result: _Result, *, data: Callable[[_Result], Any], show: Callable[[_Result], None], json: bool
) -> None:
    """Print a result as JSON or for people."""
    if json:
        print_json(data(result))
    else:
        show(result)


def print_json(data: Any) -> None:
    """Print data for machines on stdout, as `json_text`. Raises as `print_line`."""
    print_line(json_text(data))


def json_text(data: Any) -> str:
    """Return data as JSON: dataclasses and errors are objects, bytes Base64, the rest is text."""
    return json.dumps(data, ensure_ascii=False, default=_plain)


def fields_of(data: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {each.name: getattr(data, each.name) for each in fields(data)}


def _plain(value: Any) -> Any:
    match value:
        case PenstockError():
            return _error_data(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return fields_of(value) if is_dataclass(value) else str(value)


def say(text: str, end: str = "\n") -> None:
    """Print a message on stderr. If that fails, it is lost."""
    with suppress(OSError):
        sys.stderr.write(text + end)
        sys.stderr.flush()


def print_line(text: str = "") -> None:
    """Print a line on stdout. Raises OSError, NobodyReadsError when the reader has closed it."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise NobodyReadsError from error


def name_spec(words: str) -> None:
    """Let hints name the spec by these words, until the command ends (`output.guarded`)."""
    _named.set(words)


def pasteable(hint: str) -> str:
    """Return a hint with commands that name the spec in use."""
    named = _named.get()
    return _COMMAND.sub(lambda found: f"{found[0]} {named}", hint) if named else hint
