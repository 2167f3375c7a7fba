"""What a publication of news cannot say of its messages."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.spec.problems import Problem
from penstock.spec.settings.publication import PublicationRule
from penstock.spec.settings.sources import NewsToPublish


def check_news(index: int, rule: PublicationRule) -> Iterator[Problem]:
    """Find settings of messages that news do not have: their key and their headers are fixed."""
    if not isinstance(rule.from_, NewsToPublish):
        return
    for name in ("key", "delete_when", "timestamp", "headers"):
        if name in rule.model_fields_set:
            fact = f"the key and the headers of news are fixed, and  {name}  is for other rows"
            yield Problem(("publish", index, name), "P882", fact, "leave it out")
    if rule.value.format == "bytes":
        fact = "news have no column of bytes"
        yield Problem(("publish", index, "value", "format"), "P882", fact, "format: json")
