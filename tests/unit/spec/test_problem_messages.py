"""What people read when a spec is wrong, to the letter."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from penstock.core.errors import InvalidError
from penstock.spec.load import loads
from penstock.spec.problems import Place, Problem, SpecError, path_text, render, shown

Changed = Callable[..., str]
Reported = Callable[[str | bytes], str]
Codes = Callable[[str | bytes], list[tuple[int, str]]]


def expected(text: str) -> str:
    return dedent(text).strip("\n")


def without_trailing_room(text: str) -> str:
    """Let the room between message and code be one of two blanks, to fit the page."""
    lines = text.splitlines()
    return "\n".join(
        f"{line[:-4].rstrip()}  {line[-4:]}" if line[-4:-2] == "P1" else line for line in lines
    )


def test_all_problems_are_reported_at_once_sorted_by_line(
    spec: Changed, reported: Reported
) -> None:
    text = spec(
        ("into: lake.bronze.orders", "into: lak.bronze.orders\n    mode: scd2\n    freshnes: 5m"),
        ("quarantine: {", "commit: { evry: 30s, or_bytes: 256 }\nquarantine: {"),
        ("topics: [shop.orders]", "topics: [shop.orders]\n  start: { shop.order: { 0: 5 } }"),
    )
    assert expected("""
        penstock.yaml has 6 problems
        penstock.yaml:5:12  kafka.start['shop.order']: the topic 'shop.order' is not among kafka.topics  P121
           5 |   start: { shop.order: { 0: 5 } }
             |            ^^^^^^^^^^ did you mean 'shop.orders'?
        penstock.yaml:10:11  tables[0].into: no catalog is named 'lak'. Did you mean 'lake'?  P117
          10 |     into: lak.bronze.orders
             |           ^^^^^^^^^^^^^^^^^
        penstock.yaml:11:11  tables[0].mode: 'scd2' is not in this release yet; this release has append, upsert and cdc  P111
          11 |     mode: scd2
             |           ^^^^
        penstock.yaml:12:5  tables[0].freshnes: unknown setting. Did you mean 'freshness'?  P104
          12 |     freshnes: 5m
             |     ^^^^^^^^
        penstock.yaml:13:11  commit.evry: unknown setting. Did you mean 'every'?  P104
          13 | commit: { evry: 30s, or_bytes: 256 }
             |           ^^^^
        penstock.yaml:13:32  commit.or_bytes: expected a size such as 8MB, 64MiB or 1.5GB, read 256  P109
          13 | commit: { evry: 30s, or_bytes: 256 }
             |                                ^^^
    """) == without_trailing_room(reported(text))


def test_the_code_is_at_the_right_edge(spec: Changed, reported: Reported) -> None:
    line = reported(spec(("name: shop", "nam: shop\nname: shop"))).splitlines()[1]
    assert (
        "penstock.yaml:1:1  nam: unknown setting. Did you mean 'name'?".ljust(96) + "P104" == line
    )


def test_a_missing_setting_is_shown_where_it_belongs(spec: Changed, reported: Reported) -> None:
    text = spec(("quarantine: { into: lake.ops.quarantine }", "quarantine: { stop_above: 2% }"))
    assert expected("""
        penstock.yaml has 1 problem
        penstock.yaml:10:1  quarantine.into: this required setting is missing  P105
          10 | quarantine: { stop_above: 2% }
             | ^^^^^^^^^^ add  into: lake.ops.quarantine
    """) == without_trailing_room(reported(text))


def test_a_missing_quarantine_says_what_to_add(spec: Changed, reported: Reported) -> None:
    assert expected("""
        penstock.yaml has 1 problem
        penstock.yaml:1:1  quarantine: this required setting is missing  P105
           1 | name: shop
             | ^ add  quarantine: { into: lake.ops.quarantine }
    """) == without_trailing_room(reported(spec(("quarantine: { into: lake.ops.quarantine }", ""))))


def test_broken_yaml_is_reported_with_its_place(reported: Reported) -> None:
    assert expected("""
        penstock.yaml has 1 problem
        penstock.yaml:2:31  expected ',' or '}', but got '{', while parsing a flow mapping that begins on line 2  P101
           2 | kafka: {security: {password: ****************
             |                               ^ put quotes around a reference inside of { }: "${env:X}"
    """) == without_trailing_room(
        reported("name: shop\nkafka: {security: {password: ${file:/run/x}}}\n")
    )


def test_a_file_that_is_not_utf_8_is_reported_with_its_place(reported: Reported) -> None:
    assert expected("""
        penstock.yaml has 1 problem
        penstock.yaml:2:7  the byte 0xff is not UTF-8  P101
           2 |
             | ^ save the file as UTF-8
    """) == without_trailing_room(reported(b"name: shop\nname: \xff"))


def test_security_that_contradicts_itself_is_reported_with_all_it_needs(
    spec: Changed, reported: Reported
) -> None:
    text = spec(
        (
            "topics: [shop.orders]",
            "topics: [shop.orders]\n  security: { protocol: sasl_ssl, password: 12345 }",
        )
    )
    assert expected("""
        penstock.yaml has 3 problems
        penstock.yaml:5:3  kafka.security.mechanism: protocol sasl_ssl needs 'mechanism'  P120
           5 |   security: { protocol: sasl_ssl, password: ***** }
             |   ^^^^^^^^ add  mechanism: scram-sha-512
        penstock.yaml:5:3  kafka.security.username: protocol sasl_ssl needs 'username'  P120
           5 |   security: { protocol: sasl_ssl, password: ***** }
             |   ^^^^^^^^ add  username: shop
        penstock.yaml:5:45  kafka.security.password: expected text, read a number  P106
           5 |   security: { protocol: sasl_ssl, password: ***** }
             |                                             ^^^^^ put quotes around it
    """) == without_trailing_room(reported(text))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("name: shop", "name: Shop!", [(1, "P110")]),
        ("name: shop", "name: 12", [(1, "P106")]),
        ("brokers: localhost:9092", "brokers: 'a b'", [(3, "P125")]),
        ("brokers: localhost:9092", "brokers: a:99999", [(3, "P125")]),
        ("[shop.orders]", "[]", [(4, "P108")]),
        ("[shop.orders]", "shop.orders", [(4, "P106")]),
        ("[shop.orders]", "['shop/orders']", [(4, "P110")]),
        ("[shop.orders]", "[shop.orders, 5]", [(4, "P106")]),
        ("[shop.orders]", "[shop.orders, {pattern: '('}]", [(4, "P113")]),
        ("[shop.orders]", "[shop.orders]\n  start: ealiest", [(5, "P107")]),
        ("[shop.orders]", "[shop.orders]\n  start: yesterday", [(5, "P125")]),
        ("[shop.orders]", "[shop.orders]\n  start: 2026-11-01T00:00:00", [(5, "P125")]),
        ("[shop.orders]", "[shop.orders]\n  start: 0001-01-01T00:00:00+14:00", [(5, "P125")]),
        ("[shop.orders]", "[shop.orders]\n  start: {shop.orders: {0: -1}}", [(5, "P108")]),
        ("[shop.orders]", "[shop.orders]\n  start: {shop.orders: 5}", [(5, "P106")]),
        ("[shop.orders]", "[shop.orders]\n  options: {x: y}", [(5, "P104")]),
        ("type: sql", "type: in-memory", [(6, "P107")]),
        ("type: sql", "type: unity", [(6, "P107")]),
        ("type: sql", "type: dynamodb", [(6, "P107")]),
        ("type: sql", "type: slq", [(6, "P107")]),
        ("type: sql,", "", [(6, "P105")]),
        ("lake: {", "Lake: {", [(6, "P110"), (9, "P117"), (10, "P117")]),
        ("warehouse: ./lake", "warehouse: ./lake, x: ~", [(6, "P106")]),
        ("from: shop.orders", "from: '(?P<x>.+)+'", [(8, "P113")]),
        ("from: shop.orders", "from: '" + "x*" * 200 + "'", [(8, "P113")]),
        ("from: shop.orders", "from: other", [(4, "P127"), (8, "P121")]),
        ("from: shop.orders", "from: 'other\\..+'", [(4, "P127"), (8, "P121")]),
        ("lake.bronze.orders", "lake.bronze.{name}", [(9, "P114")]),
        ("lake.bronze.orders", "lake.bronze.Orders", [(9, "P110")]),
        ("lake.bronze.orders", "lake.orders", [(9, "P110")]),
        ("lake.bronze.orders", "lake.ops.quarantine", [(9, "P119")]),
        ("lake.ops.quarantine", "'lake.ops.{name}'", [(10, "P110")]),
        ("lake.ops.quarantine", "lak.ops.quarantine", [(10, "P117")]),
        ("    into", "    partition_by: [dya(ts)]\n    into", [(9, "P115")]),
        ("    into", "    partition_by: [bucket(id)]\n    into", [(9, "P115")]),
        ("    into", "    partition_by: [ts, ts]\n    into", [(9, "P118")]),
        ("    into", "    partition_by: day(ts)\n    into", [(9, "P106")]),
        ("    into", "    source_columns: [topik]\n    into", [(9, "P107")]),
        ("    into", "    schema: {hints: {a: intt}}\n    into", [(9, "P116")]),
        ("    into", "    schema: {columns: evolve, types: thaw}\n    records: {format: text}\n    into", [(9, "P107")]),
        ("    into", "    header_columns: {_kafka_x: x}\n    into", [(9, "P110")]),
        ("    into", "    records: {key_format: avro}\n    into", [(9, "P151")]),
        ("    into", "    records: {format: avro, registry: 'https://r', envelope: dms}\n    into", [(9, "P151")]),
        (
            "    into",
            "    records: {format: text}\n    schema: {case_sensitive: false}\n    into",
            [(10, "P111")],
        ),
        ("    into", "    schema: {coerce: string}\n    into", [(9, "P111")]),
        ("    into", "    schema: {match: name_mapping, create: true}\n    into", [(9, "P111")]),
        ("    into", "    schema: {match: name_mapping, case_sensitive: false}\n    into", [(9, "P111")]),
        (
            "    into",
            "    records: {format: text}\n    schema: {match: name_mapping}\n    into",
            [(10, "P111")],
        ),
        ("    into", "    schema: {match: name_mapping, columns: rescue}\n    records: {format: json}\n    into", [(9, "P111")]),
        ("    into", "    schema: {assume_zone: Mars/Crater}\n    into", [(9, "P125")]),
        ("    into", "    schema: {create: 'yes'}\n    into", [(9, "P106")]),
        ("    into", "    schema:\n    into", [(9, "P106")]),
        ("    into", "    tombstones: delete\n    into", [(9, "P197")]),
        ("    into", "    mode: CDC\n    keys: [id]\n    into", [(9, "P107")]),
        ("    into", "    mode: upsert\n    keys: id\n    tombstones: skip\n    into", [(10, "P106")]),
        ("    into", "    mode: cdc\n    keys: [id]\n    operation: op\n    into", [(11, "P106")]),
        ("quarantine:", "spark: {master: 'spark://m:7077'}\nquarantine:", [(6, "P128")]),
        ("    into", "    transform: y\n    into", [(9, "P106")]),
        ("    into", "    branch: a.b\n    into", [(9, "P110")]),
        ("topics: [shop.orders]", "topics: [shop.orders]\n  identity: name\n  x: 1", [(5, "P126"), (6, "P104")]),
        ("    into", "    unknown_tables: create\n    into", [(9, "P147")]),
        ("quarantine:", "records: {format: avro, registry: {url: 'r:8081'}}\nquarantine:", [(10, "P150")]),
        ("    into", "    properties: {penstock.ledger: x}\n    into", [(9, "P119")]),
        ("    into", "    from_: x\n    into", [(9, "P104")]),
        ("quarantine:", "records: {format: avro, envelope: connect}\nquarantine:", [(10, "P111"), (10, "P151")]),
        ("quarantine:", "pending: {store: 'postgresql://h'}\nquarantine:", [(10, "P125")]),
        ("quarantine:", "pending: {store: './x.db', max_epochs: 0}\nquarantine:", [(10, "P125"), (10, "P108")]),
        ("quarantine:", "commit: {every: 30, retain: 1000}\nquarantine:", [(10, "P109"), (10, "P108")]),
        ("quarantine:", "commit: {or_records: true}\nquarantine:", [(10, "P106")]),
        ("quarantine:", "row_group_bytes: 1GB\nquarantine:", [(10, "P108")]),
        ("quarantine:", "maintain: {only: [expire]}\nx: 1\nquarantine:", [(10, "P177"), (11, "P104")]),
        ("quarantine:", "name: twice\nquarantine:", [(10, "P103")]),
        ("quarantine:", "<<: {}\nquarantine:", [(10, "P104")]),
    ],
)  # fmt: skip
def test_each_mistake_has_its_code_and_line(
    spec: Changed, codes: Codes, old: str, new: str, found: list[tuple[int, str]]
) -> None:
    assert sorted(found) == sorted(codes(spec((old, new))))


def test_two_rules_for_one_table_must_say_the_same(spec: Changed, codes: Codes) -> None:
    second = "into: lake.bronze.orders\n  - from: other\n    into: lake.bronze.orders\n    tombstones: skip"
    text = spec(("into: lake.bronze.orders", second), ("[shop.orders]", "[shop.orders, other]"))
    assert [(12, "P118")] == codes(text)


def test_two_rules_for_one_table_may_say_the_same(spec: Changed) -> None:
    second = "into: lake.bronze.orders\n  - from: other\n    into: lake.bronze.orders"
    text = spec(("into: lake.bronze.orders", second), ("[shop.orders]", "[shop.orders, other]"))
    assert 2 == len(loads(text, base=Path("/srv")).tables)


@pytest.mark.parametrize("source", ["shop.orders", "'shop\\..+'"])
def test_a_rule_that_is_never_tried_is_a_mistake(spec: Changed, codes: Codes, source: str) -> None:
    rules = f"- from: {source}\n    into: lake.bronze.all\n  - from: shop.orders"
    assert [(10, "P118")] == codes(spec(("- from: shop.orders", rules)))
    continued = rules.replace("lake.bronze.all", "lake.bronze.all\n    continue: true")
    assert 2 == len(loads(spec(("- from: shop.orders", continued)), base=Path("/srv")).tables)


def test_a_list_or_a_text_is_no_spec(codes: Codes) -> None:
    assert [(1, "P106")] == codes("- a")
    assert [(1, "P106")] == codes("just text")


def test_a_path_shows_unusual_names_in_brackets() -> None:
    assert "tables[0].properties['write.x']" == path_text(("tables", 0, "properties", "write.x"))


def test_long_and_unusual_texts_are_shown_on_one_line() -> None:
    assert 60 == len(shown("x" * 500))
    assert '"a\\nb"' == shown("a\nb")
    assert "'a\\b'" == shown("a\\b")


def test_a_caret_is_placed_under_wide_characters_and_in_long_lines() -> None:
    wide = Place("f", 1, 3, 2, "日本ab")
    assert "     |     ^^" == render([Problem((), "P101", "m", place=wide)]).splitlines()[2]
    long = Place("f", 1, 501, 3, "a" * 500 + "bad" + "c" * 500)
    _, line, carets = render([Problem((), "P101", "m", place=long)]).splitlines()
    assert "bad" == line[carets.index("^") : carets.rindex("^") + 1]
    assert len(line) < 140


def test_the_error_survives_a_journey_between_processes(spec: Changed) -> None:
    with pytest.raises(SpecError) as caught:
        loads(spec(("name: shop", "name: 5")), base=Path("/srv"))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(caught.value) == str(copy)
    assert isinstance(copy, InvalidError)
    assert ("P106", "fix these lines, then  penstock validate") == (copy.code, copy.hint)


@pytest.mark.parametrize(
    "setting",
    [
        "branch: new",
        "sort_by: [id desc]",
        "identifier_fields: [id]",
        "write: { sort: at_write }",
    ],
)
def test_what_a_delta_table_cannot_have_is_refused(
    spec: Changed, codes: Codes, setting: str
) -> None:
    delta = (
        ("tables:", "  delta: { type: delta, root: ./delta }\ntables:"),
        ("    into: lake.bronze.orders", f"    {setting}\n    into: delta.bronze.orders"),
    )

    assert [(10, "P155")] == codes(spec(*delta))


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("write: { distribution: range }", "write hash"),
        ("mode: upsert\n    keys: [id]\n    write: { distribution: hash }", "remove it"),
    ],
)
def test_an_exchange_that_is_not_here_is_refused_with_what_to_write_instead(
    spec: Changed, written: str, instead: str
) -> None:
    with pytest.raises(SpecError) as caught:
        loads(spec(("    into:", f"    {written}\n    into:")), base=Path("/srv"))

    (problem,) = [each for each in caught.value.problems if each.code == "P867"]
    assert instead in problem.hint


def test_rows_may_be_exchanged_in_both_formats(spec: Changed) -> None:
    hashed = (
        "    into: lake.bronze.orders",
        "    write: { distribution: hash }\n    into: delta.bronze.orders",
    )

    for change in (("    into: lake", "    write: { distribution: hash }\n    into: lake"), hashed):
        assert [] == reported(spec(DELTA, change))


@pytest.mark.parametrize("kind", ["delta", "keyed"])
def test_late_rows_are_refused_where_a_table_cannot_have_them(spec: Changed, kind: str) -> None:
    change = {
        "delta": "into: delta.bronze",
        "keyed": "mode: upsert\n    keys: [id]\n    into: lake.bronze",
    }
    late = f"    write: {{ distribution: late }}\n    {change[kind]}.orders"
    text = spec(DELTA, ("    into: lake.bronze.orders", late))
    with pytest.raises(SpecError) as caught:
        loads(text, base=Path("/srv"))

    (problem,) = [each for each in caught.value.problems if each.code == "P869"]
    assert f"{kind} table" in problem.message.lower()


def reported(text: str) -> list[tuple[int, str]]:
    """List the problems of a text by line and code; none where it is right."""
    try:
        loads(text, base=Path("/srv"))
    except SpecError as error:
        return [(each.place.line, each.code) for each in error.problems if each.place]
    return []


DELTA = ("tables:", "  delta: { type: delta, root: ./delta }\ntables:")


@pytest.mark.parametrize(
    ("setting", "place", "code", "said"),
    [
        ("partition_by: [id, day(at)]", (10, 24), "P434", "and not by day(at)"),
        ("partition_by: ['bucket(4, id)']", (10, 20), "P434", "and not by bucket(4, id)"),
        ("schema: { create: true, hints: { id: uuid } }", (10, 42), "P435", "cannot hold uuid"),
        (
            "schema: { create: true, hints: { a: 'map<string, struct<t: time>>' } }",
            (10, 41),
            "P435",
            "cannot hold time, the type of 'a'",
        ),
    ],
)
def test_what_a_delta_table_cannot_be_created_with_is_reported_by_the_spec(
    spec: Changed, setting: str, place: tuple[int, int], code: str, said: str
) -> None:
    create = "" if "create" in setting else "\n    schema: { create: true }"
    into = ("    into: lake.bronze.orders", f"    {setting}{create}\n    into: delta.bronze.orders")
    with pytest.raises(SpecError) as caught:
        loads(spec(DELTA, into), base=Path("/srv"))

    (problem,) = caught.value.problems
    assert problem.place is not None
    assert (code, place) == (problem.code, (problem.place.line, problem.place.column))
    assert said in f"{problem.message} {problem.hint}"


def test_a_pattern_of_a_rule_is_written_as_text(spec: Changed, reported: Reported) -> None:
    said = reported(spec(("- from: shop.orders", "- from: { pattern: 'shop.+' }")))

    assert "write the regular expression itself:  from: '…'" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sqlite:///./lake/catalog.db", "sqlite://lake/catalog.db"),
        ("quarantine: {", "pending: { store: 'sqlite://state/shop.db' }\nquarantine: {"),
    ],
)
def test_a_sqlite_address_with_two_slashes_names_the_third(
    spec: Changed, reported: Reported, old: str, new: str
) -> None:
    said = reported(spec((old, new)))

    assert "P125" in said
    assert "sqlite needs three slashes" in said


def test_tables_in_hdfs_are_refused_by_name(spec: Changed, reported: Reported) -> None:
    said = reported(spec(("warehouse: ./lake", "warehouse: 'hdfs://name:8020/lake'")))

    assert "P125" in said
    assert "tables in HDFS are not written" in said


@pytest.mark.parametrize(
    "setting",
    ["partition_by: [day(at)]", "schema: { hints: { id: uuid } }", "partition_by: [id]"],
)
def test_a_delta_table_that_is_not_to_be_created_may_have_them_in_its_spec(
    spec: Changed, setting: str
) -> None:
    into = ("    into: lake.bronze.orders", f"    {setting}\n    into: delta.bronze.orders")

    assert [] == reported(spec(DELTA, into))


@pytest.mark.parametrize(
    ("partition_by", "type_", "expected"),
    [
        ("day(at)", "string", [(9, "P434")]),
        ("hour(at)", "date", [(9, "P434")]),
        ("day(at)", "date", []),
        ("hour(at)", "timestamptz", []),
        ("bucket(4, at)", "string", []),
        ("day(at)", "", []),
    ],
)
def test_a_transform_of_time_of_what_is_declared_as_none_is_refused(
    spec: Changed, partition_by: str, type_: str, expected: list[tuple[int, str]]
) -> None:
    hints = f", hints: {{ at: {type_} }}" if type_ else ""
    schema = f"    schema: {{ create: true{hints} }}"
    into = f"    partition_by: ['{partition_by}']\n{schema}\n    into: lake.bronze.orders"

    assert expected == reported(spec(("    into: lake.bronze.orders", into)))


@pytest.mark.parametrize(
    ("hints", "records", "expected"),
    [
        ("{ a: long, a.b: string }", "", [(9, "P153")]),
        ("{ a.b: string, a: 'struct<b: long>' }", "", [(9, "P153")]),
        ("{ 'items': 'list<long>', 'items[].id': long }", "", [(9, "P153")]),
        ("{ 'prices{}': long, prices: 'map<string, long>' }", "", [(9, "P153")]),
        ("{ a: long, ab: string, a_b: long }", "", []),
        ("{ value: long, amount: long }", "{ format: text }", [(9, "P153")]),
        ("{ value: binary, _kafka_key: string }", "{ format: bytes }", []),
    ],
)
def test_a_hint_that_can_match_no_field_is_refused(
    spec: Changed, hints: str, records: str, expected: list[tuple[int, str]]
) -> None:
    given = f"    schema: {{ create: true, hints: {hints} }}"
    given += f"\n    records: {records}" if records else ""
    into = ("    into: lake.bronze.orders", f"{given}\n    into: lake.bronze.orders")

    assert expected == reported(spec(into))


def test_a_route_lands_on_main_only(spec: Changed, codes: Codes) -> None:
    routed = "    branch: new\n    route: { kind: '_kafka_key' }\n    into: 'lake.bronze.{kind}'"

    assert [(9, "P155")] == codes(spec(("    into: lake.bronze.orders", routed)))
