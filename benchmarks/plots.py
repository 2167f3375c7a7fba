"""Plots as SVG, small and in the colours of a light or a dark page.

Invariant: the same numbers give the same text, so that a plot that did not change is no difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 52, 46
HEAD, BAR, GAP, LABEL = 36, 18, 8, 300
COLOURS = 6

_STYLE = """\
  <style>
    text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 15px } .small { font-size: 12px; fill: #59636e }
    .axis { stroke: #818b98 } .grid { stroke: #d1d9e0 } .limit { stroke: #cf222e; stroke-width: 2 }
    .line { fill: none; stroke-width: 2 }
    .c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df }
    .c4 { stroke: #bf3989 } .c5 { stroke: #59636e } .bar { fill: #0969da }
    .f0 { fill: #ffd8a8 } .f1 { fill: #ffc078 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc } .small { fill: #9198a1 } .axis { stroke: #656c76 }
      .grid { stroke: #2a313c } .limit { stroke: #f85149 } .c0 { stroke: #4493f8 }
      .c1 { stroke: #db6d28 } .c2 { stroke: #3fb950 } .c3 { stroke: #ab7df8 }
      .c4 { stroke: #db61a2 } .c5 { stroke: #9198a1 } .bar { fill: #4493f8 }
      .f0 { fill: #7a4100 } .f1 { fill: #5c3000 }
    }
  </style>"""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows; a logarithmic one has no place for 0."""

    name: str
    logarithmic: bool = False


def lines(
    title: str, series: Mapping[str, Points], x: Axis, y: Axis, *, limit: float | None = None
) -> str:
    """Draw lines over one another, each with its name at its end; `limit` is a level."""
    every = [point for points in series.values() for point in points]
    across = _Scale.of([at for at, _ in every], x, LEFT, WIDTH - RIGHT)
    levels = [level for _, level in every] + ([] if limit is None else [limit])
    up = _Scale.of(levels if y.logarithmic else [0.0, *levels], y, HEIGHT - BOTTOM, TOP)
    drawn = [*_grid(across, up, x, y)]
    if limit is not None:
        drawn.append(_line("limit", LEFT, up.at(limit), WIDTH - RIGHT, up.at(limit)))
    labels = _spread({name: up.at(points[-1][1]) for name, points in series.items()})
    for number, (name, points) in enumerate(series.items()):
        path = " ".join(f"{across.at(at):.1f},{up.at(level):.1f}" for at, level in points)
        colour = f"c{number % COLOURS}"
        drawn.append(f'  <polyline class="line {colour}" points="{path}"/>')
        place, end = labels[name], WIDTH - RIGHT
        drawn.append(_line(f"line {colour}", end + 6, place - 4, end + 22, place - 4))
        drawn.append(_text(end + 28, place, name))
    return _svg(title, WIDTH, HEIGHT, drawn)


def bars(title: str, rows: Mapping[str, float], unit: str) -> str:
    """Draw a bar for each name, with its number at its end."""
    height = HEAD + len(rows) * (BAR + GAP)
    most = max(rows.values())
    drawn = []
    for number, (name, value) in enumerate(rows.items()):
        top = HEAD + number * (BAR + GAP)
        wide = (WIDTH - LABEL - 110) * value / most
        drawn += [
            _text(LABEL - 8, top + BAR - 5, name, anchor="end"),
            f'  <rect class="bar" x="{LABEL}" y="{top}" width="{wide:.1f}" height="{BAR}"/>',
            _text(LABEL + wide + 6, top + BAR - 5, f"{short(value)} {unit}"),
        ]
    return _svg(title, WIDTH, height, drawn)


def flames(title: str, inside: Mapping[str, int], unit: str) -> str:
    """Draw stacks as an icicle: the outermost frame on top, as wide as the samples inside it.

    `inside` holds the samples inside each stack; `;` separates the frames of a stack. The whole
    text of a frame is shown where the pointer rests.
    """
    total = inside[min(inside, key=len)]
    used: dict[str, float] = {}
    drawn, deepest = [], 0
    for stack, count in inside.items():
        outer, _, frame = stack.rpartition(";")
        depth = stack.count(";")
        left = used.get(outer, 0.0)
        used[outer] = left + (WIDTH - 24) * count / total
        used[stack] = left
        deepest = max(deepest, depth)
        top, wide = HEAD + depth * BAR, (WIDTH - 24) * count / total
        says = f"{frame}: {100 * count / total:.1f} % of {total} {unit}"
        place = f'x="{12 + left:.1f}" y="{top}" width="{wide:.1f}" height="{BAR - 1}"'
        fits = escape(frame[: int(wide / 7)]) if wide > 30 else ""
        drawn.append(
            f'  <g><title>{escape(says)}</title><rect class="flame f{depth % 2}" {place}/>'
            f'<text class="small" x="{14 + left:.1f}" y="{top + 13}">{fits}</text></g>'
        )
    return _svg(title, WIDTH, HEAD + (deepest + 2) * BAR, drawn)


def short(value: float) -> str:
    """Write a number in three figures."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool

    @classmethod
    def of(cls, values: Sequence[float], axis: Axis, start: float, stop: float) -> _Scale:
        low, high = min(values), max(values)
        if axis.logarithmic:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
        return cls(low, high if high > low else low + 1, start, stop, axis.logarithmic)

    def at(self, value: float) -> float:
        """Return the place of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Return round values between its ends."""
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        step *= next(each for each in (1, 2, 5, 10) if (self.high - self.low) / step / each <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [each * step for each in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _grid(across: _Scale, up: _Scale, x: Axis, y: Axis) -> list[str]:
    drawn = []
    for tick in up.ticks():
        level = up.at(tick)
        drawn.append(_line("grid", LEFT, level, WIDTH - RIGHT, level))
        drawn.append(_text(LEFT - 6, level + 4, short(tick), anchor="end", kind="small"))
    bottom = HEIGHT - BOTTOM
    for tick in across.ticks():
        drawn.append(_line("axis", across.at(tick), bottom, across.at(tick), bottom + 5))
        drawn.append(
            _text(across.at(tick), bottom + 19, short(tick), anchor="middle", kind="small")
        )
    drawn.append(_line("axis", LEFT, bottom, WIDTH - RIGHT, bottom))
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(_text(middle, HEIGHT - 8, x.name, anchor="middle", kind="small"))
    drawn.append(_text(12, TOP - 12, y.name, kind="small"))
    return drawn


def _spread(places: Mapping[str, float]) -> dict[str, float]:
    """Move names that would overlap."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda each: each[1]):
        last = max(place, last + 17)
        moved[name] = last
    return moved


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'  <line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'  <text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, width: int, height: int, drawn: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    named = f"  <title>{escape(title)}</title>"
    return "\n".join(
        [head, named, _STYLE, _text(12, 20, title, kind="title"), *drawn, "</svg>", ""]
    )
