"""Results of the Python API for notebooks: as a table in HTML, and as Arrow.

Invariant: text of others is escaped; a row of the table is a row of `to_arrow`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import Any

import pyarrow as pa

Rows = list[dict[str, Any]]
CELL_CHARACTERS_MAX = 200


class NotebookTable(ABC):
    """An answer that a notebook shows as a table; `rows` says what it holds."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> Rows:
        """Return the rows: columns by name, the same in each."""

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.Table.from_pylist(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        if not rows:
            return "<p>nothing</p>"
        head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    cut = text if len(text) <= CELL_CHARACTERS_MAX else text[:CELL_CHARACTERS_MAX] + "…"
    return escape(cut)
