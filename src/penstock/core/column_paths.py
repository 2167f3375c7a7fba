"""Column paths: `a.b` is a member, `a[]` an element, `a{}` a value of a map."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce

_SIGNS = re.compile(r"[.\[{\\]")


def joined_path(path: str, name: str) -> str:
    """Return the dotted path of a member; elements are `[]` and map values `{}`.

    These signs get a backslash inside a name, so that no two paths are spelled alike.
    """
    if _SIGNS.search(name) is not None:
        name = _SIGNS.sub(r"\\\g<0>", name)
    return f"{path}.{name}" if path else name


def path_of(names: Iterable[str]) -> str:
    """Return the dotted path of the member that some names lead to."""
    return reduce(joined_path, names, "")
