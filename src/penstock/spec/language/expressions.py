"""The SQL inside a spec: one expression, over one record, with one answer.

An expression is DuckDB's SQL, and sees the fields that `schema.hints` gives types to, by their
names, and the record's coordinates (`KAFKA_COLUMNS`). It may be written with `payload.` in front.

Invariants: an accepted expression
- reads one record: no subquery, window, aggregate or star;
- has the same answer for ever: only functions that DuckDB calls consistent, none that asks for
  settings, users or catalogs;
- names only columns with declared types, so that it means the same for every record.

Source: protocol.md 2, "verdicts are reproducible".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from penstock.core.names import folded
from penstock.core.schema import Decimal, Field, Kind, Map, Schema, Struct, Type
from penstock.spec.language.notation import MalformedError
from penstock.spec.language.sandbox import SQL_TYPES, empty_relation, sandbox
from penstock.spec.problems import listed, nearest, shown

EXPRESSION_CHARS_MAX = 4000
RELATION = "payload"
_RELATIONS = (RELATION, "records")

KAFKA_COLUMNS: Schema = Struct(
    (
        Field("_kafka_topic", Kind.STRING),
        Field("_kafka_partition", Kind.INT),
        Field("_kafka_offset", Kind.LONG),
        Field("_kafka_timestamp", Kind.TIMESTAMPTZ),
        Field("_kafka_key", Kind.STRING),
        Field("_kafka_headers", Map(Kind.STRING, Kind.STRING)),
    )
)

_ALLOWED = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLLATE",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
    "TYPE",
}
_ASKS_NULL = {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}
_ASKING = (
    "__internal",
    "current_",
    "pg_",
    "get_",
    "has_",
    "duckdb_",
    "txid_",
    "inet_",
    "getvariable",
    "getenv",
)
_ASKING_ALSO = {"in_search_path", "version", "nextval", "currval", "write_log", "sleep_ms"}
_CALLED_CONSISTENT = {
    "age",  # of one time alone, it counts from today
    *("aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"),  # may sample
    *("combine", "finalize", "to_aggregate_state"),
    "json_serialize_plan",
}
"""Functions that DuckDB calls consistent and that are not, or that name a function in a text."""
_MENTIONED_MAX = 6
EXAMPLE = "such as  amount > 0 and status = 'open'"
_WORDS = re.compile(r"""('[^']*'|"[^"]*"|[^\W\d]\w*)""")
"""Texts and quoted names, too, so that what is in them is not taken for words."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_COLUMN_TYPES = {
    name: kind for kind, name in SQL_TYPES.items() if kind not in (Kind.UUID, Kind.UNKNOWN)
}


class Read(NamedTuple):
    """A value that an expression reads: a column's, or that of the `entry` of one that is a map."""

    column: str
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was let through, and the columns it names, by their first parts.

    `reads` are the values that it looks at; of what it only compares with null it reads none.
    `whole` is the one that it is, where it is no more than that.
    """

    text: str
    columns: tuple[str, ...]
    reads: frozenset[Read]
    whole: Read | None


def expression_text(text: str) -> str:
    """Read an expression. Raises MalformedError when it is none, or is not let through."""
    expression(text)
    return text


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """Read an expression and list what it reads. Raises MalformedError."""
    if not text.strip():
        raise MalformedError("P143", "an expression needs at least one word", "such as  amount > 0")
    if len(text) > EXPRESSION_CHARS_MAX:
        fact = f"an expression has at most {EXPRESSION_CHARS_MAX} characters"
        raise MalformedError("P143", fact, "split it over several rules")
    node = _parsed(text)
    named: dict[str, None] = {}
    for part in _nodes(node):
        _require_allowed(part)
        if part["class"] == "COLUMN_REF":
            named[_column(part["column_names"])] = None
    return Expression(text, tuple(named), frozenset(_reads(node)), _read(node))


def place(name: str) -> str:
    """Write a field's dotted name so that SQL reads it as just that, whatever words are in it."""
    first, dot, below = name.partition(".")
    if dot and first.lower() in _RELATIONS:
        return f"{RELATION}.{name}"
    try:
        plain = expression(first).columns == (first,)
    except MalformedError:
        plain = False
    return name if plain else f'"{first}"{dot}{below}'


def quoted(text: str) -> str:
    """Write a text as SQL's constant."""
    return "'" + text.replace("'", "''") + "'"


def fields_of(hints: Mapping[str, Type]) -> Schema:
    """Return the fields that hints declare: dotted names are members of objects.

    What is declared within a list or a map alone is no field by itself.
    """
    tree: dict[str, Any] = {}
    for name, type_ in sorted(hints.items(), key=lambda hint: hint[0].count(".")):
        if "[]" in name or "{}" in name:
            continue
        *above, last = name.split(".")
        place = tree
        for part in above:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break  # the whole is declared: its type says what is in it
            place = inner
        else:
            place.setdefault(last, type_)
    return _struct(tree)


def looked_at(found: Expression, fields: Schema) -> Schema:
    """Return the declared fields that an expression names. Raises MalformedError for others."""
    known = (*fields.names, *KAFKA_COLUMNS.names)
    for name in found.columns:
        if name not in known:
            near = nearest(name, known)
            if hint := text_hint(found.text, name):
                raise MalformedError("P144", f"no field is named {shown(name)}", hint)
            if near:
                raise MalformedError("P144", f"no field is named {shown(name)}", f"write {near}")
            raise MalformedError(
                "P144",
                f"the type of the field {shown(name)} is not declared",
                f"declare it:  schema: {{ hints: {{ {name}: string }} }}",
            )
    read = Struct(tuple(field for field in fields.fields if field.name in found.columns))
    seen = {folded(name): name for name in KAFKA_COLUMNS.names}
    for name in read.names:
        other = seen.setdefault(folded(name), name)
        if other != name:
            fact = f"SQL takes {shown(name)} and {shown(other)} for one field"
            raise MalformedError("P145", fact, "use one of them only: case does not count in SQL")
    return read


def text_hint(sql: str, name: str) -> str:
    """Say how a text is written, where a name that no column has is compared as if it were one."""
    alone = rf"(?:[=<>]|\bin\s*\(|\blike)\s*[\"]?{re.escape(name)}\b[\"]?(?!\s*[.(\[])"
    compared = re.search(alone, sql, re.IGNORECASE)
    return f"a text is written in quotes:  {quoted(name)}" if compared else ""


def require_type(found: Expression, fields: Schema, wanted: Iterable[str]) -> None:
    """Bind an expression to its fields. Raises MalformedError for a type that is not allowed."""
    type_, wanted = bound_type(found, fields), tuple(wanted)
    if type_ not in wanted:
        raise MalformedError(
            "P145", f"this gives {type_}, and {listed(wanted)} is wanted", "cast it"
        )


def type_given(found: Expression, fields: Schema) -> Type:
    """Bind an expression to its fields, and return its type as a column's.

    Raises MalformedError when no column has such a type.
    """
    name = bound_type(found, fields)
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return Decimal(int(decimal[1]), int(decimal[2]))
    if name not in _COLUMN_TYPES:
        hint = f"cast it to one of {listed([*_COLUMN_TYPES])}"
        raise MalformedError("P145", f"this gives {name}, which is not a column's type", hint)
    return _COLUMN_TYPES[name]


def bound_type(found: Expression, fields: Schema) -> str:
    """Bind an expression to its fields, and return its type in SQL. Raises MalformedError."""
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    schema = Struct((*fields.fields, *KAFKA_COLUMNS.fields))
    relation = f"{empty_relation(schema)} as {RELATION}"
    query = f"select (\n{found.text}\n) as it from {relation}"  # noqa: S608  it is only bound
    try:
        ((_, type_, *_),) = sandbox().execute(f"describe {query}").fetchall()
    except Error as error:
        first, _, _ = str(error).partition("\n")
        raise MalformedError("P145", f"this does not compute: {_clipped(first)}") from error
    return str(type_)


def _struct(tree: Mapping[str, Any]) -> Schema:
    return Struct(
        tuple(
            Field(name, _struct(each) if isinstance(each, dict) else each)
            for name, each in tree.items()
        )
    )


def _parsed(text: str) -> dict[str, Any]:
    query = f"select (\n{text}\n) as it"
    ((answer,),) = sandbox().execute("select json_serialize_sql(?)", [query]).fetchall()
    data = json.loads(answer)
    if data.get("error"):
        fact = f"this is not an SQL expression: {_clipped(str(data.get('error_message', '')))}"
        raise MalformedError("P143", fact, _keyword_hint(text) or EXAMPLE)
    statements = data["statements"]
    node = statements[0]["node"]
    wanted = {"type": "SELECT_NODE", "where_clause": None, "having": None, "qualify": None}
    plain = len(statements) == 1 and all(node.get(name) == each for name, each in wanted.items())
    plain = plain and node["from_table"]["type"] == "EMPTY" and len(node["select_list"]) == 1
    plain = plain and not node["modifiers"] and not node["group_expressions"]
    tree = node["select_list"][0] if plain else {}
    if tree.get("alias") != "it":
        raise MalformedError("P143", "this is more than one expression", EXAMPLE)
    return dict(tree)


def _keyword_hint(text: str) -> str:
    """Say which word of a text SQL has for itself, where the text is an expression without it."""
    parts = _WORDS.split(text)  # words are at odd places
    for word in {each.lower(): each for each in parts[1::2] if each[0] not in "'\""}.values():
        there = [f'"{each}"' if each.lower() == word.lower() else each for each in parts]
        query = f"select (\n{''.join(there)}\n) as it"
        ((answer,),) = sandbox().execute("select json_serialize_sql(?)", [query]).fetchall()
        if not json.loads(answer).get("error"):
            return f'SQL has the word {word} for itself: a column of that name is  "{word}"'
    return ""


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict) and "class" in tree:
        yield tree
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for each in inner:
        yield from _nodes(each)


def _column(names: list[str]) -> str:
    """Return the column that a dotted name begins with."""
    first, *below = names
    return below[0] if below and first.lower() in _RELATIONS else first


def _reads(tree: Any) -> Iterator[Read]:
    """Yield the values that a tree looks at."""
    found = _read(tree)
    if found is not None:
        yield found
        return
    match tree:
        case {"type": kind, "children": [child]} if kind in _ASKS_NULL and _read(child):
            return
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for each in inner:
        yield from _reads(each)


def _read(tree: Any) -> Read | None:
    """Return the value that a tree is, where it computes nothing."""
    match tree:
        case {"class": "COLUMN_REF", "column_names": names}:
            return Read(_column(names))
        case {
            "type": "ARRAY_EXTRACT",
            "children": [
                {"class": "COLUMN_REF", "column_names": names},
                {"class": "CONSTANT", "literal": {"kind": "STRING", "text": entry}},
            ],
        }:
            return Read(_column(names), entry)
    return None


def _require_allowed(node: Mapping[str, Any]) -> None:
    kind = str(node["class"])
    if kind not in _ALLOWED:
        what = kind.lower().replace("_", " ")
        fact = f"a {what} is not allowed in an expression over one record"
        raise MalformedError("P143", fact, "functions, operators, case and cast do")
    if kind == "FUNCTION":
        name = str(node["function_name"]).lower()
        if name not in _functions():
            if name not in _all_functions():
                near = nearest(name, _functions())
                hint = f"did you mean {near}?" if near else "DuckDB's manual lists them"
                raise MalformedError("P143", f"there is no function {shown(name)}", hint)
            raise MalformedError(
                "P143",
                f"{shown(name)} is not a function of one record that always returns the same",
                "only DuckDB's consistent scalar functions are; no aggregates, macros, now()",
            )


@cache
def _all_functions() -> frozenset[str]:
    query = "select distinct function_name from duckdb_functions()"
    return frozenset(str(name) for (name,) in sandbox().execute(query).fetchall())


@cache
def _functions() -> frozenset[str]:
    query = """
        select function_name from duckdb_functions() group by function_name
        having bool_and(function_type = 'scalar' and stability = 'CONSISTENT'
            and not coalesce(has_side_effects, false))
    """
    names = {str(name) for (name,) in sandbox().execute(query).fetchall()}
    asking = {name for name in names if name.startswith(_ASKING)}
    return frozenset(names - asking - _ASKING_ALSO - _CALLED_CONSISTENT)


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return shown(line)[1:-1] if line else "nothing is there"
