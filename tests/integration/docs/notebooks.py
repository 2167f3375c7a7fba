"""Runs a notebook's cells in order, as Jupyter would, with nothing but Python.

    BROKERS=localhost:9092 python -m tests.integration.docs.notebooks examples/first-look.ipynb

runs it in a fresh folder and writes the outputs into the file.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells. Raises what a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        number += 1
        outputs = list(_run("".join(cell["source"]), names, number))
        cells.append({**cell, "execution_count": number, "outputs": outputs})
    return {**notebook, "cells": cells}


def _run(source: str, names: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        yield {"output_type": "stream", "name": "stdout", "text": text}
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": [value._repr_html_()], "text/plain": [type(value).__name__]}
        yield {
            "output_type": "execute_result",
            "execution_count": number,
            "metadata": {},
            "data": data,
        }


def main(path: Path) -> None:
    """Run a notebook in a fresh folder and keep its outputs."""
    text = path.read_text()
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            found = executed(json.loads(text))
        finally:
            os.chdir(here)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
