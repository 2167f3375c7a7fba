from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spec.written import to_yaml

from penstock.spec.load import load, loads, read
from penstock.spec.model import Pipeline
from penstock.spec.paths import located
from penstock.spec.problems import SpecError
from penstock.spec.secrets import ProcessSecrets

Changed = Callable[..., str]
BASE = Path("/srv/shop")
DESIGNED = r"""
# yaml-language-server: $schema=./penstock.schema.json
name: shop
kafka:
  brokers: "${env:PENSTOCK_NOWHERE:-localhost:9092}"
  topics: [shop.orders, { pattern: 'shop\.(?P<name>.+)' }]
  start: 2026-11-01T00:00:00Z
  security: { protocol: sasl_ssl, mechanism: scram-sha-512, username: shop, password: "${file:/run/secrets/kafka}" }
records: { format: json }
catalogs:
  lake:  { type: sql, uri: "sqlite:///./lake/catalog.db", warehouse: ./lake, echo: no, pool_size: 0o7, x: 1.10 }
  delta: { type: delta, root: ./delta }
tables:
  - from: 'shop\.(?P<name>.+)'
    into: "lake.bronze.{name}"
    mode: append
    partition_by: ["day( created_at )", "bucket(16,id)", identity(x)]
    schema: { create: true, columns: drop_value, types: quarantine, hints: { created_at: timestamptz, n: "decimal( 9, 2 )" } }
    source_columns: [topic, partition, offset, timestamp]
    properties: { write.parquet.compression-codec: zstd, a: 12, b: true }
commit: { every: 250ms, or_bytes: 256MB, or_records: 10000000 }
quarantine: { into: lake.ops.quarantine, stop_above: 1% }
pending: { store: "sqlite:///./state/shop.db", max_epochs: 4 }
spark: { master: "local[*]", conf: { spark.ui.enabled: false } }
limits: { record_bytes: 8MB, columns: 2000, new_columns_per_hour: 100, tables: 1000, open_writers: 64, depth: 64 }
"""


def test_the_designed_spec_is_read_as_designed() -> None:
    pipeline = loads(DESIGNED, base=BASE)
    table = pipeline.tables[0]
    assert "localhost:9092" == pipeline.kafka.brokers
    assert (("shop.orders",), (r"shop\.(?P<name>.+)",)) == (
        pipeline.kafka.names,
        pipeline.kafka.patterns,
    )
    assert datetime(2026, 11, 1, tzinfo=UTC) == pipeline.kafka.start
    assert "${file:/run/secrets/kafka}" == pipeline.kafka.security.password
    assert {"echo": "no", "pool_size": "0o7", "x": "1.10"} == pipeline.catalogs["lake"].model_extra
    assert ("day(created_at)", "bucket(16, id)", "x") == table.partition_by
    assert {"created_at": "timestamptz", "n": "decimal(9,2)"} == table.schema_.hints
    assert {"write.parquet.compression-codec": "zstd", "a": "12", "b": "true"} == table.properties
    assert (0.25, 256_000_000, 120.0) == (
        pipeline.commit.every_seconds,
        pipeline.commit.or_bytes,
        pipeline.commit.timeout_seconds,
    )
    assert 0.01 == pipeline.quarantine.stop_above_share
    assert {"spark.ui.enabled": "false"} == pipeline.spark.conf
    assert 8_000_000 == pipeline.limits.record_bytes


def test_relative_paths_start_at_the_spec_file(spec: Changed, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "penstock.yaml"
    path.write_text(spec(("./lake }", "../lake }\n  d: { type: delta, root: delta }")))
    pipeline = load(path)
    lake, delta = pipeline.catalogs["lake"].settings("lake"), pipeline.catalogs["d"].settings("d")
    assert f"sqlite:///{tmp_path}/sub/lake/catalog.db" == lake["uri"]
    assert f"file://{tmp_path}/lake" == lake["warehouse"]
    assert f"{tmp_path}/sub/delta" == delta["root"]
    assert f"sqlite:///{tmp_path}/sub/state/shop.db" == pipeline.pending.store


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("sqlite:////abs/c.db", "sqlite:////abs/c.db"),
        ("sqlite:///c.db?timeout=5", "sqlite:////srv/shop/c.db?timeout=5"),
        ("sqlite+pysqlite:///c.db", "sqlite+pysqlite:////srv/shop/c.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite:///${env:DIR}/c.db", "sqlite:////data/c.db"),
        ("postgresql://u:${env:PW}@h/db", "postgresql://u:${env:PW}@h/db"),
        ("${env:URI}", "sqlite:////srv/shop/x.db"),
        ("${file:/run/uri}", "${file:/run/uri}"),
        ("${env:NOWHERE}", "${env:NOWHERE}"),
    ],
)
def test_addresses_of_catalogs_become_absolute_where_they_are_files(
    spec: Changed, uri: str, found: str
) -> None:
    text = spec(("sqlite:///./lake/catalog.db", uri))
    secrets = ProcessSecrets({"DIR": "/data", "URI": "sqlite:///x.db", "PW": "geheim"})
    pipeline = read(text, base=BASE, name="p.yaml", secrets=secrets).pipeline
    assert found == pipeline.catalogs["lake"].settings("lake")["uri"]


@pytest.mark.parametrize(
    ("catalog", "found"),
    [
        ("{ type: rest, uri: 'http://c:8181', token: '${file:/run/t}' }", None),
        ("{ type: rest, uri: 'http://c:8181', warehouse: prod }", "prod"),
        ("{ type: hive, uri: 'thrift://h:9083', warehouse: ./lake }", "file:///srv/shop/lake"),
        ("{ type: hive, uri: 'thrift://h:9083', warehouse: 's3://b/w' }", "s3://b/w"),
        ("{ type: glue, glue.region: eu-west-1 }", None),
        ("{ type: glue, warehouse: 's3://b/w' }", "s3://b/w"),
    ],
)
def test_catalogs_that_have_a_server_of_their_own_keep_their_settings(
    spec: Changed, catalog: str, found: str | None
) -> None:
    text = spec(("tables:", f"  other: {catalog}\ntables:"))
    other = loads(text, base=BASE).catalogs["other"].settings("other")

    assert found == other["warehouse"]
    assert "geheim" not in repr(other)


@pytest.mark.parametrize(("more", "found"), [("", "30000"), (", timeout: 1m", "60000")])
@pytest.mark.parametrize("kind", ["type: rest, uri: 'http://c'", "type: hive, uri: 'thrift://h'"])
def test_a_catalog_that_is_asked_over_the_network_has_a_timeout(
    spec: Changed, kind: str, more: str, found: str
) -> None:
    text = spec(("tables:", f"  other: {{ {kind}{more} }}\ntables:"))
    other = loads(text, base=BASE).catalogs["other"].settings("other")

    assert found == other["penstock.timeout_ms"]
    assert not [key for key in other if key.startswith("timeout")]


def test_a_store_on_postgresql_keeps_its_references_and_warns_of_a_password(
    spec: Changed,
) -> None:
    address = "postgresql://shop:${file:/run/pw}@db/penstock?sslmode=require"
    text = spec(("quarantine:", f"pending: {{ store: '{address}' }}\nquarantine:"))
    plain = text.replace("${file:/run/pw}", "geheim")
    warnings = read(plain, base=BASE, name="p.yaml").warnings

    assert address == loads(text, base=BASE).pending.store
    assert ["P124"] == [each.code for each in warnings]
    assert "geheim" not in str(warnings)
    assert "geheim" not in repr(loads(plain, base=BASE))


def test_places_with_a_scheme_stay(spec: Changed) -> None:
    pipeline = loads(spec(("warehouse: ./lake", "warehouse: 's3://bucket/lake'")), base=BASE)
    assert "s3://bucket/lake" == pipeline.catalogs["lake"].settings("lake")["warehouse"]


@pytest.mark.parametrize(
    "spark",
    [
        "{ master: 'local[2]' }",
        "{ master: existing }",
        "{ master: yarn, shared_directories: true }",
        "{ master: 'spark://m:7077' }\ntarget_file_bytes: 1GB",
    ],
)
def test_directories_are_for_workers_that_can_write_there(spec: Changed, spark: str) -> None:
    text = spec(("quarantine:", f"spark: {spark}\nquarantine:"))
    if "m:7077" in spark:
        text = text.replace("warehouse: ./lake", "warehouse: s3://bucket/lake")
    assert "lake" in loads(text, base=BASE).catalogs


def test_certificates_start_at_the_spec_file_and_references_stay(spec: Changed) -> None:
    security = "[shop.orders]\n  security: { protocol: ssl, ca: ./ca.pem, certificate: /c.pem, key: '${env:KEY}' }"
    found = loads(spec(("[shop.orders]", security)), base=BASE).kafka.security
    assert ("/srv/shop/./ca.pem", "/c.pem", "${env:KEY}") == (
        found.ca,
        found.certificate,
        found.key,
    )


def test_files_of_tokens_and_kerberos_start_at_the_spec_file(spec: Changed) -> None:
    for mechanism, name in (("oauthbearer", "token_ca"), ("gssapi", "kerberos_keytab")):
        client = "token_endpoint: https://x/t, client_id: shop, client_secret: '${env:S}', "
        more = client if mechanism == "oauthbearer" else ""
        login = f"protocol: sasl_ssl, mechanism: {mechanism}, {more}{name}: own/file"
        security = f"[shop.orders]\n  security: {{ {login} }}"
        found = loads(spec(("[shop.orders]", security)), base=BASE).kafka.security
        assert "/srv/shop/own/file" == getattr(found, name)


def test_locating_twice_changes_nothing(pipeline: Callable[..., Pipeline]) -> None:
    once = located(pipeline(), BASE)
    assert once == located(once, Path("/elsewhere"))


def test_variables_are_resolved_in_text_and_not_where_secrets_are(spec: Changed) -> None:
    text = spec(
        ("localhost:9092", "'${env:HOST}:9092'"),
        ("lake.bronze.orders", "'lake.${env:STAGE:-bronze}.orders'"),
        ("./lake }", "./lake, s3.secret-access-key: '${env:SECRET}' }"),
    )
    found = read(text, base=BASE, name="p", secrets=ProcessSecrets({"HOST": "kafka"})).pipeline
    assert "kafka:9092" == found.kafka.brokers
    assert "lake.bronze.orders" == found.tables[0].into
    assert "${env:SECRET}" == found.catalogs["lake"].settings("lake")["s3.secret-access-key"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("localhost:9092", "'${env:NOWHERE}'", (3, "P123")),
        ("localhost:9092", "'${file:/x}'", (3, "P122")),
        ("localhost:9092", "'${vault:x}'", (3, "P122")),
        ("warehouse: ./lake", "warehouse: '${env:NOWHERE}'", (6, "P123")),
        ("warehouse: ./lake", "warehouse: '${file:/x}'", (6, "P122")),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_problem(
    spec: Changed, codes: Callable[..., object], old: str, new: str, found: tuple[int, str]
) -> None:
    assert [found] == codes(spec((old, new)))


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(tmp_path / name)
    assert "P100" == caught.value.code
    assert str(tmp_path) in str(caught.value)


def test_cases_of_a_test_are_no_spec_to_suggest(tmp_path: Path) -> None:
    for name in ("shop.yaml", "shop.test.yaml"):
        (tmp_path / name).write_text("")

    for missing, suggested in (("penstock.yaml", False), ("shpo.yaml", True)):
        with pytest.raises(SpecError) as caught:
            load(tmp_path / missing)
        assert suggested == ("shop.yaml?" in str(caught.value))
        assert "shop.test.yaml" not in str(caught.value)


def test_a_file_that_is_too_large_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_bytes("ü".encode() * 2_000_000)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert "P102" == caught.value.code


def test_a_byte_order_mark_is_no_matter(spec: Changed) -> None:
    assert "shop" == loads(b"\xef\xbb\xbf" + spec().encode(), base=BASE).name


def loaded(text: str | bytes) -> Pipeline | None:
    """Load a text that may be anything: nothing but SpecError may come out."""
    started = time.process_time()
    found, reported = None, "no error"
    try:
        found = loads(text, base=BASE)
    except SpecError as error:
        reported = str(error)
    assert reported
    assert time.process_time() - started < 10
    return found


@settings(max_examples=150)
@given(st.text(max_size=200))
def test_any_text_is_a_pipeline_or_a_spec_error(text: str) -> None:
    loaded(text)


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_pipeline_or_a_spec_error(data: bytes) -> None:
    loaded(data)


@settings(max_examples=250)
@given(st.text(alphabet="abn:-[]{}?&*!|>'\"%@`#,\\${}_ \n\t0.~", max_size=80))
def test_any_yaml_like_text_is_a_pipeline_or_a_spec_error(text: str) -> None:
    loaded(text)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_spec_is_a_pipeline_or_a_spec_error(data: st.DataObject) -> None:
    text = DESIGNED
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 12)))
        word = data.draw(
            st.sampled_from(
                [
                    "",
                    " ",
                    "\n",
                    ":",
                    "[",
                    "}",
                    "'",
                    "&a ",
                    "*a",
                    "5",
                    "~",
                    "${",
                    "x: y\n",
                    "(",
                    "\x00",
                ]
            )
        )
        text = text[:start] + word + text[stop:]
    loaded(text)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["5m", "8MB", "a.b.c", "(", "${env:X}"])
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["from", "into", "type", "uri", "a"]), inner, max_size=3), max_leaves=6
)  # fmt: skip
SECTIONS = [
    "name",
    "kafka",
    "catalogs",
    "tables",
    "quarantine",
    "commit",
    "limits",
    "spark",
    "pending",
    "records",
]


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(SECTIONS), ANYTHING, max_size=4))
def test_a_spec_with_blocks_of_anything_is_a_pipeline_or_a_spec_error(
    blocks: dict[str, object],
) -> None:
    import yaml

    loaded(yaml.safe_dump(blocks))


@pytest.mark.parametrize(
    "unit",
    [
        "u",
        "${",
        "${env:A:-",
        "${file:/",
        "a://b:",
        "?password",
        "a ",
        "- ",
        "{",
        "*a ",
        "\n",
        "password: x\n",
    ],
)
@pytest.mark.parametrize("head", ["", "kafka: {security: {password: '", "tables: [{from: '"])
def test_no_repeated_text_takes_long(head: str, unit: str) -> None:
    loaded(head + unit * (40_000 // len(unit)) + ("'}}" if head else ""))


def test_a_spec_with_very_many_rules_takes_no_time(spec: Changed) -> None:
    rules = "".join(f"  - {{ from: 't{n}.*x', into: lake.b.t{n} }}\n" for n in range(1000))
    topics = ", ".join(f"topic.number.{n}" for n in range(1000))
    text = spec(
        ("  - from: shop.orders\n    into: lake.bronze.orders\n", rules), ("shop.orders", topics)
    )
    assert None is loaded(text)


def test_a_pipeline_is_written_and_read_back() -> None:
    pipeline = loads(DESIGNED, base=BASE)
    assert pipeline == loads(to_yaml(pipeline), base=Path("/elsewhere"))
