"""Who may read: a broker with passwords, TLS and permissions."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from tests.processes.broker import Cluster, running_broker
from tests.processes.process import penstock
from tests.servers.listening import listening, shut

from penstock.app.assembly.reopening_log import ReopeningLog
from penstock.connectors.kafka import connector, errors, log
from penstock.connectors.kafka.native import protocols
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.native.reader import ColumnarReader
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.answers import unconnected
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition, span
from penstock.dev.ports import HOST, free_port
from penstock.engines.java import find_java
from penstock.files.reopening import Reopening
from penstock.ports.producers import ProducerNeeds, Term
from penstock.ports.transactions import Scope, TransactionState
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker
STORE_PASSWORD = "storepass"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Plain:
    """Secrets that are none."""

    def resolve(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker with three doors: one for its owner, one with passwords, one with TLS besides."""

    owner: Cluster
    passwords: str
    tls: str
    ca: Path

    def settings(self, topic: Any, **security: str) -> dict[str, Any]:
        protocol = security.get("protocol", "sasl_plaintext")
        brokers = self.passwords if protocol == "sasl_plaintext" else self.tls
        given = {"protocol": protocol, "mechanism": "plain", "username": "shop", **security}
        given.setdefault("password", "shop-secret")
        return {"brokers": brokers, "topics": [topic], "security": given}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    store, ca = certificate(home)
    passwords = free_port()
    tls = free_port(passwords)
    login = f'{PLAIN_LOGIN} required user_shop="shop-secret" user_other="other-secret";'
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
        f"SASL_PLAINTEXT://127.0.0.1:{passwords},SASL_SSL://127.0.0.1:{tls}",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:{port},"
        f"SASL_PLAINTEXT://127.0.0.1:{passwords},SASL_SSL://127.0.0.1:{tls}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with running_broker(home / "broker", properties=properties) as running:
        owner = Cluster(running.bootstrap)
        owner.create("orders")
        owner.send("orders", 0, [Sent(b"1"), Sent(b"2")])
        owner.create("secrets")
        for operation in (AclOperation.READ, AclOperation.DESCRIBE):
            allow(owner, "orders", operation)
        allow(owner, "secrets", AclOperation.DESCRIBE)
        yield Guarded(owner, f"127.0.0.1:{passwords}", f"127.0.0.1:{tls}", ca)


def certificate(home: Path) -> tuple[Path, Path]:
    """Make a key store for the broker and the certificate to trust it by."""
    java = find_java(os.environ)
    keytool = java.path.resolve().with_name("keytool")
    store, ca = home / "broker.p12", home / "ca.pem"
    keys = ["-keystore", store, "-storepass", STORE_PASSWORD, "-alias", "broker"]
    make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=127.0.0.1", "-validity", "2"]
    names = ["-ext", "san=ip:127.0.0.1,dns:localhost", "-storetype", "PKCS12"]
    for command in ([*make, *names], ["-exportcert", "-rfc", "-file", ca]):
        subprocess.run([keytool, *command, *keys], check=True, capture_output=True)
    return store, ca


def allow(
    owner: Cluster, name: str, operation: AclOperation, *, kind: ResourceType = ResourceType.TOPIC
) -> None:
    rule = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        "User:shop",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for asked in owner.admin.create_acls([rule]).values():
        asked.result()


def read(settings: dict[str, Any], topic: str) -> list[bytes]:
    reader = connector.open_reader(settings, Plain())
    at = TopicPartition("id", 0, topic)
    batches = list(reader.read(at, span(0, 2), deadline=time.monotonic() + 30))
    reader.close()
    assert isinstance(reader, ColumnarReader)
    assert [] == list(reader.left)
    return [value for each in batches for value in each.batch["value"].to_pylist()]


def test_a_user_with_password_and_permission_reads(guarded: Guarded) -> None:
    """The user has no permission for any consumer group: none is used."""
    settings = guarded.settings("orders")
    log = connector.open_log(settings, Plain())

    assert [2] == [each.stop for each in log.bounds(log.partitions()).values()]
    assert [b"1", b"2"] == read(settings, "orders")


def test_tls_with_our_own_authority_reads(guarded: Guarded) -> None:
    by_file = guarded.settings("orders", protocol="sasl_ssl", ca=str(guarded.ca))
    by_text = guarded.settings("orders", protocol="sasl_ssl", ca=guarded.ca.read_text())

    assert [b"1", b"2"] == read(by_file, "orders")
    assert [b"1", b"2"] == read(by_text, "orders")


def test_a_certificate_nobody_vouches_for_is_reported(guarded: Guarded) -> None:
    settings = guarded.settings("orders", protocol="sasl_ssl")
    with pytest.raises(InvalidError, match="certificate") as caught:
        connector.open_log(settings, Plain()).partitions()
    with pytest.raises(InvalidError):
        read(settings, "orders")

    assert "P203" == caught.value.code


def test_a_wrong_password_is_reported_without_the_password(guarded: Guarded) -> None:
    settings = guarded.settings("orders", password="wrong-secret")
    with pytest.raises(InvalidError, match="user shop") as caught:
        connector.open_log(settings, Plain()).partitions()
    with pytest.raises(InvalidError, match="user shop"):
        read(settings, "orders")

    assert "P202" == caught.value.code
    assert "wrong-secret" not in caught.value.message + caught.value.hint


def test_a_password_that_changes_is_taken_up(guarded: Guarded, tmp_path: Path) -> None:
    word = tmp_path / "password"
    word.write_text("wrong-secret")
    settings = guarded.settings("orders", password=f"${{file:{word}}}")
    secrets = ProcessSecrets()
    opening = partial(connector.open_log, settings, secrets)
    log = ReopeningLog(Reopening(settings, secrets, opening, lambda log: log.close()))
    with pytest.raises(InvalidError, match="user shop"):
        log.partitions()

    word.write_text(guarded.settings("orders")["security"]["password"])
    assert ["orders"] == [at.topic for at in log.partitions()]
    log.close()


def test_a_missing_permission_is_named(guarded: Guarded) -> None:
    settings = guarded.settings("secrets")
    with pytest.raises(InvalidError, match="shop may not read topic secrets") as caught:
        connector.open_log(settings, Plain()).partitions()
    with pytest.raises(InvalidError, match="shop may not read topic secrets"):
        read(settings, "secrets")

    assert "P204" == caught.value.code
    assert "--operation Read --operation Describe --topic 'secrets'" in caught.value.hint


def test_a_topic_one_may_not_even_see_is_named(guarded: Guarded) -> None:
    settings = guarded.settings("orders", username="other", password="other-secret")
    with pytest.raises(InvalidError, match="topic orders") as caught:
        connector.open_log(settings, Plain()).partitions()

    assert "P204" == caught.value.code
    assert [] == list(
        connector.open_log({**settings, "topics": [{"pattern": ".*"}]}, Plain()).partitions()
    )


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("sasl_plaintext", "plaintext"),
        ("ssl", "plaintext"),
        ("sasl_ssl", "plaintext"),
        ("plaintext", "sasl_plaintext"),
        ("sasl_ssl", "sasl_plaintext"),
        ("plaintext", "sasl_ssl"),
        ("ssl", "sasl_ssl"),
        ("sasl_plaintext", "sasl_ssl"),
    ],
)
def test_brokers_that_speak_another_protocol_are_reported_with_theirs_and_ours(
    guarded: Guarded, asked: str, spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "REFUSAL_SECONDS_MAX", 0.3)
    monkeypatch.setattr(errors, "DOWN_SECONDS_MAX", 0.3)
    monkeypatch.setattr(log, "ANSWER_SECONDS_MAX", 2)
    doors = {
        "plaintext": guarded.owner.bootstrap,
        "sasl_plaintext": guarded.passwords,
        "sasl_ssl": guarded.tls,
    }
    settings = guarded.settings("orders", protocol=asked)
    if not asked.startswith("sasl"):
        settings["security"] = {"protocol": asked}

    with pytest.raises(InvalidError) as raised:
        connector.open_log({**settings, "brokers": doors[spoken]}, Plain()).cluster_id()

    assert "P193" == raised.value.code
    assert f"{doors[spoken]} speaks {spoken} (" in raised.value.message
    assert f"kafka.security says {asked} (" in raised.value.message
    assert f"write  protocol: {spoken}" in raised.value.hint


def test_a_refused_password_and_an_unknown_authority_are_no_other_protocol(
    guarded: Guarded,
) -> None:
    for settings, code in (
        (guarded.settings("orders", password="wrong-secret"), "P202"),
        (guarded.settings("orders", protocol="sasl_ssl"), "P203"),
    ):
        with pytest.raises(InvalidError) as raised:
            connector.open_log(settings, Plain()).cluster_id()
        assert code == raised.value.code


def test_a_port_that_is_silent_or_speaks_something_else_is_not_taken_for_a_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocols, "PATIENCE_SECONDS", 0.2)

    def silent(client: socket.socket) -> None:
        while client.recv(4096):
            pass

    def chatting(client: socket.socket) -> None:
        client.sendall(b"220 mail.example.com ESMTP\r\n" * 40)
        shut(client)

    for serve in (silent, chatting):
        with listening(0, serve) as port:
            assert protocols.protocol_of(("127.0.0.1", port)) is None


def test_a_broker_that_goes_away_between_two_answers_is_not_taken_for_one_with_sasl(
    guarded: Guarded,
) -> None:
    host, _, port = guarded.owner.bootstrap.rpartition(":")

    def leaving(client: socket.socket) -> None:
        """Answer as the broker does, once."""
        with socket.create_connection((host, int(port))) as broker:
            broker.sendall(client.recv(65_536))
            client.sendall(broker.recv(65_536))
        shut(client)

    assert "plaintext" == protocols.protocol_of((host, int(port)))
    with listening(0, leaving) as door:
        assert protocols.protocol_of(("127.0.0.1", door)) is None


def test_who_may_not_use_a_transactional_id_is_told_which_permission(guarded: Guarded) -> None:
    settings = read_settings(guarded.settings("orders"), ProcessSecrets())
    terms = KafkaTerms(settings, timeout_ms=60_000)
    for act in (terms.take, terms.remembered, lambda name: terms.renew(name, Term(1, 1))):
        with pytest.raises(InvalidError) as refused:
            act("penstock-mine-0")
        assert "P281" == refused.value.code
        assert "--transactional-id 'penstock-mine-0'" in refused.value.hint


def test_doctor_names_all_that_a_mirror_lacks_at_once(guarded: Guarded) -> None:
    assert connector.examine_writing is not None
    created = frozenset({"unseen"})
    needs = ProducerNeeds(("unseen-0",), "unseen-offsets", created, 60_000, ("orders", "secrets"))
    checked = connector.examine_writing(guarded.settings("unseen"), ProcessSecrets(), needs)
    found = {each.subject: each for each in checked}

    assert "may be read" in found["topic orders"].message
    assert "may not read" in found["topic secrets"].message
    lacking = "--operation Write --operation Describe --operation DescribeConfigs"
    assert f"{lacking} --topic 'unseen-offsets'" in found["topic unseen-offsets"].hint
    assert f"{lacking} --operation Create --topic 'unseen'" in found["topic unseen"].hint


def test_terms_are_taken_over_tls_with_a_password(guarded: Guarded) -> None:
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        kind = ResourceType.TRANSACTIONAL_ID
        allow(guarded.owner, "penstock-shop-0", operation, kind=kind)
    given = guarded.settings("orders", protocol="sasl_ssl", ca=str(guarded.ca))
    terms = KafkaTerms(read_settings(given, ProcessSecrets()), timeout_ms=60_000)
    terms.check()

    assert isinstance(terms.renew("penstock-shop-0", terms.take("penstock-shop-0")), Term)


def test_a_certificate_as_text_is_no_connection_of_our_own(guarded: Guarded) -> None:
    settings = read_settings(guarded.settings("orders"), ProcessSecrets())
    unusable = FallbackError("a client certificate as text", lasting=True)

    assert "P284" == unconnected(unusable, "the cluster", settings).code
    with pytest.raises(FallbackError) as caught:
        Wire((HOST, free_port()), tls=None, sasl={})
    assert ("P280", True) == (
        unconnected(caught.value, "the cluster", settings).code,
        caught.value.lasting,
    )
    wrong = read_settings(guarded.settings("orders", password="wrong"), ProcessSecrets())
    assert "P202" == unconnected(unusable, "the cluster", wrong).code


def test_a_transaction_of_an_id_that_we_may_not_describe_is_not_said_to_hang(
    guarded: Guarded,
) -> None:
    held = guarded.owner.begin("orders", 0, [Sent(b"held")])
    assert connector.open_transactions is not None
    ours = connector.open_transactions(guarded.settings("orders"), ProcessSecrets())
    brokers = {"brokers": guarded.owner.bootstrap, "topics": ["orders"]}
    theirs = connector.open_transactions(brokers, ProcessSecrets())

    assert [TransactionState.UNKNOWN] == [each.state for each in ours.listed(Scope.SPEC)]
    (found,) = theirs.listed(Scope.SPEC)
    assert TransactionState.OPEN == found.state
    hanging = replace(found, state=TransactionState.HANGING)
    for each, needed in ((found, "--operation Write"), (hanging, "--operation Alter --cluster")):
        with pytest.raises(InvalidError) as refused:
            ours.abort(each)
        assert "P281" == refused.value.code
        assert needed in refused.value.hint
    held.abort()
    assert [] == [*ours.listed(Scope.SPEC)]


def test_who_may_not_read_a_topic_is_told_which_permission(guarded: Guarded) -> None:
    assert connector.open_transactions is not None
    ours = connector.open_transactions(guarded.settings("secrets"), ProcessSecrets())
    with pytest.raises(InvalidError) as refused:
        ours.listed(Scope.SPEC)

    assert "P204" == refused.value.code


def published(guarded: Guarded, directory: Path, **publishing: Any) -> tuple[Path, dict[str, Any]]:
    """Write a spec that mirrors a topic as the user with a password."""
    settings = guarded.settings("orders")
    spec = {
        "name": "shop",
        "kafka": {"brokers": settings["brokers"], "security": settings["security"]},
        "publish": [{"name": "guarded", "from": {"topic": "orders"}, "into": "copies"}],
        "publishing": publishing,
        "spark": {"master": "inline"},
    }
    path = directory / "penstock.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path, spec


def test_7_of_kip_618_where_an_id_cannot_be_fenced_no_task_starts(
    guarded: Guarded, tmp_path: Path
) -> None:
    """And what is missing is told by `doctor`, with the permission to give, before a run."""
    owner, offsets = guarded.owner, "penstock-guarded-offsets"
    owner.create("copies", 1)
    owner.create(offsets, 1, cleanup_policy="compact")
    path, _ = published(guarded, tmp_path, producer="librdkafka", tasks=2)
    reported = penstock("doctor", path, "--json", directory=tmp_path).json["checks"]
    codes = {each["subject"]: each["code"] for each in reported if each["check"] == "permissions"}
    assert {"P281"} == {codes[f"transactional id penstock-guarded-{n}"] for n in (0, 1)}

    for topic in ("copies", offsets):
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
            allow(owner, topic, operation)
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        kind = ResourceType.TRANSACTIONAL_ID
        allow(owner, "penstock-guarded-0", operation, kind=kind)
    start = partial(penstock, "publish", "--spec", path, "--until-caught-up", directory=tmp_path)
    unread = start()
    assert (2, True) == (unread.code, "P868" in unread.err), unread.err
    assert "--operation DescribeConfigs --topic 'penstock-guarded-offsets'" in unread.err
    allow(owner, offsets, AclOperation.DESCRIBE_CONFIGS)
    refused = start()
    assert (2, True) == (refused.code, "P281" in refused.err), refused.err
    assert "--transactional-id 'penstock-guarded-1'" in refused.err
    assert 0 == end_of(owner, "copies")

    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        allow(owner, "penstock-guarded-1", operation, kind=kind)
    assert 0 == start().code
    assert 0 < end_of(owner, "copies")
    audit = penstock("audit", "--spec", path, "--json", directory=tmp_path)
    (found,) = audit.json["publications"]
    assert (0, []) == (audit.code, found["breaks"]), audit.out
    assert "may not read the settings of topic copies" in found["not_compared"][0]


def end_of(owner: Cluster, topic: str) -> int:
    at = ClientPartition(topic, 0)
    asked = owner.admin.list_offsets({at: OffsetSpec.latest()})
    return int(asked[at].result().offset)
