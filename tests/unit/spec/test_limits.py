"""Every bound of the spec is hit once, and what is said names it; a bound without a row fails."""

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spec.conftest import BASE, Changed

import penstock.spec
from penstock.rows.reject_codes import CODE_INFO
from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError
from penstock.spec.settings.sections import LimitSettings

COUNT_OVER = 2**53 + 1
TOPICS = ", ".join(f"t{n}" for n in range(1001))
CATALOGS = "\n".join(f"  c{n}: {{ type: delta, root: ./c{n} }}" for n in range(101))
PLACES = f"uri: x, warehouse: y, location_providers: [{', '.join(['a.B'] * 1001)}]"
RULES = "\n".join(f"  - {{ from: shop.orders, into: lake.b.t{n} }}" for n in range(1001))
COLUMNS = ", ".join(f"c{n}" for n in range(1001))
GROUPS = ", ".join(f"g{n}: lower(x)" for n in range(9))
HEADERS = ", ".join(f"h{n}: x-{n}" for n in range(101))
COMPUTED = ", ".join(f"c{n}: _kafka_offset" for n in range(101))
WORDS = ", ".join(f"w{n}: update" for n in range(101))
FILLED = ", ".join(f"c{n}: long" for n in range(101))
ALIASES = "&a [" + "1, " * 250 + "1]"


def block(name: str, text: str) -> tuple[str, str]:
    return ("quarantine:", f"{name}: {{ {text} }}\nquarantine:")


def rule(text: str) -> tuple[str, str]:
    return ("    into", f"    {text}\n    into")


SCHEMA_BOUNDS = {
    "Security.extensions": (
        ("[shop.orders]", f"[shop.orders]\n  security: {{ extensions: {{ {', '.join(f'{each}: x' for each in 'abcdefghijklmnopqrstu')} }} }}"),
        "P108", "at most 20",
    ),
    "CommitSettings.or_records": (block("commit", f"or_records: {COUNT_OVER}"), "P108", "or less"),
    "CommitSettings.retain": (block("commit", "retain: 201"), "P108", "expected 200 or less"),
    "MaintainSettings.only": (
        block("maintain", f"only: [{', '.join(['sweep'] * 1001)}]"), "P108", "at most 1000",
    ),
    "PendingSettings.max_epochs": (block("pending", "max_epochs: 65"), "P108", "64 or less"),
    "LimitSettings.columns": (block("limits", f"columns: {COUNT_OVER}"), "P108", "or less"),
    "LimitSettings.new_columns_per_hour": (
        block("limits", f"new_columns_per_hour: {COUNT_OVER}"), "P108", "or less",
    ),
    "LimitSettings.tables": (block("limits", f"tables: {COUNT_OVER}"), "P108", "or less"),
    "LimitSettings.open_writers": (block("limits", f"open_writers: {COUNT_OVER}"), "P108", "less"),
    "LimitSettings.depth": (block("limits", "depth: 129"), "P108", "expected 128 or less"),
    "Kafka.topics": (("[shop.orders]", f"[{TOPICS}]"), "P108", "at most 1000, read 1001"),
    "Table.partition_by": (rule(f"partition_by: [{COLUMNS}]"), "P108", "at most 1000, read 1001"),
    "Table.identifier_fields": (
        rule(f"identifier_fields: [{COLUMNS}]"), "P108", "at most 1000, read 1001",
    ),
    "Table.keys": (rule(f"keys: [{COLUMNS}]"), "P108", "at most 1000, read 1001"),
    "Table.sequence_by": (rule(f"sequence_by: [{COLUMNS}]"), "P108", "at most 1000, read 1001"),
    "Operation.map": (
        rule(f"operation: {{ field: op, map: {{ {WORDS} }} }}"), "P108", "at most 100, read 101",
    ),
    "Table.sort_by": (rule(f"sort_by: [{COLUMNS}]"), "P108", "at most 1000, read 1001"),
    "Table.source_columns": (
        rule(f"source_columns: [{', '.join(['key'] * 1001)}]"), "P108", "at most 1000, read 1001",
    ),
    "Table.change_columns": (
        rule(f"change_columns: [{', '.join(['source'] * 1001)}]"), "P108", "at most 1000",
    ),
    "Table.header_columns": (rule(f"header_columns: {{ {HEADERS} }}"), "P108", "at most 100, read 101"),
    "Transform.columns": (
        rule(f"transform: {{ columns: {{ {COMPUTED} }} }}"), "P108", "at most 100, read 101",
    ),
    "Function.columns": (
        rule(f"transform: {{ function: {{ call: 'm:f', columns: {{ {FILLED} }} }} }}"),
        "P108", "at most 100, read 101",
    ),
    "Table.route": (rule(f"route: {{ {GROUPS} }}"), "P108", "at most 8, read 9"),
    ".undecided": (
        ("tables:", f"undecided: [{', '.join(['{ option: a, decide: b }'] * 1001)}]\ntables:"),
        "P108", "at most 1000, read 1001",
    ),
    ".catalogs": (("tables:", f"{CATALOGS}\ntables:"), "P108", "at most 100, read 102"),
    **{
        f"{kind.capitalize()}Catalog.location_providers": (
            ("tables:", f"  c: {{ type: {kind}, {PLACES} }}\ntables:"), "P108", "at most 1000",
        )
        for kind in ("sql", "rest", "hive", "glue")
    },
    ".tables": (("tables:", f"tables:\n{RULES}"), "P108", "at most 1000, read 1002"),
    ".shards": (("tables:", "shards: 65\ntables:"), "P108", "64 or less"),
}  # fmt: skip

CONSTANTS = {
    "fields.COUNT_MAX": SCHEMA_BOUNDS["CommitSettings.or_records"],
    "table.COLUMNS_MAX": SCHEMA_BOUNDS["Transform.columns"],
    "keyed.OPERATIONS_MAX": SCHEMA_BOUNDS["Operation.map"],
    "fields.ENTRIES_MAX": SCHEMA_BOUNDS["Kafka.topics"],
    "notation.NAME_CHARS_MAX": (("lake.bronze.orders", f"lake.b.{'x' * 129}"), "P110", "most 128"),
    "notation.PATTERN_CHARS_MAX": (
        ("from: shop.orders", f"from: '{'x+' * 130}'"), "P113", "260 characters, and 250 are",
    ),
    "notation.PARTS_MAX": (("lake.bronze.orders", f"lake{'.x' * 8}"), "P110", "at most 8 parts"),
    "notation.PORT_MAX": (("localhost:9092", "localhost:65536"), "P125", "at most 65535"),
    "notation.TYPE_CHARS_MAX": (
        rule(f"schema: {{ hints: {{ a: '{'list<' * 999}' }} }}"), "P116", "at most 4,000 characters",
    ),
    "notation.REPEATS_MAX": (("from: shop.orders", "from: '(a+){9}'"), "P113", "repeat"),
    "notation.ARGUMENT_MAX": (
        rule("partition_by: ['bucket(2147483648, id)']"), "P115", "from 1 to 2147483647",
    ),
    "quantities.CHARS_MAX": (block("commit", f"every: '{'1s' * 21}'"), "P109", "expected a duration"),
    "quantities.MILLISECONDS_MAX": (block("commit", "every: 367d"), "P109", "from 1ms to 366d"),
    "quantities.BYTES_MAX": (block("commit", "or_bytes: 1025TiB"), "P109", "from 1B to 1024TiB"),
    "quantities.PERCENT_DIGITS_MAX": (
        ("quarantine }", "quarantine, stop_above: 1.00000000001% }"), "P109", "expected a share",
    ),
    "sections.DEPTH_MAX": SCHEMA_BOUNDS["LimitSettings.depth"],
    "sections.OFFSET_MAX": (
        ("[shop.orders]", f"[shop.orders]\n  start: {{ shop.orders: {{ 0: {2**63} }} }}"),
        "P108", "an offset from 0 to 9223372036854775806",
    ),
    "sections.PARTITION_MAX": (
        ("[shop.orders]", f"[shop.orders]\n  start: {{ shop.orders: {{ {2**31}: 0 }} }}"),
        "P108", "a partition from 0 to 2147483647",
    ),
    "yaml12.CHARS_MAX": (("name: shop", f"# {'x' * 256 * 1024}\nname: shop"), "P102", "256 KiB"),
    "yaml12.DEPTH_MAX": (
        ("name: shop", f"name: {'[' * 33}{']' * 33}"), "P102", "deeper than 32 levels",
    ),
    "yaml12.NODES_MAX": (
        ("name: shop", f"a: {ALIASES}\nb: [{'*a, ' * 250}*a]\nname: shop"), "P102", "50000 values",
    ),
    "yaml12.DIGITS_MAX": (block("limits", f"depth: {'9' * 41}"), "P101", "number"),
    "expressions.EXPRESSION_CHARS_MAX": (
        rule(f"where: '{'a' * 4001}'"), "P143", "at most 4000 characters",
    ),
}  # fmt: skip

ELSEWHERE = {
    "load.FILE_BYTES_MAX": "test_loading.py::test_a_file_that_is_too_large_is_reported",
    "secrets.SECRET_BYTES_MAX": "test_secrets.py::test_a_file_that_is_too_large_or_no_text_is_no_secret",
}
OF_MESSAGES = {"problems.PROBLEMS_MAX", "problems.EXCERPT_CHARS_MAX", "problems.READ_CHARS_MAX"}
OF_THE_WORK = {"open_writers"}  # a writer above it closes the largest file, and nothing is refused


@pytest.mark.parametrize("name", [*SCHEMA_BOUNDS, *CONSTANTS])
def test_a_bound_that_is_passed_is_reported(spec: Changed, name: str) -> None:
    change, code, said = (SCHEMA_BOUNDS | CONSTANTS)[name]
    with pytest.raises(SpecError) as refused:
        loads(spec(change), base=BASE)

    reported = [str(each) for each in refused.value.problems if each.code == code]
    assert any(said in " ".join(text.split()) for text in reported), str(refused.value)


def test_every_bound_of_the_schema_is_hit_here() -> None:
    assert set(SCHEMA_BOUNDS) == set(bounds(Pipeline.model_json_schema(), ""))


def test_every_constant_that_bounds_a_spec_is_hit_here() -> None:
    names = {
        f"{module.rpartition('.')[2]}.{name}"
        for _, module, _ in pkgutil.walk_packages(penstock.spec.__path__, "penstock.spec.")
        for name, value in vars(importlib.import_module(module)).items()
        if name.endswith("_MAX") and not name.startswith("_") and is_home(module, name, value)
    }

    assert {*CONSTANTS, *ELSEWHERE, *OF_MESSAGES} == names
    for place in ELSEWHERE.values():
        file, _, test = place.partition("::")
        assert f"def {test}" in (Path(__file__).parent / file).read_text()


def test_every_limit_of_the_work_is_named_by_what_an_error_says_to_do() -> None:
    facts = json.loads(resources.files("penstock.app.manual").joinpath("facts.json").read_text())
    hints = [text for fact in facts.values() for text in (*fact["says"], *fact["does"])]
    hints += [meaning.hint for meaning in CODE_INFO.values()]
    wanted = set(LimitSettings.model_fields) - OF_THE_WORK

    assert wanted == {name for name in wanted if any(f"limits.{name}" in hint for hint in hints)}


def bounds(node: Any, path: str) -> Iterator[str]:
    """List the settings of a JSON schema that have a largest value, as `Block.setting`."""
    if isinstance(node, Mapping):
        if {"maximum", "maxItems", "maxProperties"} & node.keys():
            parts = path.split("/")
            yield f"{parts[parts.index('$defs') + 1] if '$defs' in parts else ''}.{parts[-1]}"
        for name, inner in node.items():
            yield from bounds(inner, f"{path}/{name}")


def is_home(module: str, name: str, value: object) -> bool:
    """Return whether a module defines a constant, rather than imports it."""
    source = Path(importlib.import_module(module).__file__ or "").read_text()
    return isinstance(value, int) and f"\n{name} = " in source
