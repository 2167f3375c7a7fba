"""Brokers that demand a token, which is renewed while clients go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.processes.broker import Cluster, running_broker, wait_until
from tests.servers.issuer import AUDIENCE, Issuer, issuing

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.native.reader import ColumnarReader
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition, span
from penstock.dev.ports import free_port
from penstock.ports.producers import Term
from penstock.ports.transactions import Scope
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
SECRETS = ProcessSecrets()
AT = TopicPartition("id", 0, "orders")


@dataclass(frozen=True, slots=True)
class Doors:
    """A broker with a door for its owner and one for tokens."""

    owner: Cluster
    issuer: Issuer
    tokens: str

    def settings(self, **given: Any) -> dict[str, Any]:
        client = {
            "token_endpoint": self.issuer.endpoint,
            "client_id": "shop",
            "client_secret": self.issuer.client_secret,
        }
        asked = client if "token_command" not in given else {}
        login = {"protocol": "sasl_plaintext", "mechanism": "oauthbearer"}
        return {
            "brokers": self.tokens,
            "topics": ["orders"],
            "security": {**login, **asked, **given},
        }


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    home = tmp_path_factory.mktemp("tokens")
    tokens = free_port()
    listeners = f"SASL_PLAINTEXT://127.0.0.1:{tokens}"
    validated = "listener.name.sasl_plaintext.oauthbearer."
    with issuing() as issuer, pytest.MonkeyPatch.context() as patch:
        properties = {
            "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
            + listeners,
            "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}," + listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{validated}sasl.jaas.config": f"{OAUTH}LoginModule required;",
            f"{validated}sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
            f"{validated}sasl.oauthbearer.jwks.endpoint.url": f"{issuer.address}/jwks",
            f"{validated}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{validated}connections.max.reauth.ms": "3600000",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:shop",
        }
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"  # Kafka 4 asks for it
        patch.setenv("JDK_JAVA_OPTIONS", f"{allowed}={issuer.address}/jwks")
        with running_broker(home / "broker", properties=properties) as running:
            owner = Cluster(running.bootstrap)
            owner.create("orders")
            owner.send("orders", 0, [Sent(b"1"), Sent(b"2")])
            yield Doors(owner, issuer, f"127.0.0.1:{tokens}")


def read(reader: Any) -> list[bytes]:
    batches = list(reader.read(AT, span(0, 2), deadline=time.monotonic() + 30))
    return [value for each in batches for value in each.batch["value"].to_pylist()]


def test_one_token_serves_all_clients_of_a_process(doors: Doors) -> None:
    settings = doors.settings(scope="all", extensions={"pool": "one"})
    before = doors.issuer.issued
    log = connector.open_log(settings, SECRETS)
    columnar = connector.open_reader(settings, SECRETS)
    librdkafka = connector.open_reader({**settings, "reader": "librdkafka"}, SECRETS)
    assert connector.open_transactions is not None
    terms = KafkaTerms(read_settings(settings, SECRETS), timeout_ms=60_000)

    assert [2] == [each.stop for each in log.bounds(log.partitions()).values()]
    assert [b"1", b"2"] == read(columnar) == read(librdkafka)
    assert isinstance(columnar, ColumnarReader)
    assert [] == list(columnar.left)
    assert [] == [*connector.open_transactions(settings, SECRETS).listed(Scope.SPEC)]
    assert isinstance(terms.renew("penstock-all-0", terms.take("penstock-all-0")), Term)
    assert 1 == doors.issuer.issued - before


def test_tokens_are_renewed_while_clients_go_on(doors: Doors) -> None:
    """The session of a token ends with it: without renewal each would be refused from then on.

    A quarter of a token's life has to be more than the second within which brokers refuse another
    login on one connection.
    """
    settings = doors.settings(scope="short")
    readers = [
        connector.open_reader({**settings, "reader": each}, SECRETS)
        for each in ("columnar", "librdkafka")
    ]
    log = connector.open_log(settings, SECRETS)
    doors.issuer.lifetime_seconds, issued = 6.0, doors.issuer.issued

    def go_on() -> bool:
        assert [[b"1", b"2"]] * 2 == [read(each) for each in readers]
        assert 1 == len(log.partitions())
        return doors.issuer.issued - issued > 1 and time.monotonic() > ended

    try:
        ended = time.monotonic() + doors.issuer.lifetime_seconds + 1
        wait_until(go_on, "the first token has ended, and another one is used")
    finally:
        doors.issuer.lifetime_seconds = 300.0
    assert [] == list(readers[0].left)


def test_what_is_wrong_with_a_token_is_told_apart(doors: Doors) -> None:
    nowhere = "http://127.0.0.1:1/token"
    other = ["printf", doors.issuer.token(aud="other")]
    expired = ["printf", doors.issuer.token(exp=time.time() - 60)]
    cases = (
        ({"client_secret": "wrong-secret"}, "P179", "invalid_client"),
        ({"token_endpoint": nowhere}, "P178", "does not answer: Connection refused"),
        ({"token_command": expired}, "P179", "had expired 60 s before it came"),
        ({"token_command": other}, "P202", "refused user shop"),
    )
    for given, code, told in cases:
        settings = doors.settings(**given)
        log, reader = (
            open_(settings, SECRETS) for open_ in (connector.open_log, connector.open_reader)
        )
        terms = KafkaTerms(read_settings(settings, SECRETS), timeout_ms=60_000)
        for act in (log.partitions, partial(read, reader), terms.check):
            with pytest.raises((InvalidError, UnavailableError), match=told) as caught:
                act()
            assert code == caught.value.code
            assert "wrong-secret" not in f"{caught.value.message}{caught.value.hint}"


def test_doctor_says_whose_token_it_is(doors: Doors) -> None:
    assert connector.examine is not None
    checked = connector.examine(doors.settings(), SECRETS, Now())
    found = {each.check: each for each in checked}

    assert "user shop" == found["token"].subject
    assert "good for" in found["token"].message
    assert [] == [each for each in checked if each.code]


class Now:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    wait = staticmethod(time.sleep)
