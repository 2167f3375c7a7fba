"""A bearer token, and what can be read off it.

Invariants:
- a token is in no representation and in no error;
- nothing that is read off it is trusted: brokers verify it. Here it says until when to use it, and
  what the brokers will call its user.

Source: RFC 6750 2.1 (the letters of a token), RFC 7519 (JWT), RFC 6749 5.1 (`expires_in`).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import InvalidError, UnavailableError

LIFETIME_SECONDS = 300.0
"""How long a token is used that does not say how long it is good for."""
TOKEN_BYTES_MAX = 64 << 10
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True)
class Token:
    """A token, until when it is good in seconds since 1970, and its user, `""` where unknown."""

    value: str = field(repr=False)
    expires_at: float
    user: str = ""


def token_of(value: str, now: float, *, stated_seconds: float | None = None) -> Token:
    """Return a token that came at a time, in seconds since 1970.

    It is good until its own `exp`, or for as long as was stated with it, whichever ends first.
    Raises InvalidError (P179): it is no token, or had expired when it came.
    """
    if not _TOKEN.fullmatch(value) or len(value) > TOKEN_BYTES_MAX:
        raise no_token("what came is not a token: it is empty, too long or has other letters")
    claims = claims_of(value)
    ends = [now + stated_seconds] if stated_seconds is not None else []
    if isinstance(claims.get("exp"), int | float) and math.isfinite(claims["exp"]):
        ends.append(float(claims["exp"]))
    expires_at = min(ends, default=now + LIFETIME_SECONDS)
    if expires_at <= now:
        raise no_token(
            f"the token had expired {now - expires_at:,.0f} s before it came",
            hint="compare the clocks of the issuer and of this machine:  timedatectl",
        )
    return Token(value, expires_at, str(claims.get("sub", "")))


def stated(seconds: Any) -> float:
    """Read for how many seconds a token is good. Raises ValueError, TypeError: for no time."""
    found = float(seconds)
    if not 0 < found < math.inf:
        raise ValueError(f"{found} s are no time")
    return found


def claims_of(value: str) -> Mapping[str, Any]:
    """Return the claims of a JWT; none of another kind of token."""
    parts = value.split(".")
    if len(parts) != 3:  # noqa: PLR2004  header, claims and signature
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(f"{parts[1]}=="))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def no_token(
    fact: str, hint: str = "correct what kafka.security says about tokens"
) -> InvalidError:
    """Build the error for a token that will not come before a person has changed something."""
    return InvalidError(f"there is no token for the brokers: {fact}", code="P179", hint=hint)


def no_token_now(fact: str, hint: str = "wait and run again") -> UnavailableError:
    """Build the error for a token that does not come for now."""
    return UnavailableError(
        f"there is no token for the brokers yet: {fact}", code="P178", hint=hint
    )
