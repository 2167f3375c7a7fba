"""The leaders of partitions, and connections to them.

Invariants:
- what the spec's `security` block means to librdkafka it means here; what cannot be said to
  Python's `ssl` in the same sense is an FallbackError, and librdkafka reads;
- a leader is cached until a broker says otherwise; then it is looked up again;
- one connection a broker, in the process that made it.

Source: KIP-320 (leader epochs), KIP-516 (topic ids); docs/design/0120.
"""

from __future__ import annotations

import base64
import contextlib
import re
import ssl
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from penstock.connectors.kafka.certificates import Renewed
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.security import TOKENS
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import PenstockError
from penstock.core.offsets import TopicPartition

METADATA_VERSION = 12
COORDINATOR_VERSION = 4
TRANSACTION = 1
"""The kind of a coordinator."""
NO_ID = uuid.UUID(int=0)
DEFAULT_PORT = 9092
DRAIN_SECONDS_MAX = 1.0
"""How long to wait for the response of an abandoned request, to keep the connection."""
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Sixteen bytes, as `log.py` writes them; an identity by name has a colon."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Name the broker that leads a partition, since which epoch, and the topic's id."""

    node: int
    epoch: int
    topic_id: uuid.UUID

    def is_of(self, at: TopicPartition) -> bool:
        """Return whether the topic is the one that was planned, as far as ids show."""
        return self.topic_id in (NO_ID, topic_id_of(at) or self.topic_id)


class Brokers:
    """The brokers of a cluster, as far as they were needed. Every method raises FallbackError."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._wires: dict[int | str, Wire] = {}
        client = settings.client
        self._tls = Renewed(client, lambda: tls_context(client), FallbackError)

    def leader(self, at: TopicPartition, *, known: Leader | None = None) -> Leader:
        """Return the leader of a partition; look it up again when it is the `known` one."""
        place = (at.topic, at.partition)
        found = self._leaders.get(place)
        if found is None or found == known or not found.is_of(at):
            self.look_up(at.topic)
            found = self._leaders.get(place)
        if found is None:
            raise FallbackError("the partition has no leader")
        return found

    def wire(self, node: int) -> Wire:
        """Return the connection with a broker, with no request under way."""
        wire = self._wires.get(node)
        if wire is not None and wire.pending is not None:  # of a range that was given up
            with contextlib.suppress(FallbackError):
                wire.answer(time.monotonic() + DRAIN_SECONDS_MAX)
        if wire is None or not wire.fresh:
            if wire is not None:
                wire.close()
            wire = self._wires[node] = self._connected(self._addresses[node])
        return wire

    def any(self) -> Wire:
        """Return a connection with some broker, with no request under way."""
        for wire in self._wires.values():
            if wire.fresh and wire.pending is None:
                return wire
        failed = FallbackError("there are no brokers")
        protocol = self._settings.client["security.protocol"]
        for address in addresses(self._settings.brokers, protocol):
            try:
                wire = self._connected(address)
            except FallbackError as error:
                failed = error
            else:
                self._wires[f"{address}"] = wire
                return wire
        raise failed

    def coordinator(self, transactional_id: str) -> tuple[int, Wire | None]:
        """Return 0 and the connection with the coordinator of an id, or Kafka's error."""
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        wire = self.any()
        answer = wire.ask(request, wire.version(request, COORDINATOR_VERSION)).coordinators[0]
        if answer.error_code:
            return answer.error_code, None
        self._addresses[answer.node_id] = (answer.host, answer.port)
        return 0, self.wire(answer.node_id)

    def look_up(self, topic: str) -> None:
        """Look up the leaders of a topic anew, and its id with them."""
        for place in [place for place in self._leaders if place[0] == topic]:
            del self._leaders[place]
        found = self.listed([topic])[0]
        if found.error_code:
            raise FallbackError(f"the topic is not listed (error {found.error_code})")

    def listed(self, topics: Sequence[str] | None) -> list[Any]:
        """Return what a broker says of topics, or of all, as it says it; note their leaders."""
        of_topic = MetadataRequest.MetadataRequestTopic
        wanted = topics and [of_topic(topic_id=NO_ID, name=each) for each in topics]
        found = self._described(wanted)
        if topics and not found.topics:
            raise FallbackError("the topic is not listed")
        for topic in found.topics:
            for each in topic.partitions if not topic.error_code else ():
                if not each.error_code and each.leader_id in self._addresses:
                    topic_id = getattr(topic, "topic_id", None) or NO_ID
                    leader = Leader(each.leader_id, each.leader_epoch, topic_id)
                    self._leaders[topic.name, each.partition_index] = leader
        return list(found.topics)

    def nodes(self) -> list[int]:
        """Look up the brokers that the cluster has now; return their numbers."""
        return sorted(each.node_id for each in self._described([]).brokers)

    def forget(self) -> None:
        """Close all connections, and forget all answers."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()
        self._leaders.clear()

    def _described(self, topics: Sequence[Any] | None) -> Any:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        wire = self.any()
        found = wire.ask(request, wire.version(request, METADATA_VERSION))
        self._addresses |= {each.node_id: (each.host, each.port) for each in found.brokers}
        return found

    def _connected(self, address: tuple[str, int]) -> Wire:
        client = self._settings.client
        tls = self._tls() if client["security.protocol"].endswith("ssl") else None
        return Wire(address, tls=tls, sasl=sasl_settings(client))


def topic_id_of(at: TopicPartition) -> uuid.UUID | None:
    """Return the id that a partition was planned under, or None where it is known by its name."""
    if _ID.fullmatch(at.topic_id) is None:
        return None
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{at.topic_id}=="))


def addresses(brokers: str, protocol: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each broker of a list, as librdkafka reads it.

    Raises FallbackError for an address of another protocol: no password goes there.
    """
    for each in brokers.split(","):
        scheme, _, text = each.strip().rpartition("://")
        if scheme and scheme.lower() != protocol.lower():
            raise FallbackError("an address of a broker names another protocol", lasting=True)
        host, colon, port = text.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        if not host or not port.isdecimal():
            raise FallbackError("an address of a broker is not understood", lasting=True)
        yield host.strip("[]"), int(port)


class _Bearer(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Hands a token to kafka-python's mechanism."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token, self._extensions = token, extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> Mapping[str, str]:
        return self._extensions


def sasl_settings(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of kafka-python's mechanisms, with a token that is good; nothing without
    SASL. GSSAPI is left to librdkafka.
    """
    if not client["security.protocol"].startswith("sasl"):
        return {}
    mechanism, tokens = client["sasl.mechanism"], client.get(TOKENS)
    if mechanism == "GSSAPI":
        raise FallbackError("mechanism gssapi", lasting=True)
    if tokens is not None:
        try:
            bearer = _Bearer(tokens.token().value, tokens.extensions)
        except PenstockError as error:
            raise FallbackError("there is no token for the brokers", lasting=True) from error
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": bearer}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": client["sasl.username"],
        "sasl_plain_password": client["sasl.password"],
    }


def tls_context(client: Mapping[str, Any]) -> ssl.SSLContext:
    """Make the context that librdkafka's properties describe: names are checked, TLS 1.2 at least.

    Keys as text would have to go through a file: they are left to librdkafka.
    """
    if {"ssl.certificate.pem", "ssl.key.pem"} & client.keys():
        raise FallbackError("a client certificate as text", lasting=True)
    try:
        context = ssl.create_default_context(
            cafile=client.get("ssl.ca.location"), cadata=client.get("ssl.ca.pem")
        )
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if "ssl.certificate.location" in client:
            context.load_cert_chain(
                client["ssl.certificate.location"],
                client["ssl.key.location"],
                client.get("ssl.key.password", ""),
            )
    except (OSError, ValueError) as error:
        raise FallbackError(f"no TLS settings: {type(error).__name__}", lasting=True) from error
    return context


def only(topics: Sequence[Any] | None, at: TopicPartition, topic_id: uuid.UUID) -> Any:
    """Return the one partition of an answer that was asked about. Raises FallbackError."""
    if topics and len(topics) == 1 and len(topics[0].partitions) == 1:
        topic, found = topics[0], topics[0].partitions[0]
        index = getattr(found, "partition_index", None)
        index = found.partition if index is None else index
        name, id_ = topic.topic, getattr(topic, "topic_id", None)
        if index == at.partition and (name == at.topic or id_ == topic_id):
            return found
    raise FallbackError("an answer about something else")
