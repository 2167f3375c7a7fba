"""How long a token is used, and when a new one is asked for."""

from __future__ import annotations

import base64
import json

import pytest

from penstock.connectors.kafka.tokens.source import AGAIN_SECONDS, TokenSource, source_of
from penstock.connectors.kafka.tokens.token import (
    LIFETIME_SECONDS,
    Token,
    claims_of,
    no_token_now,
    token_of,
)
from penstock.core.errors import InvalidError, UnavailableError

NOW = 1_800_000_000.0


def jwt(**claims: object) -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
        for each in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}.c2ln"


class Issuing:
    """Gives tokens one after the other, each for so long; fails while `down`."""

    def __init__(self, seconds: float = 100.0) -> None:
        self.seconds, self.given, self.down = seconds, 0, False

    def fetch(self, now: float) -> Token:
        if self.down:
            raise no_token_now("it is down")
        self.given += 1
        return Token(f"t{self.given}", now + self.seconds, "shop")


@pytest.fixture
def time() -> list[float]:
    return [NOW]


def test_a_token_ends_with_what_was_stated_or_what_it_says_whichever_comes_first() -> None:
    token = token_of(jwt(sub="shop", exp=NOW + 60), NOW, stated_seconds=90)

    assert (NOW + 60, "shop") == (token.expires_at, token.user)
    assert NOW + 30 == token_of(jwt(exp=NOW + 60), NOW, stated_seconds=30).expires_at
    assert NOW + LIFETIME_SECONDS == token_of("opaque", NOW).expires_at
    assert token.value not in repr(token)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "not a token"),
        ("two words", "not a token"),
        ("t\x01auth=Bearer other", "not a token"),
        ("t" * 70_000, "not a token"),
        (jwt(exp=NOW - 7), "expired 7 s before it came"),
    ],
)
def test_what_is_no_token_is_told_without_it(value: str, told: str) -> None:
    with pytest.raises(InvalidError, match=told) as caught:
        token_of(value, NOW)

    assert "P179" == caught.value.code
    assert value == "" or value not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize("value", ["a.b", "a.%.c", "a.bnVsbA.c", "a.W10.c", f"a.{'W1tb' * 9}.c"])
def test_another_kind_of_token_has_no_claims(value: str) -> None:
    assert {} == claims_of(value)


def test_an_issuer_is_asked_again_in_the_last_quarter_of_a_tokens_life(time: list[float]) -> None:
    issuer = Issuing()
    source = TokenSource(issuer, (("pool", "one"),), clock=lambda: time[0])

    assert "(of the token)" == source.user
    assert ("t1", NOW + 100, "shop", {"pool": "one"}) == source(None)
    time[0] += 74
    assert "t1" == source.token().value
    time[0] += 1
    assert "t2" == source.token().value
    assert (2, "shop") == (issuer.given, source.user)


def test_a_token_is_used_to_its_end_while_its_issuer_is_down(time: list[float]) -> None:
    issuer = Issuing()
    source = TokenSource(issuer, clock=lambda: time[0])
    source.token()
    issuer.down = True
    time[0] += 80
    assert "t1" == source.token().value
    issuer.down = False
    assert "t1" == source.token().value
    time[0] += AGAIN_SECONDS
    assert "t2" == source.token().value

    issuer.down = True
    time[0] += 100
    with pytest.raises(UnavailableError, match="it is down") as caught:
        source.token()
    assert "P178" == caught.value.code


def test_a_process_has_one_source_of_an_issuers_tokens() -> None:
    issuer = Issuing()

    assert source_of(issuer, ()) is source_of(issuer, ())
    assert source_of(issuer, ()) is not source_of(issuer, (("pool", "one"),))
