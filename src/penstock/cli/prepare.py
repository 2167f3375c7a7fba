"""`penstock prepare`."""

from __future__ import annotations

import os

from penstock.cli.output import print_json, print_line, say
from penstock.cli.parameters import Json
from penstock.observe.formatting import size_text


def prepare(*, json: Json = False) -> int:
    """Cache JVM classes so that Spark starts in half the time on this machine.

    The first run does this in the background unless the spec says `spark: { prepare: false }`; this
    command does it now, for a container image. It takes about half a minute and 150 MB, in the
    Python environment or, where that is read-only, in the user's cache folder. Remove the file to
    undo it.

    Example: penstock prepare
    """
    from penstock.engines.spark.class_archive import make_archive

    if not json:
        say("Starting Spark to record the classes it loads; this takes about half a minute.")
    path = make_archive(os.environ)
    size = path.stat().st_size
    if json:
        print_json({"archive": str(path), "bytes": size})
    else:
        print_line(f"{path}: {size_text(size)}; Spark starts from it from now on")
    return 0
