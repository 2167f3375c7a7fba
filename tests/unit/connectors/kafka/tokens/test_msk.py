"""Tokens for Amazon MSK, as far as they can be looked at without AWS: who signs what, until when.

Source: AWS, "Create signed requests": what the request names, and that no secret is in it.
"""

from __future__ import annotations

import base64
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penstock.connectors.kafka.tokens.msk import MskSigner, region_of
from penstock.core.errors import InvalidError

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of this machine are found, nor asked for in the network."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_token_is_a_signed_request_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    now = time.time()
    token = MskSigner("eu-central-1").fetch(now)
    fetched = time.time()
    url = urlsplit(base64.urlsafe_b64decode(token.value + "==").decode())
    said = {name: value for name, (value,) in parse_qs(url.query).items()}

    assert "kafka.eu-central-1.amazonaws.com" == url.netloc
    assert ("kafka-cluster:Connect", "900") == (said["Action"], said["X-Amz-Expires"])
    assert said["X-Amz-Credential"].startswith(f"{KEY}/")
    assert said["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert now + 890 < token.expires_at <= fetched + 901
    assert SECRET not in url.query
    assert signature(said) == said["X-Amz-Signature"]


def signature(said: dict[str, str]) -> str:
    """Sign the same request again, of the same second, as AWS does to verify it."""
    signer = SigV4QueryAuth(Credentials(KEY, SECRET), "kafka-cluster", "eu-central-1", expires=900)
    signed = {name: said[name] for name in sorted(said) if name not in UNSIGNED}
    request = AWSRequest("GET", "https://kafka.eu-central-1.amazonaws.com/", params=signed)
    request.context["timestamp"] = said["X-Amz-Date"]
    request.headers["host"] = "kafka.eu-central-1.amazonaws.com"
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return signer.signature(text, request)


UNSIGNED = ("X-Amz-Signature", "User-Agent")


def test_missing_credentials_are_told() -> None:
    with pytest.raises(InvalidError, match="no credentials of AWS") as caught:
        MskSigner("eu-central-1").fetch(time.time())

    assert "P179" == caught.value.code
    assert "aws sts get-caller-identity" in caught.value.hint


def test_a_signer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(InvalidError, match="not installed here") as caught:
        MskSigner("eu-central-1").fetch(time.time())

    assert ("P207", True) == (caught.value.code, "penstock[msk]" in caught.value.hint)


@pytest.mark.parametrize(
    ("brokers", "region"),
    [
        ("b-1.shop.x1y2.c3.kafka.eu-central-1.amazonaws.com:9098,b-2.x:1", "eu-central-1"),
        ("boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("kafka.example.com:9092", ""),
    ],
)
def test_a_region_is_read_off_the_brokers_names(brokers: str, region: str) -> None:
    assert region == region_of(brokers)
