"""Numbers as people read them: ages, sizes, counts, rates.

Invariants: pure; cut off, never rounded up to more than there is.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from penstock.core.maintenance import TableHealth

NOTHING = "-"
NOT_KNOWN = "?"
CUT = "…"

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400  # seconds
_WHOLE_FROM = 10  # rates from here on have no fraction

_MUCH_BYTES = 4_000_000
"""From how many bytes that each commit writes again of metadata on that is worth a word."""
_SIZES = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))


def count_text(count: int | None) -> str:
    """Write a count with thousands separated: `336,776`; a dash for what is not known."""
    return NOTHING if count is None else f"{count:,}"


def number_of(count: int | None, noun: str) -> str:
    """Write a count with its noun: `1 table`, `20,000 rows`, `? rows` while it is not known."""
    if count is None:
        return f"{NOT_KNOWN} {noun}s"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def rate_text(per_second: float) -> str:
    """Write a rate per second: `4,812`, `0.3`, and a dash for none."""
    if per_second <= 0:
        return NOTHING
    return f"{int(per_second):,}" if per_second >= _WHOLE_FROM else f"{per_second:.1f}"


def size_text(size_bytes: int) -> str:
    """Write a size in bytes with one digit after the point: `1.2 MB`."""
    for unit, factor in _SIZES:
        if size_bytes >= factor:
            return f"{size_bytes * 10 // factor / 10:.1f} {unit}"
    return f"{size_bytes} B"


def seconds_text(seconds: float) -> str:
    """Write how long an act took: `24 ms`, `1.3 s`, `2m 05s`."""
    if seconds < 1:
        return f"{int(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < _MINUTE else age_text(int(seconds * 1000))


def age_text(age_ms: int | None) -> str:
    """Write how long ago something was, in two units at most: `12s`, `2m 05s`, `3h 40m`, `2d 3h`;
    a dash for what is not known.
    """
    if age_ms is None:
        return NOTHING
    seconds = max(age_ms, 0) // 1000
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m {seconds % _MINUTE:02}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h {seconds % _HOUR // _MINUTE:02}m"
    return f"{seconds // _DAY}d {seconds % _DAY // _HOUR}h"


def health_text(health: TableHealth, now_ms: int) -> str:
    """Say how the files of a table lie, worst first: `482 files where 9 would do, in 4 groups`."""
    files = number_of(health.files, "file")
    parts = [f"{files}, {size_text(health.size_bytes)}"]
    if health.excess_files or (health.groups and not health.late):
        groups = number_of(health.groups, "group")
        parts = [f"{files} where {health.files_after:,} would do, in {groups}"]
    if health.doubled:
        parts.insert(0, f"rows that may be there twice ({one_line(health.doubled)})")
    if health.late:
        parts.append(f"{number_of(health.late, 'file')} of rows that wait for their partitions")
    if health.deleted:
        parts.append(f"{health.deleted_share:.0%} of its rows are deleted")
    parts.append(f"metadata {size_text(health.metadata_bytes)}")
    if health.commit_bytes >= _MUCH_BYTES:
        parts.append(f"each commit writes {size_text(health.commit_bytes)} of them again")
    if health.maintained is not None:
        ago = age_text(now_ms - health.maintained.at_ms)
        parts.append(f"last maintained {ago} ago by {one_line(health.maintained.by)}")
    return "; ".join(parts)


def one_line(text: str) -> str:
    """Keep foreign text from breaking a line or steering a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)


def name_text(name: str, cells: int | None = None) -> str:
    """Write a name of others, signs that cannot be printed as escapes; in so many cells of a
    terminal, where a wide sign takes two, without its middle where it is longer.
    """
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in name
    )
    if cells is None or cell_len(shown) <= cells:
        return shown
    room = max(cells - cell_len(CUT), 0)
    tail = shown
    while cell_len(tail) > room // 2:
        tail = tail[1:]
    return set_cell_size(shown, room - cell_len(tail)).rstrip() + CUT + tail if room else CUT


def padded(text: str, cells: int) -> str:
    """Fill a text with blanks up to so many cells of a terminal."""
    return text + " " * max(cells - cell_len(text), 0)
