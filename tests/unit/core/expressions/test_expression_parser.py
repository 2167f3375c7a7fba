"""Which expressions are read, by Spark's precedence, and that all others are refused with a reason."""

from __future__ import annotations

import pytest

from penstock.core.expressions.literals import UnsupportedError
from penstock.core.expressions.parser import DEPTH_MAX, parse, parse_constant
from penstock.core.expressions.tree import (
    Call,
    ColumnValue,
    Constant,
    Node,
    node_from_data,
    node_to_data,
)
from penstock.core.schema import Decimal, Field, Kind, Struct, Type

COLUMNS = Struct(
    (
        Field("a", Kind.INT),
        Field("B", Kind.LONG),
        Field("p", Decimal(9, 2)),
        Field("big", Decimal(38, 0)),
        Field("d", Kind.DOUBLE),
        Field("s", Kind.STRING),
        Field("ok", Kind.BOOLEAN),
        Field("at", Kind.TIMESTAMPTZ),
        Field("day", Kind.DATE),
        Field("place", Struct((Field("city x", Kind.STRING), Field("zip", Kind.INT)))),
        Field("x", Kind.INT),
        Field("X", Kind.INT),
    )
)


def shown(node: Node) -> str:
    match node:
        case Constant(text):
            return str(text)
        case ColumnValue(path):
            return ".".join(path)
        case Call(name, arguments):
            return f"({' '.join([name, *map(shown, arguments)])})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1 OR ok AND NOT a = 2", "(OR (= a 1) (AND ok (NOT (= a 2))))"),
        ("! a = 1 and ok", "(AND (NOT (= a 1)) ok)"),
        ("a + 2 * -a", "(+ a (* 2 (NEGATIVE a)))"),
        ("-a * a", "(* (NEGATIVE a) a)"),
        ("a - -1 - 2", "(- (- a -1) 2)"),
        ("a = a = ok", "(= (= a a) ok)"),
        ("a = 1 IS NULL", "(IS NULL (= a 1))"),
        ("a BETWEEN 1 AND 2 AND ok", "(AND (AND (>= a 1) (<= a 2)) ok)"),
        ("a NOT IN (1, NULL)", "(NOT (IN a 1 None))"),
        ("a IN (1, 3000000000)", "(IN (CAST a) 1 3000000000)"),
        ("b / 2 > 1", "(> (/ (CAST B) 2.0) 1.0)"),
        ("p * 2 = 0.5", "(= (* p 2) 0.5)"),
        ("place . `CITY x` == 'x'", "(= place.city x x)"),
        ("day < '2024-02-29'", "(< day 2024-02-29)"),
        ("at < '2024-02-29 01:00:00+01:00'", "(< at 2024-02-29T00:00:00+00:00)"),
        ("Dayofmonth(at)", "(DAY (CAST at))"),
        ("substr(s, 2)", "(SUBSTRING s 2)"),
    ],
)
def test_expressions_are_read_as_spark_reads_them(text: str, tree: str) -> None:
    node = parse(text, COLUMNS)

    assert tree == shown(node)
    assert node == node_from_data(node_to_data(node))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the end of the expression is not supported there"),
        ("a = 1 b", "b is not supported there"),
        ("a > 1 -- AND ok", "'-- AND ok' cannot be read"),
        ("a /* x */ > 1", "'/\\* x \\*/ > 1' cannot be read"),
        ("a ~ 1", "'~ 1' cannot be read"),
        ("s = 'a\\'b'", "cannot be read"),
        ("s = 'a' 'b'", "'b' is not supported there"),
        ("s LIKE 'a%'", "LIKE is not supported there"),
        ("s NOT LIKE 'a%'", "NOT LIKE is not supported"),
        ("upper(s) = s", r"UPPER\(string\) is not supported"),
        ("rand() < 1", r"RAND\(\) is not supported"),
        ("c > 1", "c is not one column"),
        ("x > 1", "x is not one column"),
        ("a.b > 1", "a has no member b"),
        ("s > 1", "a string and a int are not compared"),
        ("place = place", "are not compared"),
        ("p > d", "a decimal column and a double are not compared"),
        ("p / 2 > 1", "the division of decimals"),
        ("big * 2 > 1", "decimals of 40 digits"),
        ("a AND ok", "a int is not a condition"),
        ("day + 1 > day", r"\+ is supported between numbers only"),
        ("a IN (a, 1)", "a list of constants"),
        ("a IN ()", "a list of constants"),
        ("day IN ('2024-02-29')", "a list like DATE"),
        ("d < 1e400", "1e400 is not a supported number"),
        ("a = -2147483648", "the constant -2147483648 is not supported"),
        ("a = 1S", "1S is not a supported number"),
        ("a = 1F", "1F is not a supported number"),
        ("day = DATE'2024-2-29'", "'2024-2-29' is not a supported date"),
        ("day = '2024-02-30'", "'2024-02-30' is not a supported date"),
        ("CAST(s AS DATE) = day", "CAST of a string AS DATE"),
        ("CAST(a AS STRING) = s", "STRING stands where only DATE is supported"),
        ("date_format(at, 'EEEE') = s", "the pattern 'EEEE' is not supported"),
        ("substring(s, -1) = s", "from a constant"),
        ("(" * (DEPTH_MAX + 1), "nested deeper"),
        ("NOT " * 900 + "ok", "nested deeper"),
        ("a" * 4001, "more than 4000 characters"),
    ],
)
def test_what_is_not_surely_read_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        parse(text, COLUMNS)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("'de'", Kind.STRING, "de"),
        ("7", Kind.LONG, "7"),
        ("-7", Kind.DOUBLE, "-7.0"),
        ("1.5", Decimal(9, 2), "1.5"),
        ("NULL", Kind.DATE, None),
        ("DATE'2020-01-02'", Kind.DATE, "2020-01-02"),
    ],
)
def test_a_default_is_a_constant_of_its_column(text: str, type_: Type, value: str | None) -> None:
    assert Constant(value, type_) == parse_constant(text, type_)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("3 + 4", Kind.INT),
        ("current_date()", Kind.DATE),
        ("1.005", Decimal(9, 2)),
        ("'1'", Kind.INT),
    ],
)
def test_no_other_default_is(text: str, type_: Type) -> None:
    with pytest.raises(UnsupportedError):
        parse_constant(text, type_)
