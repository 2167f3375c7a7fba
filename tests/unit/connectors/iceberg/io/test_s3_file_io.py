"""Settings of S3 that go to the store of metadata files, and those that leave PyIceberg its way."""

import pytest

from penstock.connectors.iceberg.io.s3_file_io import settings_of

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
HOME = {"HOME": "/nowhere"}


def test_settings_are_translated_whichever_of_their_names_they_bear():
    given = {**KEYS, "client.region": "eu", "s3.endpoint": "http://x:9", "uri": "sqlite:///a"}

    assert {
        "access_key_id": "k",
        "secret_access_key": "s",
        "region": "eu",
        "endpoint_url": "http://x:9",
        "allow_http": "True",
    } == dict(settings_of(given, HOME))


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        ({**KEYS, "s3.region": "eu", "s3.role-arn": "arn"}, HOME),
        ({**KEYS, "s3.region": "eu", "s3.proxy-uri": "http://p"}, HOME),
        (KEYS, HOME),
        ({**KEYS, "s3.region": "eu", "s3.endpoint": "minio:9000"}, HOME),
        ({"s3.region": "eu"}, {**HOME, "AWS_PROFILE": "dev"}),
        ({"s3.region": "eu"}, {**HOME, "AWS_SHARED_CREDENTIALS_FILE": "/c"}),
    ],
)
def test_what_is_not_known_here_goes_the_librarys_own_way(given, environment):
    assert settings_of(given, environment) is None


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        ({"s3.region": "eu"}, HOME),
        (KEYS, {**HOME, "AWS_REGION": "eu"}),
        ({**KEYS, "s3.region": "eu"}, {**HOME, "AWS_PROFILE": "dev"}),
    ],
)
def test_keys_and_region_may_come_from_the_environment(given, environment):
    assert settings_of(given, environment) is not None
