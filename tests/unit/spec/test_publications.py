from __future__ import annotations

from pathlib import Path

import pytest

from penstock.app.assembly.publishing import open_source, publication_of, watched_settings
from penstock.app.publish import rules_named
from penstock.cli.specs import Parts, parts_of
from penstock.core.errors import InvalidError
from penstock.spec.load import blocks_of, load, load_publications
from penstock.spec.problems import SpecError
from penstock.spec.publications import registry_of, schemas_of

RULE = "{ name: orders, from: { topic: raw.orders }, into: orders }"
BOTH = """
name: shop
kafka: { brokers: localhost:9092, topics: [orders], start: latest }
catalogs: { delta: { type: delta, root: ./delta } }
tables: [{ from: orders, into: delta.shop.orders }]
quarantine: { into: delta.ops.quarantine }
publish: [{ name: orders, from: { topic: raw.orders }, into: orders }]
"""


def spec(*rules: str, more: str = "") -> str:
    return (
        f"name: shop\nkafka: {{ brokers: localhost:9092 }}\npublish: [{', '.join(rules)}]\n{more}"
    )


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "penstock.yaml"
        path.write_text(text)
        return path

    return write


def problems(written, text: str) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as found:
        load_publications(written(text))
    return [(each.code, ".".join(map(str, each.path))) for each in found.value.problems]


def test_a_publication_has_its_defaults(written):
    found = load_publications(written(spec(RULE)))

    assert "penstock-orders-offsets" == found.offsets_topic(found.publish[0])
    assert ("earliest", "lz4") == (found.publish[0].from_.start, found.publish[0].compression)
    assert found.pending.store.endswith("/state/shop.db")


def test_a_spec_may_land_and_publish(written):
    path = written(BOTH)

    assert "orders" == load(path).tables[0].from_
    assert "raw.orders" == load_publications(path).publish[0].from_.topic
    assert {"tables", "publish"} <= blocks_of(path)


@pytest.mark.parametrize("topic", ["'raw.*'", "{ pattern: 'raw.*' }"])
def test_a_mirror_is_of_one_topic(written, topic):
    with pytest.raises(SpecError) as refused:
        load_publications(written(spec(f"{{ name: a, from: {{ topic: {topic} }}, into: b }}")))

    (problem,) = refused.value.problems
    assert "write the name of one topic" in problem.hint


def test_names_are_given_once(written):
    assert [("P820", "publish.1.name")] == problems(written, spec(RULE, RULE))


def test_an_offsets_topic_is_no_target(written):
    rule = "{ name: a, from: { topic: raw }, into: orders, offsets: orders }"
    assert [("P821", "publish.0")] == problems(written, spec(rule))


def test_loops_are_refused(written):
    there = "{ name: a, from: { topic: x }, into: y }"
    back = "{ name: b, from: { topic: y }, into: x }"
    beside = "{ name: c, from: { topic: x }, into: z }"
    found = problems(written, spec(there, back, beside))

    assert [("P822", "publish.0.into"), ("P822", "publish.1.into")] == found


def test_settings_of_two_kinds_of_source_do_not_go_together(written):
    path = written(spec("{ name: a, from: { topic: x, table: delta.shop.orders }, into: y }"))
    with pytest.raises(SpecError, match="belongs to another kind of  from") as refused:
        load_publications(path)

    assert {"P104"} == {each.code for each in refused.value.problems}


def test_a_loop_of_rejects_is_told_where_they_are_named(written):
    rows = "records: { format: json }, columns: { id: long }"
    rule = f"{{ name: a, from: {{ topic: x, {rows} }}, into: y, rejects: {{ into: x }} }}"

    assert [("P822", "publish.0.rejects.into")] == problems(written, spec(rule))


@pytest.mark.parametrize(
    ("more", "place", "hint"),
    [
        ("where: _kafka_offsett > 1", "where", "did you mean _kafka_offset?"),
        ("where: total > 1, transform: { columns: { total: ID + 1 } }", "where", "there are id, _"),
        ("where: total > 1, transform: { columns: { total: id } }", "where", "no computed column"),
        ("where: ID = paid", "where", "a text is written in quotes:  'paid'"),
        ("where: id > idd", "where", "'idd';  or id?"),
        ("where: id + 1", "where", "compare it"),
        ("transform: { columns: { total: idd + 1 } }", "transform.columns.total", "mean id?"),
        ("headers: { a: _kafka_topc }", "headers.a", "did you mean _kafka_topic?"),
        ("delete_when: closed, key: id", "delete_when", "_kafka_headers or _kafka_value"),
        ("key: ID", "key", "did you mean id?"),
        ("value: { columns: [id, totl] }", "value.columns", "there are id"),
        ("value: { format: bytes, column: valu }", "value.column", "there are id"),
        ("timestamp: at", "timestamp", "there are id"),
    ],
)
def test_a_column_that_records_do_not_have_is_told_where_it_is_named(written, more, place, hint):
    rows = "records: { format: json }, columns: { id: long }"
    rule = f"{{ name: a, from: {{ topic: x, {rows} }}, into: y, {more} }}"
    with pytest.raises(SpecError) as refused:
        load_publications(written(spec(rule)))
    (problem,) = refused.value.problems

    assert ("P838", f"publish.0.{place}") == (problem.code, ".".join(map(str, problem.path)))
    assert hint in problem.hint
    assert "_kafka_deleted" not in problem.hint


def test_columns_of_records_and_computed_ones_are_named(written):
    rows = "records: { format: json }, columns: { id: long, at: timestamptz }"
    more = (
        "where: _KAFKA_OFFSET > 1 and ID > 0, transform: { columns: { total: id + 1 } },"
        " delete_when: total = 1, headers: { a: total, b: _kafka_value }, timestamp: at,"
        " value: { columns: [total, _kafka_partition] }, key: total"
    )
    rule = f"{{ name: a, from: {{ topic: x, {rows} }}, into: y, {more} }}"

    assert load_publications(written(spec(rule)))


@pytest.mark.parametrize(("brokers", "is_loop"), [("localhost:9092", True), ("eu:9092", False)])
def test_a_cluster_that_is_named_twice_is_one(written, brokers, is_loop):
    source = f"{{ topic: x, kafka: {{ brokers: '{brokers}' }} }}"
    text = spec(f"{{ name: a, from: {source}, into: x }}")
    if is_loop:
        assert [("P822", "publish.0.into")] == problems(written, text)
    else:
        assert "x" == load_publications(written(text)).publish[0].into


def test_a_spec_that_lands_alone_publishes_nothing(written):
    assert [("P823", "")] == problems(written, BOTH[: BOTH.index("publish")])


def test_a_spec_that_publishes_alone_lands_nothing(written):
    with pytest.raises(SpecError) as found:
        load(written(spec(RULE)))

    assert ["P824"] == [each.code for each in found.value.problems]


@pytest.mark.parametrize("name", ["order", "x"])
def test_a_name_that_is_no_publication(written, name):
    with pytest.raises(InvalidError) as refused:
        rules_named(load_publications(written(spec(RULE))), [name])

    assert ("P825", "orders" in refused.value.hint) == (refused.value.code, True)


def test_mistakes_are_named_with_their_places(written):
    rule = "{ name: 'A b', from: { topc: x }, into: y, transaction: { interval: soon } }"
    found = problems(written, spec(rule, more="publishing: { grp: x }"))

    assert {
        "publish.0.name",
        "publish.0.from.topc",
        "publish.0.from.topic",
        "publish.0.transaction.interval",
        "publishing.grp",
    } == {path for _, path in found}


@pytest.mark.parametrize(
    "setting",
    [
        "key: id",
        "value: { format: json }",
        "where: a > 1",
        "delete_when: a",
        "timestamp: at",
        "rejects: { into: c }",
        "transform: { columns: { b: a + 1 } }",
        "headers: keep",
    ],
)
def test_a_mirror_has_no_settings_of_rows(written, setting):
    rule = f"{{ name: a, from: {{ topic: raw }}, into: b, {setting} }}"
    name = setting.partition(":")[0]

    assert ("P837", f"publish.0.{name}") in problems(written, spec(rule))


FILTERED = "{{ name: a, into: b, from: {{ topic: raw, records: {{ format: json }}, {} }}{} }}"
COLUMNS = "columns: { id: long, v: string }"


def test_records_of_a_topic_are_read_as_rows(written):
    rule = FILTERED.format(COLUMNS, ", where: v > 'a', headers: { h: upper(v) }")
    (found,) = load_publications(written(spec(rule))).publish

    assert (False, True, True) == (found.is_mirror, found.reads_records, found.keeps_key)
    assert ("v > 'a'", "upper(v)") == found.sql


@pytest.mark.parametrize(
    ("code", "place", "read", "more"),
    [
        ("P832", "from.records", "start: latest", ""),
        ("P832", "from.columns._kafka_key", "columns: { id: long, _kafka_key: binary }", ""),
        ("P832", "from.records.envelope", "RECORDS: { envelope: debezium }, " + COLUMNS, ""),
        ("P832", "from.records.key_format", "RECORDS: { key_format: json }, " + COLUMNS, ""),
        ("P832", "from.columns", "RECORDS: { format: text }, " + COLUMNS, ""),
        ("P151", "from.records.registry", "RECORDS: { format: avro }, " + COLUMNS, ""),
        ("P833", "from.tombstones", "tombstones: delete, " + COLUMNS, ", key: [id]"),
        ("P835", "transform.columns.id", COLUMNS, ", transform: { columns: { id: v } }"),
        (
            "P835",
            "transform.columns.value",
            "RECORDS: { format: text }",
            ", transform: { columns: { value: upper(value) } }",
        ),
        ("P842", "value", COLUMNS, ", value: { format: bytes, column: v, columns: [v] }"),
        ("P143", "headers.h", COLUMNS, ", headers: { h: count(*) }"),
    ],
)
def test_what_contradicts_how_records_are_read_is_refused(written, code, place, read, more):
    rule = FILTERED.format(read, more)
    if "RECORDS" in rule:
        rule = rule.replace("records: { format: json }, ", "").replace("RECORDS", "records")

    assert (code, f"publish.0.{place}") in problems(written, spec(rule))


def test_columns_and_headers_that_are_kept_need_records(written):
    mirror = "{ name: a, from: { topic: raw, columns: { id: long }, tombstones: skip }, into: b }"
    found = problems(written, spec(mirror))
    assert {("P832", f"publish.0.from.{name}") for name in ("columns", "tombstones")} == {*found}
    files = "{ name: a, from: { files: ./x, format: lines }, into: b, headers: keep }"
    assert [("P835", "publish.0.headers")] == problems(written, spec(files))


def test_a_row_that_deletes_needs_a_key(written):
    rule = "{ name: a, from: { topic: raw }, into: b, delete_when: closed }"
    assert ("P836", "publish.0.delete_when") in problems(written, spec(rule))


@pytest.mark.parametrize(
    ("rate", "rows", "size"),
    [("20000/s", 20_000, None), ("50MB/s", None, 50_000_000), (" 1 / s ", 1, None)],
)
def test_a_rate_is_of_rows_or_bytes(written, rate, rows, size):
    (rule,) = load_publications(written(spec(RULE[:-1] + f", rate: '{rate}' }}"))).publish

    assert (rows, size) == (rule.rate.rows, rule.rate.bytes)
    assert rate.replace(" ", "") == str(rule.rate)


@pytest.mark.parametrize("rate", ["fast", "50MB", "50MB/m", "0/s", "20000", "x/s", "9" * 50 + "/s"])
def test_a_rate_that_is_none(written, rate):
    assert [("P109", "publish.0.rate")] == problems(
        written, spec(RULE[:-1] + f", rate: '{rate}' }}")
    )


def test_rejects_are_not_among_messages(written):
    rule = "{{ name: a, from: {{ table: c.d.e }}, into: b, rejects: {{ into: {} }} }}"
    more = "catalogs: { c: { type: delta, root: d } }"
    found = problems(written, spec(rule.format("b"), more=more))

    assert [("P861", "publish.0.rejects.into")] == found
    offsets = spec(rule.format("penstock-a-offsets"), more=more)
    assert [("P821", "publish.0")] == problems(written, offsets)


@pytest.mark.parametrize("value", ["{ format: bytes }", "{ column: a }"])
def test_bytes_are_those_of_a_column(written, value):
    rule = f"{{ name: a, from: {{ topic: raw }}, into: b, value: {value} }}"
    assert ("P842", "publish.0.value") in problems(written, spec(rule))


def test_a_condition_is_one_expression_of_sql(written):
    rule = "{ name: a, from: { topic: raw }, into: b, where: 'select 1' }"
    assert [("P143", "publish.0.where")] == problems(written, spec(rule))


def test_a_mirror_may_create_its_topic(written):
    rule = "{ name: a, from: { topic: raw }, into: b, topic: { create: true, partitions: 3 } }"
    assert 3 == load_publications(written(spec(rule))).publish[0].topic.partitions


LAKE = "catalogs: { lake: { type: delta, root: ./delta } }"


def of_table(more: str = "") -> str:
    return f"{{ name: a, from: {{ table: lake.gold.segments{more} }}, into: segments }}"


def test_a_table_is_published_from_a_catalog_of_the_spec(written):
    found = load_publications(written(spec(of_table(", changes: whole"), more=LAKE)))

    assert "whole" == found.publish[0].from_.changes
    assert found.catalogs["lake"].root.startswith("/")
    assert [("P117", "publish.0.from.table")] == problems(written, spec(of_table()))


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        (", topic: raw", "P104", "publish.0.from.topic"),
        (", changes: ignore", "P107", "publish.0.from.changes"),
        (", start: 5", "P107", "publish.0.from.start"),
    ],
)
def test_what_a_table_has_not_is_refused_by_name(written, more, code, path):
    assert [(code, path)] == problems(written, spec(of_table(more), more=LAKE))


@pytest.mark.parametrize(
    ("source", "into", "refused"),
    [
        ("orders", "delta.shop.orders", True),
        ("{ pattern: '(?P<name>.+)' }", "'delta.shop.{name}'", True),
        ("orders", "delta.shop.others", False),
    ],
)
def test_a_table_that_is_landed_from_its_own_topic_is_a_loop(written, source, into, refused):
    rule = "{ name: a, from: { table: delta.shop.orders }, into: orders }"
    pattern = source.replace("{ pattern: ", "").replace(" }", "")
    text = BOTH.replace("from: orders, into: delta.shop.orders", f"from: {pattern}, into: {into}")
    text = text[: text.index("publish:")] + f"publish: [{rule}]\n"
    if refused:
        assert [("P822", "publish.0.into")] == problems(written, text)
    else:
        assert load_publications(written(text)).publish


AVRO = (
    "{ name: t, from: { table: lake.a.b }, into: c, key: { columns: [id], format: avro },"
    " value: { format: avro } }"
)
LAKE = "catalogs: { lake: { type: delta, root: ./lake } }\n"


def test_a_branch_of_a_table_is_a_source_where_tables_have_branches(written):
    rule = "{ name: t, from: { table: lake.a.b, ref: audited }, into: c }"
    iceberg = "catalogs: { lake: { type: rest, uri: 'http://catalog' } }\n"
    (found,) = load_publications(written(spec(rule, more=iceberg))).publish

    assert "audited" == found.from_.ref
    assert [("P155", "publish.0.from.ref")] == problems(written, spec(rule, more=LAKE))


def test_keys_and_values_have_schemas_in_a_registry(written):
    more = LAKE + "publishing: { registry: 'http://registry:8081' }"
    found = load_publications(written(spec(AVRO, more=more)))
    (rule,) = found.publish
    own = AVRO.replace(
        "format: avro } }",
        "registry: { url: 'http://two', ca: ./ca.pem }, format:"
        " avro, subject: '{topic}.v', register: never, schema: ./b.avsc } }",
    )
    (other,) = load_publications(written(spec(own, more=LAKE))).publish
    files = other.value.schema_file, other.value.registry.ca

    assert ("id",) == rule.key_columns
    assert {"key", "value"} == schemas_of(rule).keys()
    assert ["c-key", "c-value"] == [e.subject_of("c", p) for p, e in schemas_of(rule).items()]
    assert {"http://registry:8081"} == {registry_of(rule, p, found).url for p in ("key", "value")}
    assert ["http://two"] * 2 == [registry_of(other, p, found).url for p in ("key", "value")]
    assert "c.v" == other.value.subject_of("c", "value")
    assert all(each.startswith("/") for each in files)


@pytest.mark.parametrize(
    ("rule", "more", "expected"),
    [
        (AVRO, "", [("P873", "publish.0.key.format"), ("P873", "publish.0.value.format")]),
        (
            AVRO,
            "publishing: { registry: 'mock:///schemas' }",
            [("P873", "publish.0.key.format"), ("P873", "publish.0.value.format")],
        ),
        (
            "{ name: t, from: { table: lake.a.b }, into: c, value: { subject: x, schema: y } }",
            "",
            [("P873", "publish.0.value.schema"), ("P873", "publish.0.value.subject")],
        ),
        (AVRO, "publishing: { registry: nowhere }", [("P150", "publishing.registry.url")]),
        (
            AVRO,
            "publishing: { registry: { url: 'http://r', token: '${env:T}', username: u } }",
            [("P120", "publishing.registry.token"), ("P120", "publishing.registry.username")],
        ),
        (AVRO.replace("avro } }", "json-schema, schema: s.json } }"), "publishing: { registry: 'http://r' }",
         [("P873", "publish.0.value.schema")]),
        (AVRO.replace("[id]", "[]"), "publishing: { registry: 'http://r' }",
         [("P108", "publish.0.key.columns")]),
    ],
)  # fmt: skip
def test_schemas_that_are_wrong(written, rule, more, expected):
    assert expected == sorted(problems(written, spec(rule, more=LAKE + more)))


def test_tasks_and_clients_of_one_publication_win(written):
    shared = "publishing: { tasks: 3, exactly_once: requested }"
    alone = (
        "{ name: other, from: { topic: t }, into: o, tasks: 1, producer: own, exactly_once: off }"
    )
    found = load_publications(written(spec(RULE, more=shared)))

    assert 3 == found.tasks(found.publish[0])
    assert [("P881", "publish.1.exactly_once")] == problems(written, spec(RULE, alone, more=shared))


@pytest.mark.parametrize(
    ("rule", "more", "code"),
    [
        (RULE, "publishing: { tasks: 3, producer: own }", "P879"),
        (
            "{ name: o, from: { table: lake.a.b }, into: o, tasks: 2 }",
            "catalogs: { lake: { type: rest, uri: http://c } }",
            "P880",
        ),
        (
            "{ name: o, from: { dataframe: runs }, into: o, tasks: 2 }",
            "",
            "P880",
        ),
        (RULE, "publishing: { exactly_once: off, producer: own }", "P881"),
        ("{ name: n, from: { news: [commits], of: a.yaml }, into: n, tasks: 2 }", "", "P880"),
    ],
)
def test_a_client_that_cannot_do_what_is_asked_of_it(written, rule, more, code):
    assert [code] == [found for found, _ in problems(written, spec(rule, more=more))]


def test_news_are_of_the_spec_that_they_are_in(written):
    news = BOTH.replace("{ topic: raw.orders }", "{ news: [commits, through] }")
    path = written(news)
    own = publication_of(found := load_publications(path), found.publish[0])

    assert {"spec": str(path), "kinds": ["commits", "through"]}.items() <= dict(
        own.source["options"]
    ).items()
    assert (("ce_subject",), False) == (own.messages.key, own.messages.key_is_object)
    assert "application/json" == own.source["options"]["content_type"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", [("P883", "publish.0.from.news")]),
        ("of: a.yaml }, key: a, delete_when: b, value: { format: bytes, column: c", [
            ("P882", "publish.0.delete_when"),
            ("P882", "publish.0.key"),
            ("P882", "publish.0.value.format"),
        ]),
    ],
)  # fmt: skip
def test_settings_that_news_do_not_have(written, more, expected):
    rule = f"{{ name: n, into: n, from: {{ news: [commits], {more} }} }}"
    assert expected == sorted(problems(written, spec(rule)))


DEAD = BOTH.replace("{ topic: raw.orders }, into: orders", "{ quarantine: all }, into: dead")
KEEP = DEAD.replace("quarantine }", "quarantine, headers: keep }")


def test_dead_letters_are_rows_of_the_quarantine_of_their_spec(written):
    found = load_publications(written(KEEP))
    own = publication_of(found, found.publish[0])

    assert ("delta.ops.quarantine", True) == (own.source_name, own.reads_quarantine)
    assert (("key",), "value", "headers") == (
        own.messages.key,
        own.messages.bytes_of,
        own.messages.headers_of,
    )
    assert "regexp_extract(pipeline, '^[^+]*') = 'shop' and stage <> 'close'" == own.messages.where
    assert ("skip", "earliest") == (own.changes, own.start)


def test_dead_letters_of_some_tables_and_further_conditions(written):
    some = KEEP.replace("all }", "[delta.shop.orders] }, where: code = 'P302' or true")
    found = load_publications(written(some))
    where = publication_of(found, found.publish[0]).messages.where

    assert where.endswith("\"table\" in ('delta.shop.orders') and (code = 'P302' or true)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEAD, [("P834", "publish.0.from.quarantine")]),
        (KEEP.replace("all", "[delta.shop.order]"), [("P888", "publish.0.from.quarantine")]),
        (KEEP.replace("into: dead", "into: orders"), [("P822", "publish.0.into")]),
        (
            KEEP.replace(
                "into: dead",
                "into: dead, key: a, delete_when: b, headers: { Penstock.id: c },"
                " value: { format: json }",
            ),
            [
                ("P887", "publish.0.delete_when"),
                ("P887", "publish.0.headers.Penstock.id"),
                ("P887", "publish.0.key"),
                ("P887", "publish.0.value"),
            ],
        ),
        (
            spec("{ name: d, from: { quarantine: all }, into: d }", more="quarantine: { into: a.b.c, headers: leave }"),
            [("P888", "publish.0.from.quarantine"), ("P888", "quarantine")],
        ),
    ],
)  # fmt: skip
def test_settings_that_dead_letters_do_not_have(written, text, expected):
    assert expected == sorted(problems(written, text))


OWN = (
    "{ name: weather, into: weather, key: id, from:"
    " { source: feeds:weather, options: { station: ROM, token: '${env:TOKEN}', list: [1, true] } } }"
)


def files(settings: str) -> str:
    return f"{{ name: files, into: files, from: {{ files: ./drop/, {settings} }} }}"


def sql(database: str, more: str = "start: earliest") -> str:
    given = f"query: 'SELECT  a::int FROM t', database: '{database}', cursor: [a, b], {more}"
    return f"{{ name: sql, into: sql, from: {{ {given} }} }}"


def test_a_query_is_read_from_a_database_beside_the_spec(written, tmp_path):
    found = load_publications(written(spec(sql("sqlite:///./shop.db", "settle: 2s"))))
    own = publication_of(found, found.publish[0])

    assert own.source_name == "SELECT a::int FROM t"
    assert own.source["own"] == "penstock.sources.sql:QuerySource"
    assert own.source["options"] == {
        "query": "SELECT  a::int FROM t",
        "database": f"sqlite:///{tmp_path}/shop.db",
        "password": None,
        "cursor": ["a", "b"],
        "columns": {},
        "settle_seconds": 2.0,
        "append_only": False,
        "batch_rows": 1_000_000,
    }


def test_a_password_stays_a_reference(written):
    rule = sql("postgresql://u@host/db", "password: '${file:/run/secrets/db}'")
    found = load_publications(written(spec(rule)))
    options = publication_of(found, found.publish[0]).source["options"]

    assert (options["database"], options["password"]) == (
        "postgresql://u@host/db",
        "${file:/run/secrets/db}",
    )


def test_a_source_of_ones_own_keeps_its_references_for_whoever_opens_it(written):
    found = load_publications(written(spec(OWN)))
    own = publication_of(found, found.publish[0])

    assert own.source == {
        "own": "feeds:weather",
        "name": "feeds:weather",
        "publication": "weather",
        "options": {"station": "ROM", "token": "${env:TOKEN}", "list": [1, True]},
    }
    assert own.reads_own
    assert own.messages is not None


def test_files_are_found_beside_the_spec_and_read_by_a_class_of_ours(written, tmp_path):
    rule = files("format: csv, columns: { id: long }, settle: 5s")
    found = load_publications(written(spec(rule)))
    own = publication_of(found, found.publish[0])

    assert own.source_name == f"{tmp_path}/drop/"
    assert own.source["own"] == "penstock.sources.files:FilesSource"
    assert own.source["options"] == {
        "files": f"{tmp_path}/drop/",
        "format": "csv",
        "columns": {"id": "long"},
        "delimiter": ",",
        "grows": False,
        "settle_seconds": 5.0,
        "order": "modified",
        "storage_options": {},
    }


def test_files_in_s3_stay_where_they_are(written):
    rule = "{ name: files, into: files, from: { files: 's3://bucket/a*', format: lines } }"
    found = load_publications(written(spec(rule)))

    assert publication_of(found, found.publish[0]).source_name == "s3://bucket/a*"


@pytest.mark.parametrize(
    "rule",
    [
        OWN.replace("'${env:TOKEN}'", "written-out"),
        files("format: lines, storage_options: { secret_access_key: written-out }"),
        sql("postgresql://u:written-out@host/db"),
        sql("postgresql://host/db", "password: written-out"),
    ],
)
def test_a_secret_that_is_written_out_is_refused(written, rule):
    found = load_publications(written(spec(rule)))
    with pytest.raises(InvalidError) as raised:
        publication_of(found, found.publish[0])

    assert raised.value.code == "P441"
    assert "written-out" not in raised.value.message


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ("format: json", [("P859", "publish.0.from.columns")]),
        ("format: parquet, columns: { id: long }", [("P859", "publish.0.from.columns")]),
        ("format: lines, delimiter: ';'", [("P859", "publish.0.from.delimiter")]),
        ("format: parquet, grows: true", [("P859", "publish.0.from.grows")]),
        ("format: json, columns: { id: nonsense }", [("P116", "publish.0.from.columns.id")]),
        ("format: xml", [("P107", "publish.0.from.format")]),
    ],
)
def test_files_whose_settings_do_not_go_together_are_told(written, settings, found):
    assert found == problems(written, spec(files(settings)))


@pytest.mark.parametrize(
    "name", ["transactional.id", "transactional_id", "acks", "enable.idempotence", "retries"]
)
def test_what_would_break_a_transaction_is_refused_by_name(written, name):
    """Kafka Connect overwrites these with a warning."""
    rule = RULE.removesuffix("}") + f', "{name}": 1 }}'

    ((code, place),) = problems(written, spec(rule))
    assert (True, f"publish.0.{name}") == (code.startswith("P1"), place)


def test_transactions_are_looked_for_in_all_topics_that_a_spec_names(written):
    mirror = "{ name: orders, from: { topic: raw }, into: orders }"
    rows = f"{sql('sqlite:///./shop.db')[:-1]}, rejects: {{ into: sql.rejects }} }}"
    found = load_publications(written(spec(mirror, rows)))

    assert watched_settings(found)["topics"] == [
        *("raw", "orders", "penstock-orders-offsets"),
        *("sql", "sql.rejects", "penstock-sql-offsets"),
    ]


def test_a_misspelt_publish_is_told_alone(written):
    path = written(spec(RULE).replace("publish:", "publihs:"))
    with pytest.raises(SpecError, match="did you mean publish") as found:
        load_publications(path)

    assert [("P823", ("publihs",))] == [(each.code, each.path) for each in found.value.problems]
    assert Parts(lands=False, publishes=True) == parts_of(path)


def test_the_columns_of_files_come_in_the_order_of_the_spec(written, tmp_path):
    columns = "{ z: long, a: string, m: double }"
    rule = f"{{ name: f, from: {{ files: {tmp_path}/*.csv, format: csv, columns: {columns} }}, into: o }}"
    found = load_publications(written(spec(rule)))
    source = open_source(publication_of(found, found.publish[0]))

    assert ["z", "a", "m"] == source.columns().names
