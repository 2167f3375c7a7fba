"""What a storage says, sorted by the action that it needs."""

from __future__ import annotations

import pytest

from penstock.connectors.delta.errors import refused


@pytest.mark.parametrize(
    ("said", "code", "exit_code"),
    [
        (
            "AWS Error NETWORK_CONNECTION during PutObject: curlCode: 7, Could not connect",
            "P430",
            75,
        ),
        ("AWS Error NETWORK_CONNECTION during PutObject: curlCode: 28, Timeout", "P430", 75),
        ("Generic S3 error: error sending request for url (http://127.0.0.1:1/b)", "P430", 75),
        ("AWS Error ACCESS_DENIED during PutObject operation: Access Denied.", "P431", 2),
        ("[Errno 13] Permission denied: '/delta'", "P431", 2),
        ("No space left on device (os error 28)", "P480", 75),
    ],
)
def test_a_storage_that_does_not_answer_is_not_one_that_refuses_to_be_written(
    said: str, code: str, exit_code: int
) -> None:
    error = refused("the catalog delta at s3://lake", said)

    assert (code, exit_code, True) == (error.code, error.exit_code, bool(error.hint))
