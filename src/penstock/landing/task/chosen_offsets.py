"""The only records of partitions that land, where a person lands chosen ones again.

Invariants: offsets of a partition ascend, each once; a job bears those that its lanes cover, as
texts.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Lane
from penstock.files.positions import NONE, joined, packed, unpacked

Offsets = npt.NDArray[np.int64]
ChosenOffsets = Mapping[TopicPartition, Offsets]
PackedOffsets = Mapping[tuple[str, int], str]
"""Chosen offsets by topic id and partition, as `files.positions.packed` writes them."""


def packed_within(chosen: ChosenOffsets, lanes: Sequence[Lane]) -> PackedOffsets:
    """Return the chosen offsets that lanes cover."""
    found: dict[tuple[str, int], list[Offsets]] = defaultdict(list)
    for lane in lanes:
        offsets = chosen.get(lane.at, NONE)
        start, stop = np.searchsorted(offsets, [lane.covered.start, lane.covered.stop])
        found[lane.at.topic_id, lane.at.partition].append(offsets[start:stop])
    return {at: packed(joined(parts)) for at, parts in found.items()}


def are_chosen(among: PackedOffsets, at: TopicPartition, offsets: Offsets) -> npt.NDArray[np.bool_]:
    """Return which offsets of a partition are among the chosen ones."""
    chosen = _unpacked(among.get((at.topic_id, at.partition), ""))
    if not len(chosen):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(chosen, offsets)
    found: npt.NDArray[np.bool_] = chosen.take(places, mode="clip") == offsets
    return found


def next_chosen(chosen: ChosenOffsets, positions: Positions) -> dict[TopicPartition, Offset]:
    """Return the positions of the first chosen records from some positions on; these, after all."""
    found = {}
    for at, position in positions.items():
        later = chosen[at][np.searchsorted(chosen[at], position) :]
        found[at] = Offset(int(later[0])) if len(later) else position
    return found


@functools.lru_cache(maxsize=16)
def _unpacked(text: str) -> Offsets:
    """Unpack a text once for all batches of a lane."""
    return unpacked(text)
