"""A terminal's screen, as far as a live display moves on it: what is written becomes lines.

Invariant: a sequence that it does not know raises AssertionError, so that none goes by unseen.

Source: ECMA-48, CUU, EL, SGR, SM and RM; xterm, "Control Sequences".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rich.cells import cell_len

_PART = re.compile(
    r"\x1b\[(?P<numbers>[?0-9;]*)(?P<act>[A-Za-z])|(?P<control>[\x00-\x1f\x7f])|(?P<sign>.)",
    re.DOTALL,
)


@dataclass(slots=True)
class Screen:
    """Takes what a terminal is sent; `lines` are what it shows, those scrolled away included.

    `styles` are the sequences that changed how text looks, in order.
    """

    width: int
    height: int
    styles: list[str] = field(default_factory=list)
    cursor_shown: bool = True
    _rows: list[list[str]] = field(default_factory=lambda: [[]])
    _row: int = 0
    _column: int = 0
    _held: bytes = b""

    @property
    def lines(self) -> list[str]:
        """Return the lines up to the last that is not empty, without blanks at their ends."""
        shown = ["".join(row).rstrip() for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def feed(self, sent: bytes) -> None:
        """Take bytes; a sign that is not whole yet waits for the rest."""
        sent = self._held + sent
        text = sent.decode("utf-8", "ignore")
        self._held = sent[len(text.encode()) :]
        for part in _PART.finditer(text):
            if part["act"]:
                self._sequence(part["numbers"], part["act"])
            elif part["control"]:
                self._control(part["control"])
            else:
                self._write(part["sign"])

    def _sequence(self, numbers: str, act: str) -> None:
        match act:
            case "m":
                self.styles.append(f"{numbers}m")
            case "A":
                self._up(int(numbers or 1))
            case "K":
                assert numbers == "2", "only whole lines are erased"
                self._rows[self._row].clear()
            case "h" | "l":
                assert numbers == "?25", f"mode {numbers} is not known"
                self.cursor_shown = act == "h"
            case _:
                raise AssertionError(f"ESC[{numbers}{act} is not known")

    def _control(self, control: str) -> None:
        assert control in "\r\n", f"{control!r} steers the terminal"
        if control == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append([])
        self._column = 0  # a terminal's driver makes a line break of a line feed

    def _write(self, sign: str) -> None:
        cells = cell_len(sign)
        if self._column + cells > self.width:
            self._control("\n")
        row = self._rows[self._row]
        row.extend([" "] * (self._column - len(row)))
        row[self._column : self._column + cells] = [sign, *[""] * (cells - 1)]
        self._column += cells

    def _up(self, rows: int) -> None:
        self._row = max(self._row - rows, len(self._rows) - self.height, 0)
