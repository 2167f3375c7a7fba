"""The brokers' release is read off the requests they understand."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.health import newest_record, release_of
from penstock.ports.checks import CheckStatus


def line(least: int, newest: int) -> str:
    return f"APIVERSION [thrd:b:9092/bootstrap]:   ApiKey Fetch (1) Versions {least}..{newest}"


@pytest.mark.parametrize(
    ("newest", "release"),
    [
        (18, "4.1 or later"),
        (17, "3.9 or 4.0"),
        (15, "3.5 or 3.6"),
        (13, "3.1 to 3.4"),
        (12, "2.7 to 3.0"),
        (11, "older than 2.7"),
        (25, "4.1 or later"),
    ],
)
def test_the_newest_fetch_reports_the_release(newest: int, release: str) -> None:
    assert (newest, release) == release_of(["Broker API support:", line(4, newest)])


def test_without_a_word_on_fetch_nothing_is_reported() -> None:
    assert None is release_of(["Broker API support:", "ApiKey Produce (0) Versions 0..13"])


def test_of_all_partitions_the_newest_record_counts() -> None:
    ahead = [(1_000_000, "a"), (5_000, "a"), (-1, "b")]

    found = newest_record(ahead, 100_000)

    assert CheckStatus.WARNING is found.status
    assert "the newest record of a is 900 s ahead of this machine's clock" == found.message
    assert CheckStatus.OK is newest_record(ahead[1:], 100_000).status
    assert "there are none with a time to compare" == newest_record(ahead[2:], 0).message
