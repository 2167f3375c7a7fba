"""What an error of a broker says to a person, and what to do."""

import pytest

from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions import answers
from penstock.core.errors import InvalidError, UnavailableError

SETTINGS = KafkaSettings("k1:9092", (), (), "topic_id", {"sasl.username": "shop"})


@pytest.mark.parametrize(
    ("error", "what", "code", "hint"),
    [
        (53, "transactional id penstock-a-0", "P281", "--transactional-id 'penstock-a-0'"),
        (31, "the cluster", "P281", "--operation Alter --cluster"),
        (29, "topic shop.orders", "P204", "--topic 'shop.orders'"),
        (3, "topic shop.orders", "P205", "correct its name"),
        (50, "transactional id a", "P283", "transaction.max.timeout.ms"),
    ],
)
def test_what_no_attempt_cures_names_the_cure(error, what, code, hint):
    refused = answers.refused(error, what, SETTINGS)

    assert isinstance(refused, InvalidError)
    assert code == refused.code
    assert hint in refused.hint


def test_what_may_pass_has_kafkas_name_for_it():
    refused = answers.refused(15, "transactional id a", SETTINGS)

    assert isinstance(refused, UnavailableError)
    assert "P280" == refused.code
    assert "CoordinatorNotAvailable, error 15" in refused.message


def test_a_connection_that_was_lost_may_pass():
    error = answers.unconnected(FallbackError("cut", lost=True), "topic a", SETTINGS)

    assert "P280" == error.code
