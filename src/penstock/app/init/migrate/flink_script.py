"""Flink SQL as far as it says what goes from where to where: a script becomes data.

Read are SET, CREATE CATALOG, USE, CREATE TABLE and INSERT INTO … SELECT … FROM.

Invariant: a statement that is not read is accounted for, by its beginning, before any value of it.

Source: Flink, "CREATE Statements", "INSERT Statement", "SQL Hints".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.app.init.migrate.account import Migrated, Options, partition_field
from penstock.app.init.migrate.flink_options import JOB

_COMMENTS = re.compile(r"('(?:[^']|'')*')|--[^\n]*|/\*(?!\+).*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"(?:'(?:[^']|'')*'|`[^`]*`|[^;'`])+")
_HINTS = re.compile(r"/\*\+\s*OPTIONS\s*\((.*?)\)\s*\*/", re.DOTALL | re.IGNORECASE)
_SET = re.compile(r"SET\s+'([^']+)'\s*=\s*'([^']*)'", re.IGNORECASE)
_NAME = r"[\w.`-]+"
_CATALOG = re.compile(rf"CREATE\s+CATALOG\s+({_NAME})\s+WITH\s*\(", re.IGNORECASE)
_USE = re.compile(rf"USE\s+(CATALOG\s+)?({_NAME})", re.IGNORECASE)
_TABLE = re.compile(
    rf"CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?({_NAME})\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_PARTITIONED = re.compile(r"PARTITIONED\s+BY\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_COMMENT = re.compile(r"\)\s*COMMENT\s+'(?:[^']|'')*'\s*$", re.IGNORECASE)
_LIKE = re.compile(r"(?:^|\))\s*(LIKE\s+\S+|AS\s+SELECT\b.*)", re.IGNORECASE | re.DOTALL)
_PARTS = re.compile(
    r"(?:[^,()<>']|'(?:[^']|'')*'|\([^()]*(?:\([^()]*\)[^()]*)*\)|<[^<>]*(?:<[^<>]*>[^<>]*)*>)+"
)
_INSERT = re.compile(
    rf"(?:EXECUTE\s+)?INSERT\s+INTO\s+({_NAME})\s+(.*?\bFROM\s+({_NAME}).*)",
    re.IGNORECASE | re.DOTALL,
)
_AROUND = re.compile(
    r"^(?:(?:EXECUTE|BEGIN)\s+)?STATEMENT\s+SET\s*(?:BEGIN\s+)?|^(?:BEGIN|END)\s*$", re.IGNORECASE
)
_PAIR = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_HARMLESS = re.compile(
    r"(ADD|REMOVE|SHOW|DESCRIBE|DESC|EXPLAIN|RESET|LOAD|UNLOAD)\b|CREATE\s+DATABASE\b",
    re.IGNORECASE,
)
_VALUES = re.compile(r"['\"(=]")
"""Where a statement that is not read may begin to hold values, secrets among them."""
_INTERVAL = "execution.checkpointing.interval"


@dataclass(slots=True)
class Declared:
    """The declaration of a table: its options, partitions and columns, as written."""

    options: Options
    partitions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """What goes from where to where; and options in hints, of the sink and of the source."""

    sink: str
    source: str
    select: str
    to_options: Options = field(default_factory=dict)
    from_options: Options = field(default_factory=dict)


@dataclass(slots=True)
class Script:
    """What a script has made, by name: catalogs, tables, and what goes from where to where."""

    catalogs: dict[str, Options] = field(default_factory=dict)
    tables: dict[str, Declared] = field(default_factory=dict)
    inserts: list[Insert] = field(default_factory=list)
    catalog: str = ""
    database: str = ""

    def named(self, text: str) -> str:
        """Return the most qualified name of a table that the script shows."""
        parts = [part.strip("`") for part in text.split(".")]
        if len(parts) == 1 and self.database:
            parts = [self.database, *parts]
        if len(parts) == 2 and self.catalog:  # noqa: PLR2004  a database and a table
            parts = [self.catalog, *parts]
        return ".".join(parts)


def script_of(found: Migrated, text: str) -> Script:
    """Read a script; what it sets of the job itself is accounted for."""
    script = Script()
    plain = _COMMENTS.sub(lambda each: each[1] or " ", text)
    for part in _STATEMENT.findall(plain):
        if statement := _AROUND.sub("", part.strip()).strip():
            _read(found, script, statement)
    return script


def without_hints(text: str) -> str:
    """Return a statement in one line, without its hints."""
    return " ".join(_HINTS.sub(" ", text).split())


def _read(found: Migrated, script: Script, statement: str) -> None:
    if each := _SET.match(statement):
        if each[1] == _INTERVAL:
            found.put(_INTERVAL, "commit.every", _duration(each[2]))
        else:
            found.follow(JOB, each[1], each[2])
    elif each := _CATALOG.match(statement):
        script.catalogs[each[1].strip("`")] = dict(_PAIR.findall(statement))
    elif each := _USE.match(statement):
        if each[1]:
            script.catalog, script.database = each[2].strip("`"), ""
        else:
            *catalog, script.database = (part.strip("`") for part in each[2].split("."))
            script.catalog = catalog[0] if catalog else script.catalog
    elif each := _TABLE.match(statement):
        script.tables[script.named(each[1])] = _table(found, each[1], each[2])
    elif each := _INSERT.match(statement):
        script.inserts.append(_insert(script, each))
    else:
        beginning = " ".join(_VALUES.split(statement, 1)[0].split())[:60]
        if _HARMLESS.match(beginning):
            found.leave(beginning, "it changes no record")
        else:
            why = "it is not read: does it change which records land, or how?"
            found.ask(beginning, decide=why)


def _table(found: Migrated, name: str, declaration: str) -> Declared:
    partitioned = _PARTITIONED.search(declaration)
    fields = _PARTS.findall(partitioned[1]) if partitioned else []
    head, *rest = re.split(r"\bWITH\s*\(", declaration, flags=re.IGNORECASE)
    options = dict(_PAIR.findall(rest[-1])) if rest else {}
    names = (partition_field(each.strip().strip("`")) for each in fields if each.strip())
    if like := _LIKE.search(" ".join((rest or [head])[-1].split())):
        found.ask(f"CREATE TABLE {name}", like[1], "what it takes from there: columns and options")
    columns, comments = _COMMENT.subn(")", head[: partitioned.start()] if partitioned else head)
    if comments:
        found.leave(f"CREATE TABLE {name}: COMMENT", "it changes no record")
    inside = columns.strip().removeprefix("(").rstrip().removesuffix(")")
    declared = tuple(" ".join(each.split()) for each in _PARTS.findall(inside))
    return Declared({"connector": "", **options}, tuple(names), tuple(filter(None, declared)))


def _insert(script: Script, statement: re.Match[str]) -> Insert:
    at = statement.start(3) - statement.start(2)
    before, after = statement[2][:at], statement[2][at:]
    to_options, from_options = (
        dict(_PAIR.findall(" ".join(_HINTS.findall(text)))) for text in (before, after)
    )
    sink, source = script.named(statement[1]), script.named(statement[3])
    return Insert(sink, source, statement[2], to_options, from_options)


def _duration(text: str) -> str:
    """Write a duration of Flink as a spec has it: `1 min` is 1m, a bare number milliseconds."""
    number, unit = re.sub(r"\D", "", text), re.sub(r"[^a-z]", "", text.lower())
    short = "ms" if unit in ("", "ms") or unit.startswith("milli") else unit[0]
    return f"{number}{short}"
