"""Which files of a table's storage nothing names, and which of them may be deleted: a pure plan.

Theory of operation: a file that nothing names is noted, with what had landed then. A later sweep
deletes it if nothing has named it since, for the grace time, so that a reader of an old snapshot
reads to its end. What a former life of the pipeline wrote, whose store is lost, may still be on
its way into the table: such a file waits until each chain of the pipeline has landed once more,
since only that fences the former life (docs/design/0289, 0308).

Invariants:
- files are told by the last part of their path, which is random text: no two ways to write a path
  can make a file that is named look like one that is not;
- only names that the pipeline gives, and manifests that Penstock writes, are looked at;
- young files are left out: an epoch may be writing them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

HORIZON_MS = 259_200_000
"""Three days: no file younger than that is looked at."""
GRACE_MS = 432_000_000
"""Five days, for which a file stays that was noted, as long as Iceberg keeps snapshots."""
METADATA_MARK = "penstock-"
"""What the names of manifests and manifest lists have before their random part."""
_NOTES_VERSION = 1
_DATA = (
    r"(maintenance-{8}|(?P<claimed>\d+-\d+-{8}(-q|-sought-\d+)?|closing-{8}|{32}-[^-/]+))"
    r"-{16}(-deletes)?\.(parquet|orc|puffin)"
)
_HEX = re.compile(r"\{(\d+)\}")
_HASH = r"([01]{8}-)?"
"""What object storage layouts of Iceberg put before a name, where paths have no partitions."""
_REARRANGED = re.compile(r"-maintenance-[0-9a-f]{8}-[0-9a-f]{16}\.(parquet|orc)$")
_METADATA = rf"(snap-\d+-0-)?{METADATA_MARK}[0-9a-f-]{{36}}(-m\d+)?\.avro"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A file on storage; `modified_ms` by the storage's own clock."""

    path: str
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """Return the last part of its path."""
        return name_of(self.path)


@dataclass(frozen=True, slots=True)
class Note:
    """Names of files that nothing named at a time, and the newest commits of chains then."""

    names: frozenset[str]
    noted_ms: int
    newest: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found: files that are `due`, that were noted before and wait, and new ones.

    `unfenced` are those that wait for the next commit of each chain, their grace time being over.
    """

    due: tuple[StoredObject, ...] = ()
    waiting: tuple[StoredObject, ...] = ()
    unfenced: tuple[StoredObject, ...] = ()
    new: tuple[StoredObject, ...] = ()

    @property
    def unnamed(self) -> tuple[StoredObject, ...]:
        """Return all files that nothing names."""
        return (*self.due, *self.waiting, *self.unfenced, *self.new)


@dataclass(frozen=True, slots=True)
class SweepContext:
    """What decides on files: names that the table or the store has, former notes, and times.

    `newest` is the newest commit of each chain of the pipeline in the table.
    """

    named: Collection[str]
    notes: Sequence[Note]
    newest: Mapping[str, str]
    now_ms: int
    horizon_ms: int = HORIZON_MS
    grace_ms: int = GRACE_MS


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def is_rearranged(path: str) -> bool:
    """Return whether Penstock wrote a data file in the place of others, by its name."""
    return _REARRANGED.search(path) is not None


def own_names(pipeline: str) -> re.Pattern[str]:
    """Return the pattern of the names that a pipeline gives to files, and of manifests.

    The parts have fixed lengths, so that no name of `shop-eu` is one of `shop`. The group `claimed`
    is there in the name of what was written under a claim.
    """
    data = _HEX.sub(r"[0-9a-f]{\1}", _DATA)
    return re.compile(rf"{_HASH}{re.escape(pipeline)}-{data}|{_METADATA}")


def swept(objects: Iterable[StoredObject], pattern: re.Pattern[str], known: SweepContext) -> Sweep:
    """Sort out the files that nothing names."""
    found: dict[str, list[StoredObject]] = {"due": [], "waiting": [], "unfenced": [], "new": []}
    for each in objects:
        name = each.name
        young = each.modified_ms > known.now_ms - known.horizon_ms
        own = pattern.fullmatch(name)
        if young or own is None or name in known.named:
            continue
        note = next((note for note in known.notes if name in note.names), None)
        if note is None:
            found["new"].append(each)
        elif known.now_ms - note.noted_ms < known.grace_ms:
            found["waiting"].append(each)
        elif own["claimed"] is None or _fenced_since(note, known.newest):
            found["due"].append(each)
        else:
            found["unfenced"].append(each)
    return Sweep(**{way: tuple(files) for way, files in found.items()})


def noted_after(sweep: Sweep, known: SweepContext) -> tuple[Note, ...]:
    """Return the notes that a sweep leaves: what nothing names any longer stays, new ones come."""
    left = {each.name for each in sweep.unnamed}
    former = [Note(each.names & left, each.noted_ms, each.newest) for each in known.notes]
    new = Note(frozenset(each.name for each in sweep.new), known.now_ms, known.newest)
    return tuple(each for each in (*former, new) if each.names)


def notes_to_json(notes: Sequence[Note]) -> str:
    """Write notes as text."""
    found = [[each.noted_ms, dict(each.newest), sorted(each.names)] for each in notes]
    return json.dumps({"version": _NOTES_VERSION, "notes": found}, separators=(",", ":"))


def notes_from_json(text: str) -> tuple[Note, ...]:
    """Read notes; none where they are damaged, or of another version: then files wait anew."""
    try:
        found = json.loads(text)
        if found["version"] != _NOTES_VERSION:
            return ()
        return tuple(
            Note(frozenset(map(str, names)), int(noted_ms), dict(newest))
            for noted_ms, newest, names in found["notes"]
        )
    except (ValueError, TypeError, KeyError):
        return ()


def _fenced_since(note: Note, newest: Mapping[str, str]) -> bool:
    """Return whether each chain has landed since; never where none had landed before, or where one
    is gone: then nobody has landed what fences.
    """
    return bool(note.newest) and all(
        newest.get(chain, commit) != commit for chain, commit in note.newest.items()
    )
