from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidError
from penstock.ports.runtime import Secrets
from penstock.spec.load import load_with_warnings, loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError, render
from penstock.spec.secrets import ProcessSecrets, escaped, redacted, without_password

Changed = Callable[..., str]
LITERAL = "hunter2-geheim"
SECURED = "[shop.orders]\n  security: { protocol: sasl_ssl, mechanism: plain, username: shop, password: %s }"


def test_the_process_resolves_variables_defaults_and_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pass word\n")
    secrets: Secrets = ProcessSecrets({"HOST": "h", "EMPTY": ""})
    text = f"${{env:HOST}}:${{env:PORT:-9092}}/${{env:EMPTY:-x}}${{env:EMPTY}}/${{file:{tmp_path}/password}}"
    assert "h:9092/x/pass word" == secrets.resolve(text)


def test_what_a_reference_gave_is_not_resolved_again() -> None:
    assert "${env:B}" == ProcessSecrets({"A": "${env:B}", "B": "no"}).resolve("${env:A}")


@given(st.text(alphabet="$ {}env:AB-/", max_size=30))
def test_an_escaped_text_resolves_to_itself(text: str) -> None:
    assert text == ProcessSecrets({}).resolve(escaped(text))


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("${env:NOWHERE}", "P123", "NOWHERE"),
        ("${file:/nowhere/at/all}", "P123", "/nowhere/at/all"),
        ("${file:relative}", "P122", "reference"),
        ("${vault:x}", "P122", "reference"),
        ("${", "P122", "reference"),
    ],
)
def test_what_cannot_be_resolved_is_named(text: str, code: str, named: str) -> None:
    with pytest.raises(InvalidError) as caught:
        ProcessSecrets({}).resolve(text)
    assert code == caught.value.code
    assert named in caught.value.message


def test_a_file_that_is_too_large_or_no_text_is_no_secret(tmp_path: Path) -> None:
    for name, content in {"large": b"x" * 70_000, "bytes": b"\xff\xfe" + LITERAL.encode()}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidError) as caught:
            ProcessSecrets({}).resolve(f"${{file:{tmp_path}/{name}}}")
        assert "P123" == caught.value.code
        assert LITERAL not in str(caught.value)


def test_the_environment_is_not_shown() -> None:
    assert LITERAL not in repr(ProcessSecrets({"PASSWORD": LITERAL}))


def test_references_are_shown_and_literals_are_not() -> None:
    assert "${env:X}" == redacted("${env:X}")
    assert "${env:X:-***}" == redacted(f"${{env:X:-{LITERAL}}}")
    assert "***" == redacted(LITERAL)
    assert "***" == redacted(f"${{env:X}}{LITERAL}")
    assert "postgresql://u:***@h/db" == without_password(f"postgresql://u:{LITERAL}@h/db")
    assert "postgresql://h/db?password=***&a=b" == without_password(
        f"postgresql://h/db?password={LITERAL}&a=b"
    )
    assert "postgresql://u:${env:PW}@h/db" == without_password("postgresql://u:${env:PW}@h/db")


@pytest.fixture
def secretive(pipeline: Callable[..., Pipeline]) -> Pipeline:
    """Build a pipeline with literal secrets wherever they can be."""
    return pipeline(
        kafka={
            "brokers": "localhost:9092",
            "topics": ["shop.orders"],
            "security": {
                "protocol": "sasl_ssl",
                "mechanism": "plain",
                "username": "shop",
                "password": LITERAL,
                "certificate": "c.pem",
                "key": "k.pem",
                "key_password": LITERAL,
            },
        },
        catalogs={
            "lake": {
                "type": "sql",
                "uri": f"postgresql://u:{LITERAL}@h/db",
                "warehouse": "s3://b",
                "s3.secret-access-key": LITERAL,
                "s3.access-key-id": LITERAL,
                "token": LITERAL,
            }
        },
        spark={"conf": {"spark.hadoop.fs.s3a.secret.key": LITERAL}},
    )


def test_no_representation_or_dump_shows_a_secret(secretive: Pipeline) -> None:
    shown = [
        repr(secretive),
        str(secretive),
        f"{secretive.kafka.security!r}",
        repr(secretive.catalogs["lake"]),
        secretive.model_dump_json(),
        json.dumps(secretive.model_dump(mode="json")),
        str(secretive.model_dump()),
        str(secretive.kafka.model_dump()),
    ]
    assert [] == [text for text in shown if LITERAL in text]


def test_connectors_get_the_secrets(secretive: Pipeline) -> None:
    assert LITERAL == secretive.kafka.revealed()["security"]["password"]
    lake = secretive.catalogs["lake"].settings("lake")
    assert ("lake", "sql", LITERAL) == (lake["name"], lake["type"], lake["token"])


def test_a_literal_secret_is_worth_a_warning(spec: Changed, tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(spec(("[shop.orders]", SECURED % LITERAL)))
    warnings = load_with_warnings(path).warnings
    assert [("P124", "warning")] == [(each.code, each.severity) for each in warnings]
    assert LITERAL not in render(warnings)
    path.write_text(spec(("[shop.orders]", SECURED % '"${file:/run/secrets/kafka}"')))
    assert () == load_with_warnings(path).warnings


@pytest.mark.parametrize(
    "lines",
    [
        SECURED % f"{LITERAL}, pasword: x",
        SECURED.replace("password", "pasword") % LITERAL,
        SECURED % f"{LITERAL}\n  password: {LITERAL}",
        SECURED % f"*{LITERAL}",
        SECURED % f"!{LITERAL}",
        SECURED % f"!!int {LITERAL}",
        SECURED % f'"{LITERAL}',
        SECURED % f"[{LITERAL}]",
        SECURED % f"${{{LITERAL}",
        f"[shop.orders]\n  password: {LITERAL}",
        f"[shop.orders]\n  security:\n    password: {LITERAL}\n    password: {LITERAL}",
        f"[shop.orders]\n  security:\n    password: {LITERAL}: x",
        f"[shop.orders]\n  security:\n    password: |\n      {LITERAL}: [\n  x: [",
        f"[shop.orders]\n  security:\n    password: 'a\n      {LITERAL}\n    x: y",
        f"[shop.orders]\n  security: {LITERAL}\n  password: 5\n",
    ],
)
def test_no_error_shows_a_secret(spec: Changed, lines: str) -> None:
    with pytest.raises(SpecError) as caught:
        loads(spec(("[shop.orders]", lines)), base=Path("/srv"))
    assert LITERAL not in str(caught.value)


def test_an_address_with_a_password_is_masked_in_an_excerpt(spec: Changed) -> None:
    text = spec(
        (
            "./lake }",
            f"./lake }}\n  pg: {{ type: sql, uri: 'postgresql://u:{LITERAL}@h/db', x: ~ }}",
        )
    )
    with pytest.raises(SpecError) as caught:
        loads(text, base=Path("/srv"))
    assert LITERAL not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://me:${env:PW}@registry:8081", f"https://me:{LITERAL}@registry", "${env:URL}"]
)
def test_a_registrys_address_holds_no_user(
    spec: Changed, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """A resolved address is part of a job's text."""
    monkeypatch.setenv("PW", LITERAL)
    monkeypatch.setenv("URL", f"https://me:{LITERAL}@registry:8081")
    records = f'records: {{ format: avro, registry: "{url}" }}\nquarantine:'

    with pytest.raises(SpecError) as caught:
        loads(spec(("quarantine:", records)), base=Path("/srv"))

    assert ["P152"] == [problem.code for problem in caught.value.problems]
    assert LITERAL not in str(caught.value)
