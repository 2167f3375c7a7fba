"""Run a pipeline under its rules, after leveling its tables under the rules they were fed with.

Invariant: the present rules count only once all tables are level, or a human said so (protocol.md
2): "a changed spec takes effect only where all tables are level".
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.core.errors import DecisionNeededError
from penstock.landing.coordinator import Ended, coordinate
from penstock.landing.leveling import Leveling
from penstock.landing.settings import Settings, Until, World

Former = Callable[[str], Settings]
"""Gives the settings of today with the rules of a text that the store kept."""


def run(
    settings: Settings,
    world: World,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool,
    former: Former,
) -> Ended:
    """Run a pipeline to its end. Raises any PenstockError that concerns it as a whole."""
    ended = coordinate(settings, world, stop, until, takeover=takeover)
    if ended.level_first is None:
        return ended
    _level(settings, world, stop, ended.level_first, former)
    if stop.is_set():
        return ended
    return coordinate(settings, world, stop, until)


def _level(
    settings: Settings, world: World, stop: threading.Event, leveling: Leveling, former: Former
) -> None:
    texts = [world.store.rules(settings.pipeline, each) for each in leveling.rules_hashes]
    if len(texts) != 1 or texts[0] is None:
        stretches = "; ".join(
            f"{table} {at}{covered}"
            for table, ranges in leveling.stretches.items()
            for at, covered in ranges.items()
        )
        raise DecisionNeededError(
            f"the spec changed while tables were not level, and the former rules are lost: "
            f"{stretches}",
            code="P189",
            hint="to judge these stretches by the present rules:  penstock run --accept rules",
        )
    ended = coordinate(former(texts[0]), world, stop, "caught-up", ends=leveling.ends)
    for table, error in ended.parked.items():
        if table in leveling.stretches:
            raise error
