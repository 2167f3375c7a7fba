"""SQL over records: what is slow or fails is looked for alone, and an interrupt ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from penstock.rows.route import sql_values as computing
from penstock.rows.route.sql_values import SqlValues, TimedOutError, evaluate
from penstock.spec.language.sandbox import sandbox

MINUTES = 10**8
"""What the expressions below take minutes for."""
HASHES = "list_sum(list_transform(range(n), lambda x: length(md5(x::varchar))))"


@dataclass
class Clockwork:
    """Stands for DuckDB's time: a run of records for which `is_late` holds is interrupted."""

    is_late: Callable[[list[int]], bool]
    asked: list[tuple[int, float]] = field(default_factory=list)

    def column(self, connection: object, sql: str, records: pa.Table, seconds: float) -> pa.Array:
        numbers = records.column("n").to_pylist()
        self.asked.append((len(numbers), seconds))
        if self.is_late(numbers):
            raise TimedOutError
        return self.real(connection, sql, records, seconds)

    real = staticmethod(computing._column)


def answered(
    monkeypatch: pytest.MonkeyPatch, is_late: Callable[[list[int]], bool], count: int
) -> tuple[SqlValues, Clockwork]:
    clockwork = Clockwork(is_late)
    monkeypatch.setattr(computing, "_column", clockwork.column)
    return evaluate(sandbox(), "n * 2", pa.table({"n": range(count)})), clockwork


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_a_slow_record_has_no_answer_and_the_others_have_theirs(monkeypatch, count: int) -> None:
    slow = count // 2
    found, clockwork = answered(monkeypatch, lambda numbers: slow in numbers, count)

    assert ([slow], []) == (found.slow, found.failed)
    assert [None if n == slow else 2 * n for n in range(count)] == found.values.to_pylist()
    assert len(clockwork.asked) <= 4 * count.bit_length()
    alone = [seconds for size, seconds in clockwork.asked[1:] if size == 1]
    assert {computing.RECORD_SECONDS_MAX} == set(alone)


def test_a_batch_that_is_slow_because_it_is_large_is_cut_and_refuses_nothing(monkeypatch) -> None:
    found, clockwork = answered(monkeypatch, lambda numbers: len(numbers) > 100, 1000)

    assert ([], []) == (found.slow, found.failed)
    assert [2 * n for n in range(1000)] == found.values.to_pylist()
    assert computing.BATCH_SECONDS_MAX == clockwork.asked[0][1]
    assert len(clockwork.asked) < 40


def test_where_every_run_of_several_is_late_no_record_is_refused(monkeypatch) -> None:
    found, _ = answered(monkeypatch, lambda numbers: len(numbers) > 1, 50)

    assert ([], []) == (found.slow, found.failed)
    assert [2 * n for n in range(50)] == found.values.to_pylist()


def test_slow_records_and_records_that_fail_are_distinguished(monkeypatch) -> None:
    clockwork = Clockwork(lambda numbers: 3 in numbers)
    monkeypatch.setattr(computing, "_column", clockwork.column)
    sql = "cast(if(n = 5, 'five', '7') as integer)"

    found = evaluate(sandbox(), sql, pa.table({"n": range(8)}))

    assert ([3], [5]) == (found.slow, found.failed)
    assert [7, 7, 7, None, 7, None, 7, 7] == found.values.to_pylist()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (HASHES, [MINUTES]),
        (HASHES, [100_000] * 2000),
        ("levenshtein(repeat('ab', 500 + n % 2), repeat('ba', 500))", [0, 1] * 10_000),
        ("length(regexp_replace(repeat('ab', 5000 + n % 2), 'a|b', 'cc', 'g'))", [0, 1] * 10_000),
    ],
    ids=["one record", "lambdas", "quadratic", "pattern"],
)
def test_an_interrupt_ends_what_would_take_minutes(sql: str, rows: list[int]) -> None:
    connection = sandbox()
    table = computing._in_chunks(pa.table({"n": rows}), computing.ROWS_AT_ONCE)
    with pytest.raises(TimedOutError):
        computing._column(connection, sql, table, 0.05)

    after = computing._column(connection, "n", table, 60.0)
    assert rows == after.to_pylist(), "the interrupt is not for what comes next"
