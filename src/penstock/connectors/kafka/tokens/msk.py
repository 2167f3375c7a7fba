"""Tokens for Amazon MSK: a request to connect, signed with the credentials of AWS.

Invariants:
- credentials are found as every tool of AWS finds them, anew for each token; none is in an error;
- nothing is asked of AWS for a token itself: the brokers verify the signature.

Source: aws-msk-iam-sasl-signer-python; AWS, "Create signed requests" (SigV4 by query, 900 s).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.connectors.kafka.tokens.token import Token, no_token, no_token_now, token_of
from penstock.core.errors import InvalidError

_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class MskSigner:
    """Signs for the brokers of one region of AWS."""

    region: str

    def fetch(self, now: float) -> Token:
        """Return a new token. Raises InvalidError (P179, P207), UnavailableError (P178)."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise InvalidError(
                "mechanism aws_msk_iam needs the signer of Amazon, which is not installed here",
                code="P207",
                hint='pip install "penstock[msk]"  wherever the driver and workers run',
            ) from error
        try:
            value, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(self.region)
        except (AttributeError, ValueError) as error:  # so it is where it finds no credentials
            raise no_token(
                "there are no credentials of AWS",
                hint="aws sts get-caller-identity  as the user and on the host of this process",
            ) from error
        except BotoCoreError as error:
            raise no_token_now(
                f"credentials of AWS do not come: {type(error).__name__}",
                hint="aws sts get-caller-identity  as the user and on the host of this process",
            ) from error
        return token_of(value, now, stated_seconds=expires_at_ms / 1000 - now)


def region_of(brokers: str) -> str:
    """Return the region of AWS that the addresses of brokers name, or nothing."""
    found = _BROKER.search(brokers)
    return found[1] if found else ""
