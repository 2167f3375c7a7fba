"""Whether Spark is installed here, and of a release that was tried (docs/design/0369).

Invariant: importing this module, and asking whether Spark is installed, imports no pyspark.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from penstock.core.errors import InvalidError

SPARK_RELEASES = ("4.1",)
"""The releases with which the suites of Spark pass."""


def require_installed() -> None:
    """Raise InvalidError (P297) where there is no PySpark."""
    if find_spec("pyspark") is None:
        raise InvalidError(
            "Spark is not installed.",
            code="P297",
            hint='pip install "penstock[spark]", or write  spark: { master: inline }',
        )


def require_release(version: str) -> None:
    """Raise InvalidError (P298) unless a version, such as `4.1.4`, is of a release in the list."""
    release = ".".join(re.findall(r"\d+", version)[:2])
    if release not in SPARK_RELEASES:
        raise InvalidError(
            f"Spark {version} is not supported: use Spark {' or '.join(SPARK_RELEASES)}.",
            code="P298",
            hint='pip install --upgrade "penstock[spark]", and the same release on the cluster',
        )
