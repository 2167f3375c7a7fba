"""`penstock init`: read a cluster's topics, or another system's configuration, and write a spec.

Invariants:
- nothing is overwritten; what is written loads, or the findings are reported with it;
- what a topic holds is taken from a sample of its records and never assumed (rule.py): each rule
  that is written lands that sample, but for what a comment names;
- names that come from records are written so that YAML reads them as text; no comment holds one
  that is no plain word.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from penstock.app.assembly.schema_readers import schema_readers
from penstock.app.init.migrate.account import Migrated
from penstock.app.init.migrate.migrate import incomplete, migrated
from penstock.app.init.migrate.offsets import where_it_ended
from penstock.app.init.rule import CATALOGS, Rule, Setting, drafted, pipeline_for
from penstock.app.init.topics import Progress, SampledTopics, sample_topics
from penstock.core.errors import InvalidError
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of, one_line
from penstock.ports.runtime import Observer
from penstock.rows.schema.hints import Format
from penstock.spec.json_schema import SCHEMA_FILE, json_schema
from penstock.spec.load import loads
from penstock.spec.secrets import escaped
from penstock.spec.settings.records import Records

SCHEMA_LINE = f"# yaml-language-server: $schema=./{SCHEMA_FILE}"
CATALOG_NAMES: Mapping[Format, str] = {"iceberg": "lake", "delta": "delta"}

UNDECIDED_LINE = (
    "# Not complete: decide each entry of  undecided, write that into the spec, remove the entry."
)

_BROKERS = re.compile(r"[A-Za-z0-9.-]+:\d+(?:,[A-Za-z0-9.-]+:\d+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_PLAIN_TYPE = re.compile(r"[a-z]+(?:\([0-9]+,[0-9]+\))?")


def draft(
    address: str,
    to: Format,
    name: str,
    *,
    topics: str | None = None,
    registry: str | None = None,
    progress: Progress = lambda _done, _of: None,
    observer: Observer = UNHEARD,
) -> tuple[str, SampledTopics[Rule]]:
    """Write a spec for topics of `kafka://host:port[,host:port]`; return what was found, too.

    `topics` chooses them (topics.py), all by default; `registry` is the address of a schema
    registry. Raises InvalidError: P166 for another address, or when there is no topic, P168 where
    the choice names none, P169 where none of them can land; UnavailableError.
    """
    scheme, _, brokers = address.partition("://")
    brokers = brokers.strip("/")
    if scheme != "kafka" or not brokers:
        meant = address if _BROKERS.fullmatch(address) else "localhost:9092"
        raise InvalidError(
            f"{address[:80]!r} is not the address of a cluster",
            code="P166",
            hint=f"penstock init --from kafka://{meant}",
        )
    setting = setting_for(to, registry)
    pipeline = pipeline_for(setting, {"pattern": ".+"}, {"from": ".+"}, brokers)
    found = sample_topics(
        pipeline, topics, lambda topic: drafted(topic, setting), progress, observer
    )
    if not found.topics:
        raise InvalidError(
            f"the cluster at {brokers[:80]} has no topics",
            code="P166",
            hint="send records to a topic first",
        )
    if all(rule.excluded and not rule.is_empty for rule in found.topics):
        first = found.topics[0]
        raise InvalidError(
            f"none of {len(found.topics)} topics can land; {first.topic}: {first.excluded}",
            code="P169",
            hint="penstock explain P169",
        )
    return text_of(brokers, to, name, registry, found), found


def translated(text: str, *, base: Path | None = None) -> tuple[str, Migrated]:
    """Write a spec from another system's configuration, with the account of its options.

    With a `base`, the directory of the spec, it begins where the other system ended
    (`app.taking_over`, which says what is raised); SpecError where the spec is not whole yet.
    """
    found = migrated(text)
    if base is not None and "publish" in found.spec:
        raise InvalidError(
            "positions of a source connector are not taken over by themselves: its source"
            " partitions are others",
            code="P296",
            hint="stop it, ask Connect where it stands:  GET /connectors/NAME/offsets;  write the"
            " spec without --offsets, and then:  penstock seek NAME PLACE",
        )
    if base is not None:
        pipeline = loads(yaml.safe_dump(found.spec), base=base)
        start, remaining = where_it_ended(pipeline, found)
        where = found.group or found.application
        found.put(f"where {where} ended", "kafka.start", start)
        found.mapped += [(each.option, "kafka.start, see above") for each in found.beginning]
        found.beginning.clear()
        found.mapped.append(("records after that", f"{remaining:,} in Kafka"))
    account = [f"#   {option} -> {setting}" for option, setting in found.mapped]
    unmapped = [f"#   {option}: {why}" for option, why in found.unmapped]
    spec = incomplete(found)
    lines = [SCHEMA_LINE, f"# From {found.system}. Mapped:", *account]
    lines += ["# Unmapped, and why:", *unmapped] if unmapped else []
    lines += [UNDECIDED_LINE] if "undecided" in spec else []
    body = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join([*lines, body]), found


def keep_schema(directory: Path) -> bool:
    """Write the JSON Schema that `SCHEMA_LINE` names, for editors; return whether it is new."""
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return _create(directory / SCHEMA_FILE, text)


def keep(path: Path, text: str) -> None:
    """Write a spec where none is. Raises InvalidError (P164)."""
    if not _create(path, text):
        raise InvalidError(
            f"{path} exists already", code="P164", hint="penstock init another.yaml …"
        )


def _create(path: Path, text: str) -> bool:
    """Write a file where none is; return whether there was none. Raises InvalidError (P164)."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        raise InvalidError(
            f"{path} cannot be written: {error.strerror}", code="P164", hint=f"ls -ld {path.parent}"
        ) from error
    return True


def setting_for(to: Format, registry: str | None) -> Setting:
    """Return what rules are drafted for. Raises SpecError for an address of no registry."""
    if registry is None:
        return Setting(to, None, None)
    given: dict[str, Any] = {"registry": registry}
    settings = Records(**given).registry
    assert settings is not None, "it was given"
    opened = schema_readers(settings.settings()).registry
    assert opened is not None, "readers of a registry have it"
    return Setting(to, registry, opened.find)


def text_of(
    brokers: str, to: Format, name: str, registry: str | None, sampled: SampledTopics[Rule]
) -> str:
    """Write the spec of drafted rules, at least one of which lands or has no records."""
    catalog, rules = CATALOG_NAMES[to], sampled.topics
    active = [rule for rule in rules if not rule.excluded] or [
        next(rule for rule in rules if rule.is_empty)
    ]
    read = ", ".join(_quoted(rule.topic) for rule in active)
    lines = [
        SCHEMA_LINE,
        "# Written by penstock init. Next, with this file: penstock validate, plan, run",
        f"name: {name}",
        "kafka:",
        f'  brokers: "${{env:BROKERS:-{brokers}}}"',
        f"  topics: [{read}]",
        "  start: earliest                 # or latest, or a time such as 2026-11-01T00:00:00Z",
        *([f"records: {{ registry: {_quoted(registry)} }}"] if registry else []),
        "catalogs:",
        f"  {catalog}: {_flow(CATALOGS[to])}",
        "tables:",
        *_rules(catalog, rules, active),
        *([f"  # {sampled.left} more topics were not read"] if sampled.left else []),
        "commit: { every: 30s }            # how long a record waits at most before it is visible",
        f"quarantine: {{ into: {catalog}.ops.quarantine }}   # where records go that do not fit",
        "# spark: { master: inline }       # one process and no Java: quick to try things",
    ]
    return "\n".join(lines) + "\n"


def _rules(catalog: str, rules: Sequence[Rule], active: Sequence[Rule]) -> Iterator[str]:
    taken: set[str] = set()
    for rule in rules:
        off = "" if rule in active else "# "
        yield from (f"  # {line}" for line in _findings(rule))
        table = f"{catalog}.landed.{_table(rule.topic, taken)}"
        yield from (f"  {off}{line}" for line in _rule(rule, table))


def _findings(rule: Rule) -> Iterator[str]:
    places = number_of(rule.partitions, "partition")
    yield f"{number_of(rule.records, 'record')} in {places}, {rule.sampled:,} read"
    if rule.excluded:
        yield one_line(f"excluded: {rule.excluded}" if not rule.is_empty else rule.excluded)
    if rule.rejected:
        codes = ", ".join(f"{code} ({count})" for code, count in rule.rejected.items())
        yield f"of those, quarantine takes {sum(rule.rejected.values())}: {codes}"


def _rule(rule: Rule, table: str) -> Iterator[str]:
    settings = rule.settings or {"schema": {"create": True, "columns": "evolve"}}
    why = defaultdict(str, {name: f"  # {text}" for name, text in rule.why.items()})
    yield f"- from: {_quoted(rule.topic)}"
    yield f"  into: {table}"
    for name, value in settings.items():
        if name != "schema":
            said = value if isinstance(value, str) else _flow(value)
            yield f"  {name}: {said}{why[name]}"
    yield "  schema:"
    for name, value in settings["schema"].items():
        yield f"    {name}: {_flow(value)}{why[name]}"
    if rule.hints:
        yield "    hints:"
        for path, hint in rule.hints.items():
            text = str(hint.type)
            said = text if _PLAIN_TYPE.fullmatch(text) else _quoted(text)
            yield f"      {_key(path)}: {said}  # {hint.why}"
    if rule.keys is not None:
        yield "  # one row for each key, not one for each change:"
        yield "  # mode: cdc"
        keys, known = ", ".join(rule.keys) or "id", bool(rule.keys)
        yield f"  # keys: [{keys}]" + ("" if known else "   # or what the primary key is")
        if rule.deletes_by_key:
            yield "  # tombstones: delete   # in place of skip: each deletes the row of its key"
    if rule.times:
        yield "  # as times:"
        yield "  # transform:"
        yield "  #   columns:"
        for column, sql in rule.times.items():
            yield f"  #     {column}: {_quoted(sql)}"


def _flow(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            inner = ", ".join(f"{key}: {_flow(each)}" for key, each in value.items())
            return f"{{ {inner} }}"
        case str() if re.fullmatch(r"[a-z][a-z-]*", value):
            return value
        case _:
            return _quoted(value)


def _key(name: str) -> str:
    plain = _PLAIN_KEY.fullmatch(name) is not None and name.lower() not in _YAML_WORDS
    return name if plain else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(escaped(text), ensure_ascii=False)


def _table(topic: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", topic.lower()).strip("_") or "topic"
    name = f"t_{name}" if name[0].isdigit() else name
    found, number = name[:120], 2
    while found in taken:
        found, number = f"{name[:120]}_{number}", number + 1
    taken.add(found)
    return found
