"""How commands end: errors are reported with their codes, and what nobody expected is a bug of ours."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from tests.processes.process import command, penstock

from penstock.app.assembly.process import SystemClock
from penstock.cli.output import (
    PLAIN,
    RED,
    guarded,
    print_json,
    print_line,
    result_console,
    say,
    show_error,
)
from penstock.cli.run import _print_outcome
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import PipelineStopped
from penstock.landing.coordinator import RunResult
from penstock.observe.log import json_log, written_to
from penstock.spec.load import loads


def fail(error: BaseException):
    def act() -> int:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidError("no table", code="P185", hint="see"), 2),
        (UnavailableError("away", code="P430", hint="wait"), 75),
        (KeyboardInterrupt(), 130),
        (SystemExit(3), 3),
    ],
)
def test_an_error_ends_with_its_exit_code(error: BaseException, expected: int) -> None:
    assert expected == guarded(fail(error), [])


def test_what_nobody_expected_is_a_bug_of_ours_with_its_traceback(capsys) -> None:
    assert 70 == guarded(fail(ZeroDivisionError("by nothing")), ["--json"])

    said = capsys.readouterr()
    assert "P700" == json.loads(said.out)["error"]["code"]
    assert "Traceback" in said.err


def lines_on_a_terminal(monkeypatch, capsys, error: InvalidError) -> list[str]:
    """Return what is said of an error on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    show_error(error, as_json=False)
    return capsys.readouterr().err.splitlines()


def test_on_a_terminal_words_are_not_cut_and_a_command_is_whole(monkeypatch, capsys) -> None:
    command = "penstock replay lake.bronze.orders shop.orders:0:100-200 --yes shop"
    error = InvalidError("a word " * 30, code="P473", hint=f"replay the whole:  {command}")
    lines = lines_on_a_terminal(monkeypatch, capsys, error)

    assert f"{RED}P473{PLAIN}  a word" in lines[0]
    assert all(len(line.replace(RED, "").replace(PLAIN, "")) <= 80 for line in lines)
    assert ["      → replay the whole:", f"        {command}"] == lines[-2:]


def test_problems_of_a_spec_fit_a_terminal_of_80_columns(monkeypatch, capsys, tmp_path) -> None:
    text = f"name: shop\n{'x' * 70}: {{ from: orders, into: {'y' * 90}.b.c, z: {'z' * 50} }}\n"
    with pytest.raises(InvalidError) as raised:
        loads(text, base=tmp_path)
    lines = lines_on_a_terminal(monkeypatch, capsys, raised.value)

    assert any("^" in line for line in lines)
    assert all(len(line.replace(RED, "").replace(PLAIN, "")) <= 80 for line in lines), lines


def test_a_command_that_has_used_duckdb_says_nothing_in_the_end(tmp_path) -> None:
    spec = tmp_path / "penstock.yaml"
    spec.write_text(
        "name: shop\nkafka: { brokers: 'b:9092', topics: [orders] }\n"
        "catalogs: { delta: { type: delta, root: ./delta } }\n"
        "tables: [{ from: orders, into: delta.b.orders, where: 'n > 1',"
        " schema: { hints: { n: long } } }]\nquarantine: { into: delta.ops.quarantine }\n"
    )
    done = penstock("validate", spec, "--offline", "--json")

    assert (0, "") == (done.code, done.err)


def pipe_without_reader() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def full_disk() -> TextIO:
    return Path("/dev/full").open("w", encoding="utf-8")


@pytest.fixture(params=[pipe_without_reader, full_disk])
def deaf(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """Yield a stream that takes nothing: its reader is gone, or its disk is full."""
    stream: TextIO = request.param()
    yield stream
    stream.close()  # which writes what is left of it: to nowhere, once a command has ended


def runs_and_fails(stream: TextIO) -> int:
    log = json_log(written_to(stream), SystemClock())
    log(PipelineStopped("shop", "the broker is gone", clean=False, code="P201"))
    raise UnavailableError("the broker is gone", code="P201", hint="wait")


def fails_by_a_bug(stream: TextIO) -> int:
    del stream
    raise ZeroDivisionError


def talks(stream: TextIO) -> int:
    del stream
    say("a warning")
    return 4


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize(
    ("act", "expected"), [(runs_and_fails, 75), (fails_by_a_bug, 70), (talks, 4)]
)
def test_a_command_that_nobody_hears_ends_as_any_other(
    monkeypatch, deaf: TextIO, words: list[str], act: Callable[[TextIO], int], expected: int
) -> None:
    monkeypatch.setattr("sys.stderr", deaf)
    monkeypatch.setattr("sys.stdout", deaf)

    assert expected == guarded(lambda: act(deaf), words)


def test_the_outcome_of_a_run_is_its_exit_code_though_nobody_reads_it(monkeypatch, deaf) -> None:
    monkeypatch.setattr("sys.stdout", deaf)

    def act() -> int:
        _print_outcome(RunResult({}, "caught up"), 4, as_json=True)
        return 4

    assert 4 == guarded(act, ["--json"])


@pytest.mark.parametrize("result", [lambda: print_line("a row"), lambda: print_json({})])
def test_a_result_whose_reader_has_seen_enough_ends_well(monkeypatch, result) -> None:
    with pipe_without_reader() as gone:
        monkeypatch.setattr("sys.stdout", gone)

        assert 0 == guarded(result, [])


def test_a_pipe_that_breaks_elsewhere_is_no_reader_that_has_seen_enough(capsys) -> None:
    assert 70 == guarded(fail(BrokenPipeError("a socket of Java's")), [])
    assert "BrokenPipeError" in capsys.readouterr().err


def test_a_process_that_nobody_hears_has_the_exit_code_of_its_error(tmp_path) -> None:
    with pipe_without_reader() as gone:
        done = subprocess.run(
            command("validate", tmp_path / "none.yaml"), stdout=gone, stderr=gone, check=False
        )

    assert 2 == done.returncode


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_process_without_streams_has_the_exit_code_of_its_error(closed, tmp_path) -> None:
    words = " ".join(map(str, command("validate", "--offline", tmp_path / "none.yaml")))
    done = subprocess.run(["sh", "-c", f"{words} {closed}"], check=False, capture_output=True)

    assert 2 == done.returncode


@pytest.mark.parametrize(("no_color", "styled"), [("1", False), ("", True)])
def test_with_no_color_a_result_has_no_style_at_all(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_color: str,
    styled: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("TERM", "xterm")

    result_console().print("[bold]orders[/] [dim]0[/] [red]parked[/]")

    assert styled == ("\x1b" in capsys.readouterr().out)
