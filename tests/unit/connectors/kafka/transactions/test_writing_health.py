"""What `penstock doctor` asks of a cluster that publications write."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.connectors.kafka.transactions.writing_health import examine_writing
from penstock.core.errors import UnavailableError
from penstock.ports.producers import ProducerNeeds
from penstock.spec.secrets import ProcessSecrets


def test_brokers_that_do_not_answer_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each check waits for them, and permissions are named that nobody is missing."""

    def silent(self: KafkaTerms) -> None:
        del self
        raise UnavailableError("no broker answers", code="P201", hint="look at the network")

    monkeypatch.setattr(KafkaTerms, "check", silent)
    settings = read_settings({"brokers": "localhost:1", "topics": ["orders"]}, ProcessSecrets())
    needs = ProducerNeeds(("penstock-orders-0",), "penstock-orders-offsets", frozenset(), 60_000)

    assert ["P201"] == [each.code for each in examine_writing(settings, needs)]
