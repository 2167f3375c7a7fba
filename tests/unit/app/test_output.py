"""How commands end: errors are told with their codes, and what nobody expected is a bug of ours."""

import json

import pytest

from penstock.cli.output import PLAIN, RED, guarded, show_error
from penstock.core.errors import InvalidError, UnavailableError
from penstock.spec.load import loads
from penstock.testing.process import penstock


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
    """Give what is said of an error on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    show_error(error, as_json=False)
    return capsys.readouterr().err.splitlines()


def test_on_a_terminal_words_are_not_cut_and_a_command_stands_whole(monkeypatch, capsys) -> None:
    command = "penstock replay lake.bronze.orders shop.orders:0:100-200 --yes shop"
    error = InvalidError("a word " * 30, code="P473", hint=f"replay the whole:  {command}")
    lines = lines_on_a_terminal(monkeypatch, capsys, error)

    assert f"{RED}P473{PLAIN}  a word" in lines[0]
    assert all(len(line.replace(RED, "").replace(PLAIN, "")) <= 80 for line in lines)
    assert ["      → replay the whole:", f"        {command}"] == lines[-2:]


def test_problems_of_a_spec_fit_a_terminal_of_80_columns(monkeypatch, capsys, tmp_path) -> None:
    text = f"name: shop\n{'x' * 70}: {{ from: orders, into: {'y' * 90}.b.c, z: {'z' * 50} }}\n"
    with pytest.raises(InvalidError) as told:
        loads(text, base=tmp_path)
    lines = lines_on_a_terminal(monkeypatch, capsys, told.value)

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
