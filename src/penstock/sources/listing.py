"""Finds the files that a pattern names, on a disk or in S3, and opens them.

Invariants:
- a file is known by its path below the pattern's fixed part, whatever is above;
- `*` and `?` stay within a folder, `**` goes into those below; what begins with a dot or `_` is
  found only by a pattern that writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyarrow import fs

from penstock.core.errors import InvalidError
from penstock.files.filesystems import filesystem_of
from penstock.files.storage_settings import S3

Order = Literal["modified", "name"]
FILES_MAX = 100_000
"""Each has a position of its own in the offsets topic."""
_WILD = re.compile(r"[*?\[]")
_PARTS = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])")
_BELOW = {"**/": "(?:[^/._][^/]*/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file: its name below the pattern's fixed part, its size, and when it was modified (ns)."""

    name: str
    size: int
    modified: int


class Listing:
    """Lists the files of a pattern; a folder stands for all files in it."""

    def __init__(self, pattern: str, order: Order, options: Mapping[str, str]) -> None:
        self._pattern, self._order = pattern, order
        self._filesystem = filesystem_of(pattern, options)
        self.base, self._names = _parted(pattern.removeprefix(S3))
        self._is_deep = "**" in self._names or "/" in self._names
        self._regex = _regex_of(self._names)

    def files(self) -> Sequence[FoundFile]:
        """Return the files in their order. Raises InvalidError (P858), OSError."""
        selector = fs.FileSelector(self.base, recursive=self._is_deep)
        try:
            found = self._filesystem.get_file_info(selector)
        except FileNotFoundError as error:
            raise InvalidError(
                f"there is no folder {self.base} for the files {self._pattern}",
                code="P858",
                hint="make it, or correct  from.files  in the spec",
            ) from error
        files = [
            FoundFile(name, each.size, each.mtime_ns)
            for each in found
            if each.type is fs.FileType.File
            and self._regex.fullmatch(name := each.path.removeprefix(self.base).lstrip("/"))
        ]
        if len(files) > FILES_MAX:
            raise InvalidError(
                f"{len(files):,} files match {self._pattern}, and each has a position:"
                f" {FILES_MAX:,} are allowed",
                code="P858",
                hint="remove those that are published, and forget them:  penstock publish"
                " --accept gap",
            )
        if self._order == "name":
            return sorted(files, key=lambda each: each.name)
        return sorted(files, key=lambda each: (each.modified, each.name))

    def info(self, name: str) -> FoundFile:
        """Look at one file. Raises FileNotFoundError, OSError."""
        (found,) = self._filesystem.get_file_info([self._path(name)])
        if found.type is not fs.FileType.File:
            raise FileNotFoundError(f"there is no file {self._path(name)}")
        return FoundFile(name, found.size, found.mtime_ns)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading at any place. Raises OSError."""
        return self._filesystem.open_input_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.base.rstrip('/')}/{name}"


def _parted(path: str) -> tuple[str, str]:
    """Part a pattern into the folder that is listed, and what names have to match below it."""
    wild = _WILD.search(path)
    if wild is None and path.endswith("/"):
        return path.rstrip("/") or "/", "*"
    fixed = path[: wild.start()] if wild else path
    base = fixed[: fixed.rfind("/") + 1]
    return base.rstrip("/") or ("/" if base else ""), path[len(base) :]


def _regex_of(names: str) -> re.Pattern[str]:
    """Return what the name of a file has to match."""
    parts = [_BELOW.get(each) or _literal(each) for each in _PARTS.split(names)]
    hidden = "" if re.search(r"(^|/)[._]", names) else r"(?![._])(?!.*/[._])"
    return re.compile(hidden + "".join(parts), re.DOTALL)


def _literal(text: str) -> str:
    if text.startswith("[") and text.endswith("]") and len(text) > 2:  # noqa: PLR2004
        body = re.escape(text[1:-1]).replace(r"\-", "-")
        return f"[{'^' + body.removeprefix(re.escape('!')) if text[1] == '!' else body}]"
    return re.escape(text)
