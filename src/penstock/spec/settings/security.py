"""The blocks of a spec that say where a cluster of Kafka is, and how to log in.

Invariant: which settings a mechanism has is in `USED_BY`, for checks and connectors alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.language import notation
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import shown
from penstock.spec.secrets import without_password
from penstock.spec.settings.fields import (
    AtLeastOne,
    OwnCertificate,
    OwnKey,
    OwnKeyPassword,
    Setting,
    Text,
    TrustedCertificates,
    reading,
)

USER = ("username", "password")
CLIENT = ("token_endpoint", "client_id", "client_secret")
OF_CLIENT = (*CLIENT, "scope", "token_ca")
"""What says nothing beside a command that prints tokens."""
USED_BY: Mapping[str, tuple[str, ...]] = {
    "plain": USER,
    "scram-sha-256": USER,
    "scram-sha-512": USER,
    "oauthbearer": (*OF_CLIENT, "token_command", "extensions"),
    "aws_msk_iam": ("region",),
    "gssapi": ("kerberos_service", "kerberos_principal", "kerberos_keytab"),
}
"""The settings of each mechanism."""
OF_SASL = tuple(dict.fromkeys(name for names in USED_BY.values() for name in names))


def _endpoint(text: str) -> str:
    if text.startswith("${") or (text.startswith(("https://", "http://")) and "@" not in text):
        return text
    fact = f"{shown(without_password(text))} is not an address of http without a user"
    raise MalformedError("P125", fact, "write https://login.example.com/oauth2/token")


def _word(text: str) -> str:
    if "${" not in text:
        return text
    fact = "every user of a host sees the words of a command: a reference is not replaced in one"
    raise MalformedError("P122", fact, "let the command find its secrets itself")


class Security(Setting):
    """How to connect to the brokers; mapped to each client that is used.

    Secrets are references, resolved in the process that uses them.
    """

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        "plaintext", description="How the connection is protected."
    )
    mechanism: (
        Literal["plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "aws_msk_iam", "gssapi"]
        | None
    ) = Field(
        None,
        description="How the client authenticates, with a sasl protocol. gssapi needs a librdkafka"
        " that was built with it, and lands only.",
    )
    username: Text | None = Field(
        None, description="Name of the user, with mechanism plain or scram."
    )
    password: Text | None = Field(
        None,
        description="Password of the user, as a reference.",
        examples=["${file:/run/secrets/kafka}"],
    )
    token_endpoint: Annotated[Text, reading(_endpoint)] | None = Field(
        None,
        description="With oauthbearer: where an issuer gives tokens for a client's credentials.",
        examples=["https://login.example.com/oauth2/token"],
    )
    client_id: Text | None = Field(None, description="Name of the client at the issuer.")
    client_secret: Text | None = Field(
        None,
        description="Secret of the client, as a reference.",
        examples=["${file:/run/secrets/client}"],
    )
    scope: Text | None = Field(None, description="Scopes to ask for, separated by blanks.")
    token_ca: Text | None = Field(
        None,
        description="Path of the certificates to trust at the token endpoint (PEM); by default the"
        " system's.",
    )
    token_command: AtLeastOne[Annotated[Text, reading(_word)]] | None = Field(
        None,
        description="With oauthbearer, in place of an endpoint: the words of a command that prints"
        " a token within 10 s, or JSON with access_token and expires_in. It runs on each host.",
        examples=["[gcloud, auth, print-access-token]"],
    )
    extensions: Mapping[Annotated[str, Field(pattern="^[A-Za-z]+$")], Text] = Field(
        default_factory=dict,
        max_length=20,
        description="What is sent beside each token, by name.",
        examples=["{ logicalCluster: lkc-1234, identityPoolId: pool-1 }"],
    )
    region: Annotated[str, Field(pattern="^([a-z0-9-]+|\\$\\{env:.*\\})$")] | None = Field(
        None,
        description="With aws_msk_iam: the region of AWS; by default as the brokers' names say.",
        examples=["eu-central-1"],
    )
    kerberos_service: Text | None = Field(
        None, description="With gssapi: the service's name of the brokers; by default kafka."
    )
    kerberos_principal: Text | None = Field(None, description="Own principal of Kerberos.")
    kerberos_keytab: Text | None = Field(None, description="Path of the principal's key table.")
    ca: TrustedCertificates = None
    certificate: OwnCertificate = None
    key: OwnKey = None
    key_password: OwnKeyPassword = None


class Cluster(Setting):
    """A cluster of Kafka, and how to connect to it."""

    brokers: Annotated[str, reading(notation.brokers)] = Field(
        description="Bootstrap addresses: host:port, separated by commas.",
        examples=["localhost:9092"],
    )
    security: Security = Field(
        default_factory=Security, description="Encryption and authentication."
    )
