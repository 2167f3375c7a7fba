"""The block `commit` of a spec.

Invariant: every setting has a description, from which the reference is generated, and a default.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.settings.fields import Bytes, Count, Seconds, Setting


class CommitSettings(Setting):
    """How often to commit, and how much at a time; the first limit that is reached counts."""

    every_seconds: Seconds = Field(30.0, alias="every", description="Longest time of an epoch.")
    or_bytes: Bytes = Field(
        256_000_000,
        description="Size of an epoch as written, estimated from former epochs.",
    )
    or_records: Count = Field(10_000_000, description="Records in an epoch.")
    timeout_seconds: Seconds = Field(
        120.0, alias="timeout", description="How long a slice may read before it returns."
    )
    anchor_every_seconds: Seconds = Field(
        3600.0,
        alias="anchor_every",
        description="Longest time without a commit of progress for a table that gets no rows.",
    )
    retain: Annotated[Count, Field(le=200)] = Field(
        25,
        description="Penstock's snapshots to keep in a table, in Iceberg besides those of the last "
        "hour; snapshots of others are never removed.",
    )
    at_once: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = Field(
        "auto",
        description="How many tables are committed to at once. auto: 8 to 64, as many as pay: the "
        "later catalog and storage answer, the more.",
    )
