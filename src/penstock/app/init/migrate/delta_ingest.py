"""A command line of kafka-delta-ingest becomes a spec: its options, and its transforms as SQL."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from penstock.app.init.migrate.account import (
    NOT_NEEDED,
    Migrated,
    Rules,
    asked,
    delta_table,
    to,
    unknown,
)
from penstock.app.init.migrate.client_options import CLIENT, RESET
from penstock.app.init.migrate.jmespath import META, translated

_APPLICATION = "kafka_delta_ingest"
"""Its name by default."""
_FLAGS = {"checkpoints", "c", "ends_at_latest_offsets", "e"}
_SEVERAL = {"transform", "t", "Kafka", "K", "kafka_setting"}
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_OF_LOGS = ("RUST_LOG", "RUST_BACKTRACE")
_SURROUNDINGS = (
    "a variable of its surroundings, such as a storage's: keys of the storage, or export it"
)
_COLUMN = re.compile(r"(?!_kafka_|_change_)[A-Za-z_]\w{0,127}")


def delta_ingest(text: str) -> Migrated:
    """Translate a command line. Raises InvalidError (P165)."""
    found = Migrated("kafka-delta-ingest")
    before, words = _words(text)
    given = list(_options(words))
    places = [value for option, value in given if not option]
    if len(places) < 2:  # noqa: PLR2004  a topic and a table
        raise unknown("kafka-delta-ingest ingest needs a topic and a table")
    found.put("topic", "kafka.topics", [places[0]])
    into = delta_table(found, "table", places[1])
    found.spec["tables"] = [{"from": places[0], "into": into}]
    found.application = _APPLICATION
    for option, value in given:
        if option:
            found.follow(_RULES, option, value, _name(option))
    if len(places) > 2:  # noqa: PLR2004  a topic and a table
        found.ask("words after the table's place", decide="which option they belong to")
    for variable in filter(None, map(_VARIABLE.fullmatch, before)):  # others are other programs'
        if variable["name"] in _OF_LOGS:
            found.leave(variable["name"], "how it logs")
        else:
            found.ask(variable["name"], decide=_SURROUNDINGS)
    if "start" not in found.spec["kafka"]:
        found.begin("--auto_offset_reset", "(not set)", "earliest")
    return found


def _words(text: str) -> tuple[list[str], list[str]]:
    """Return the words before `ingest`, other programs and their arguments, and those after it."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise unknown("a quote in the command line does not close") from error
    if "ingest" not in words:
        raise unknown("a command line of kafka-delta-ingest has the word ingest")
    at = words.index("ingest")
    return words[:at], words[at + 1 :]


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values, one for each value; the topic and the table have no name."""
    places, several = 0, ""
    words = [*words]
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            taken = several and places > 1
            yield (several if taken else ""), word
            places += not taken
            continue
        option, given, value = word.partition("=")
        name = _name(option)
        if not given and name not in _FLAGS and words:
            value = words.pop(0)
        several = option if name in _SEVERAL else ""
        yield option, value


def _name(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _application(found: Migrated, option: str, value: str) -> None:
    found.put(option, "name", value)
    found.application = value


def _client(found: Migrated, option: str, value: str) -> None:
    key, sign, given = (part.strip() for part in value.partition("="))
    if not sign:
        found.ask(option, decide="it is no KEY=VALUE, as an option of a client of Kafka is")
    elif key == RESET:
        _reset(found, f"{option} {key}", given)
    else:
        found.follow(CLIENT, f"{option} {key}", given, key)


def _reset(found: Migrated, option: str, value: str) -> None:
    """Begin as its first run would; a start by offsets has priority."""
    if not isinstance(found.spec["kafka"].get("start", ""), str):
        found.leave(option, "partitions that --seek_offsets does not name begin at the earliest")
    elif value == "earliest":
        found.put(option, "kafka.start", value)
    else:
        found.begin(option, value, "latest" if value == "latest" else "earliest")


def _sought(found: Migrated, option: str, value: str) -> None:
    """Begin after the offsets that were sought: the first record was the one after each."""
    (topic,) = found.spec["kafka"]["topics"]
    try:
        start = {int(number): int(last) + 1 for number, last in json.loads(value).items()}
    except (ValueError, AttributeError, TypeError):
        found.ask(option, value, "it is no JSON of offsets by partition: kafka.start")
    else:
        found.begin(option, value, {topic: start})


def _transform(found: Migrated, option: str, text: str) -> None:
    column, _, expression = (part.strip() for part in text.partition(":"))
    noted = f"{option} {column}"
    if expression in META and not _COLUMN.fullmatch(column):
        found.mapped.append((noted, f"the column {META[expression]}, of tables[].source_columns"))
        return
    sql = translated(expression)
    if sql is None:
        found.ask(noted, expression, "write it as SQL under transform.columns")
    elif not _COLUMN.fullmatch(column):
        found.ask(noted, expression, "computed columns are at the top level: transform.columns")
    elif column in {name.partition(".")[0] for name in sql.hints}:
        why = "a computed column has another name than the fields it reads: transform.columns"
        found.ask(noted, expression, why)
    else:
        table = found.spec["tables"][0]
        table.setdefault("transform", {}).setdefault("columns", {})[column] = sql.sql
        if sql.hints:
            table.setdefault("schema", {}).setdefault("hints", {}).update(sql.hints)
        types = "".join(f", {name} as {type_}" for name, type_ in sql.hints.items())
        found.mapped.append((noted, f"tables[].transform.columns.{column}{types}"))


_RULES: Rules = {
    "transform t": _transform,
    "Kafka K kafka_setting": _client,
    "seek_offsets": _sought,
    "auto_offset_reset o": _reset,
    "allowed_latency l": to("commit.every", lambda text: f"{int(text)}s"),
    "max_messages_per_batch m": to("commit.or_records", int),
    "min_bytes_per_file b": to("commit.or_bytes", lambda text: f"{int(text)}B"),
    "kafka k": to("kafka.brokers"),
    "app_id a": _application,
    "dlq_table_location": asked(
        "records that do not fit go to the table quarantine.into, of its own columns: write another"
        " name than that of this table"
    ),
    "dlq_transform": asked("the quarantine has columns of its own, the record's place among them"),
    "json avro": asked("which schemas records follow: records.format and records.registry"),
    "consumer_group g": NOT_NEEDED,
    "checkpoints c": "checkpoints are written out of band by themselves",
    "statsd_endpoint s": "metrics are served for Prometheus:  penstock run --metrics",
    "ends_at_latest_offsets e": "penstock run --until-caught-up",
    "*": asked(),
}
