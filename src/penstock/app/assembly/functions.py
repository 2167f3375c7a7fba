"""A user's Python functions, found by their import path, on the driver and on executors.

Invariant: whatever a function raises is a `FunctionError`; nothing else of it leaves here.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.rows.route.compute import Call, FunctionError


@lru_cache(maxsize=64)
def function_at(path: str) -> Call:
    """Import a function by `module:function`. Raises InvalidError (P149)."""
    module, _, name = path.partition(":")
    try:
        found: Any = getattr(import_module(module), name)
    except Exception as error:  # a module of the user's may raise whatever it likes
        raise InvalidError(
            f"the function {path} cannot be imported: {type(error).__name__}: {error}"[:300],
            code="P149",
            hint="put its folder on PYTHONPATH; executors get a file by"
            "  spark: { conf: { spark.submit.pyFiles: shop_rules.py } }",
        ) from error
    if not callable(found):
        raise InvalidError(
            f"{path} is a {type(found).__name__}, not a function",
            code="P149",
            hint="name a function that takes and returns a pyarrow.RecordBatch",
        )

    def call(rows: pa.RecordBatch) -> object:
        try:
            return found(rows)
        except Exception as error:
            raise FunctionError(type(error).__name__) from error

    return call
