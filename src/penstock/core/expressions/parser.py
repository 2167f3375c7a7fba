"""Reads an expression of a table: a subset of Spark SQL, by the precedence of Spark's own grammar.

Invariants:
- what is not surely of the subset is refused with a reason, so that no expression is ever given
  another meaning than Spark gives it;
- no text makes the parser recurse beyond `DEPTH_MAX`, or read more than `TEXT_MAX` characters.

Source: SqlBaseParser.g4 and SqlBaseLexer.g4 of Spark 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.expressions import typed
from penstock.core.expressions.literals import UnsupportedError, assigned, number, temporal
from penstock.core.expressions.tree import Constant, Node
from penstock.core.schema import Kind, Schema, Struct, Type

TEXT_MAX = 4000
DEPTH_MAX = 40

_TOKEN = re.compile(
    r"""\s*(?!--|/\*)(?:  # no comments
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[A-Za-z]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<text>'[^'\\]*'|"[^"\\]*")
    | (?P<sign><=>|<=|>=|<>|!=|==|[=<>!+\-*/(),.])
    )""",
    re.VERBOSE,
)
_COMPARISONS = {"==": "=", "!=": "<>"} | {each: each for each in ("=", "<>", "<", "<=", ">", ">=")}
_COMPARISONS |= {"<=>": "<=>"}
_TEMPORAL = {"DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMPTZ, "TIMESTAMP_NTZ": Kind.TIMESTAMP}
_RESERVED = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV")
)


def parse(text: str, schema: Schema) -> Node:
    """Read an expression over a table's columns. Raises UnsupportedError with the reason."""
    if len(text) > TEXT_MAX:
        raise UnsupportedError(f"it has more than {TEXT_MAX} characters")
    parser = _Parser(_tokens(text), schema)
    node = parser.expression()
    if parser.here.kind != "end":
        raise UnsupportedError(f"{parser.here.shown} is not supported there")
    return node


def parse_constant(text: str, type_: Type) -> Constant:
    """Read a constant for a column of some type. Raises UnsupportedError with the reason."""
    node = parse(text, Struct(()))
    if not isinstance(node, Constant):
        raise UnsupportedError("only constants are supported")
    return assigned(node, type_)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """Return a name without quotes in capitals, or a sign; "" for others."""
        return self.text.upper() if self.kind in {"name", "sign"} else ""

    @property
    def shown(self) -> str:
        return self.text[:40] if self.kind != "end" else "the end of the expression"


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise UnsupportedError(f"{text[place : place + 20].strip()!r} cannot be read")
        assert found.lastgroup is not None, "each alternative has a name"
        tokens.append(_Token(found.lastgroup, found[found.lastgroup]))
        place = found.end()
    return [*tokens, _Token("end", "")]


@dataclass(slots=True)
class _Parser:
    tokens: list[_Token]
    schema: Schema
    place: int = 0
    depth: int = 0

    @property
    def here(self) -> _Token:
        return self.tokens[self.place]

    def expression(self) -> Node:
        """Read what may stand in parentheses: OR binds least, then AND."""
        return self._within(lambda: self._chain(("OR",), lambda: self._chain(("AND",), self._not)))

    def _not(self) -> Node:
        if self._takes("NOT", "!"):
            return typed.logical("NOT", self._within(self._not))
        return self._predicate(self._comparison())

    def _predicate(self, value: Node) -> Node:
        if self._takes("IS"):
            name = "IS NOT NULL" if self._takes("NOT") else "IS NULL"
            self._needs("NULL")
            return typed.null_test(name, value)
        negated = self._takes("NOT")
        if self._takes("BETWEEN"):
            low = self._comparison()
            self._needs("AND")
            high = self._comparison()
            least, most = typed.compared(">=", value, low), typed.compared("<=", value, high)
            found = typed.logical("AND", least, most)
        elif self._takes("IN"):
            self._needs("(")
            found = typed.within(value, self._list())
        elif negated:
            raise UnsupportedError(f"NOT {self.here.shown} is not supported")
        else:
            return value
        return typed.logical("NOT", found) if negated else found

    def _comparison(self) -> Node:
        left = self._sum()
        while sign := _COMPARISONS.get(self.here.word):
            self.place += 1
            left = typed.compared(sign, left, self._sum())
        return left

    def _sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._signed))

    def _signed(self) -> Node:
        if self._takes("-"):
            return typed.negated(self._within(self._signed))
        if self._takes("+"):
            raise UnsupportedError("a sign + is not supported")
        return self._primary()

    def _chain(self, names: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        left = operand()
        while self.here.word in names:
            name = self.here.word
            self.place += 1
            combine = typed.logical if name in {"AND", "OR"} else typed.arithmetic
            left = combine(name, left, operand())
        return left

    def _primary(self) -> Node:
        token = self._next()
        if token.word == "(":
            node = self.expression()
            self._needs(")")
            return node
        if token.kind == "number":
            return number(token.text)
        if token.kind == "text":
            return Constant(token.text[1:-1], Kind.STRING)
        if token.word in {"TRUE", "FALSE"}:
            return Constant(token.text.lower(), Kind.BOOLEAN)
        if token.word == "NULL":
            return Constant(None, Kind.UNKNOWN)
        if token.word in _TEMPORAL and self.here.kind == "text":
            return temporal(self._next().text[1:-1], _TEMPORAL[token.word])
        if token.word == "CAST" and self.here.word == "(":
            return self._cast()
        if token.kind == "name" and self.here.word == "(":
            self.place += 1
            return typed.function(token.word, self._list())
        if token.kind == "quoted" or (token.kind == "name" and token.word not in _RESERVED):
            return self._column(token)
        raise UnsupportedError(f"{token.shown} is not supported there")

    def _cast(self) -> Node:
        self._needs("(")
        value = self.expression()
        self._needs("AS")
        self._needs("DATE")
        self._needs(")")
        return typed.as_date(value)

    def _column(self, first: _Token) -> Node:
        names = [_unquoted(first)]
        while self._takes("."):
            token = self._next()
            if token.kind not in {"name", "quoted"}:
                raise UnsupportedError(f"{token.shown} is not the name of a member")
            names.append(_unquoted(token))
        return typed.column(self.schema, names)

    def _list(self) -> list[Node]:
        nodes = [] if self.here.word == ")" else [self.expression()]
        while self._takes(","):
            nodes.append(self.expression())
        self._needs(")")
        return nodes

    def _within(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise UnsupportedError(f"it is nested deeper than {DEPTH_MAX}")
        node = read()
        self.depth -= 1
        return node

    def _takes(self, *words: str) -> bool:
        taken = self.here.word in words
        self.place += taken
        return taken

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            raise UnsupportedError(f"{self.here.shown} stands where only {word} is supported")

    def _next(self) -> _Token:
        token = self.here
        self.place += token.kind != "end"
        return token


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
