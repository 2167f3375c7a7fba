"""How rows become messages, and the topic that they go into: blocks of a publication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.language import notation
from penstock.spec.settings.fields import Count, Fraction, FreeText, Setting, Text, reading


class ValueSettings(Setting):
    """What the value of a message is."""

    format: Literal["json", "bytes"] = Field(
        "json",
        description="json: an object of all columns. bytes: one column of binary or strings, as it"
        " is.",
    )
    column: Text | None = Field(
        None, description="With format bytes: the column.", examples=["payload"]
    )
    decimals: Literal["string", "number"] = Field(
        "string",
        description="Whether JSON has decimals as text or as numbers, which many readers take for"
        " doubles.",
    )
    times: Literal["iso", "millis"] = Field(
        "iso",
        description="Whether JSON has timestamps as ISO 8601, to the microsecond, or as"
        " milliseconds since 1970, rounded down; dates and times of day are ISO 8601.",
    )


class TopicSettings(Setting):
    """How the topic that is published into is created."""

    create: bool = Field(False, description="Create the topic if it is missing.")
    partitions: Count | None = Field(
        None, description="Partitions of a new topic; by default as many as the brokers say."
    )
    config: Mapping[str, FreeText] = Field(
        default_factory=dict,
        description="Settings of a new topic, by Kafka's names.",
        examples=["{ cleanup.policy: compact }"],
    )


class RejectsSettings(Setting):
    """Where rows go that are no messages."""

    into: Annotated[str, reading(notation.topic_name)] = Field(
        description="The topic for rejects. topic.create creates it as well, with the brokers'"
        " settings.",
        examples=["crm.segments.rejects"],
    )
    stop_above_share: Fraction = Field(
        0.01,
        alias="stop_above",
        description="Share of the rows of a transaction above which it is not sent (P860), from"
        " 100 rejects on.",
    )
