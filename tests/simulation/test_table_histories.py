"""Tables as sources, played: whatever other writers do, no row is published twice or left out."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.story.table_publishing import TableStory

from penstock.publishing.settings import Changes

HISTORIES = 150


@pytest.mark.parametrize("changes", ["stop", "skip", "whole"])
def test_any_history_of_a_table_is_published_once(changes: Changes) -> None:
    stops: Counter[str] = Counter()
    for seed in range(HISTORIES):
        story = TableStory(seed, changes)
        story.play(acts=12)
        stops += story.stops

    assert stops["P826"]
    assert bool(stops["P827"]) == (changes == "stop")
