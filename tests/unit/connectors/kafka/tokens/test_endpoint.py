"""A token endpoint, and all that it may answer."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.certificates import certified
from tests.servers.issuer import Issuer, issuing
from tests.servers.listening import listening, shut

from penstock.connectors.kafka.tokens import endpoint
from penstock.connectors.kafka.tokens.endpoint import ClientCredentials
from penstock.core.errors import InvalidError, UnavailableError

SECRET = "client-secret:with%+ä"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer(client_secret=SECRET)) as opened:
        yield opened


def client(issuer: Issuer, **given: str) -> ClientCredentials:
    settings = {"endpoint": issuer.endpoint, "client_id": "shop", "client_secret": SECRET, **given}
    return ClientCredentials(**settings)


def test_a_client_gets_a_token_for_its_credentials(issuer: Issuer) -> None:
    now = time.time()
    token = client(issuer, scope="kafka read").fetch(now)

    assert "shop" == token.user
    assert now < token.expires_at <= now + issuer.lifetime_seconds
    assert [{"grant_type": ["client_credentials"], "scope": ["kafka read"]}] == issuer.asked
    assert SECRET not in repr(client(issuer))


def test_a_wrong_secret_is_told_in_the_words_of_the_rfc(issuer: Issuer) -> None:
    with pytest.raises(InvalidError, match="HTTP 401, invalid_client") as caught:
        client(issuer, client_secret="wrong-secret").fetch(time.time())

    assert "P179" == caught.value.code
    assert "wrong-secret" not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize(("status", "code"), [(503, "P178"), (429, "P178"), (404, "P179")])
def test_what_may_pass_is_told_apart_from_what_will_not(
    issuer: Issuer, status: int, code: str
) -> None:
    issuer.status = status
    with pytest.raises((InvalidError, UnavailableError), match=f"HTTP {status}") as caught:
        client(issuer).fetch(time.time())

    assert code == caught.value.code


def test_an_issuer_that_is_down_or_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS_MAX", 0.2)
    with listening(0, lambda _: None) as silent, listening(0, shut) as closing:
        for port in (silent, closing, 1):
            with pytest.raises(UnavailableError, match="does not answer") as caught:
                ClientCredentials(f"http://127.0.0.1:{port}/t", "shop", SECRET).fetch(time.time())
            assert "P178" == caught.value.code


def test_redirects_are_not_followed() -> None:
    def redirecting(client) -> None:
        client.recv(65_536)
        client.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
        shut(client)

    with listening(0, redirecting) as port, pytest.raises(InvalidError, match="HTTP 302"):
        ClientCredentials(f"http://127.0.0.1:{port}/t", "shop", SECRET).fetch(time.time())


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"no json", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"access_token": 5}', "no access_token"),
        (b'{"access_token": "t", "expires_in": "soon"}', "expires_in"),
        (b'{"access_token": "t", "expires_in": NaN}', "no time in seconds"),
        (b'{"access_token": "t", "expires_in": Infinity}', "no time in seconds"),
        (b'{"access_token": "t", "expires_in": -60}', "no time in seconds"),
    ],
)
def test_an_answer_that_is_no_token_is_told(said: bytes, told: str) -> None:
    def answering(client) -> None:
        client.recv(65_536)
        client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + said)
        shut(client)

    with listening(0, answering) as port, pytest.raises(InvalidError, match=told) as caught:
        ClientCredentials(f"http://127.0.0.1:{port}/t", "shop", SECRET).fetch(time.time())
    assert "P179" == caught.value.code


def test_an_authority_of_ones_own_is_trusted_when_it_is_named(tmp_path: Path) -> None:
    own = certified(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    with issuing(Issuer(client_secret=SECRET), context) as issuer:
        assert "shop" == client(issuer, ca=str(own.ca)).fetch(time.time()).user
        with pytest.raises(InvalidError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            client(issuer).fetch(time.time())
    assert "token_ca" in caught.value.hint
