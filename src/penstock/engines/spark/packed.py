"""Which versions are in an environment that was packed for executors.

Only names are read, no file: `lib/python3.11/site-packages/pyarrow-26.0.1.dist-info/METADATA`.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from penstock.engines.spark.versions import ABSENT, versions_here

_INSTALLED = re.compile(
    r"lib/python(?P<python>\d+\.\d+)/site-packages/"
    r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-/]+)\.dist-info(?:/.*)?"
)


def versions_in(archive: Path) -> dict[str, str]:
    """Return the versions in a packed environment, of what driver and executors must agree on.

    It is read to its end, which takes seconds. Raises OSError, EOFError and tarfile.TarError for
    what is no archive.
    """
    found = dict.fromkeys(versions_here(), ABSENT)
    with tarfile.open(archive) as packed:
        for member in packed:
            installed = _INSTALLED.fullmatch(member.name)
            if installed is None:
                continue
            found["python"] = installed["python"]
            name = re.sub(r"[-_.]+", "-", installed["name"]).lower()
            if name in found:
                found[name] = installed["version"]
    return found
