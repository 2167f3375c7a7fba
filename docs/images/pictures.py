"""Draws the terminal pictures of the README: `make pictures`.

What is drawn is what the commands print, from an example that never changes, at a fixed time: so
tests/tidy/test_pictures.py can compare the pictures with what would be drawn now.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from penstock.app.inspect.plan.forecast import Plan, RejectGroup, Sampled, StartRange, TablePlan
from penstock.cli.plan import plan_lines
from penstock.core.errors import DecisionNeededError
from penstock.observe.render import StatusText
from penstock.observe.snapshot import LastCommit, Parked, PendingEpoch, Snapshot, State, TableStatus
from penstock.observe.why import why

HERE = Path(__file__).parent
NOW_MS = 1_795_000_000_000

DARK = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (110, 118, 129),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (255, 255, 255),
    ],
)
LIGHT = TerminalTheme(
    (255, 255, 255),
    (31, 35, 40),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (125, 78, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (110, 119, 129),
    ],
    [
        (87, 96, 106),
        (164, 14, 38),
        (26, 127, 55),
        (99, 60, 1),
        (33, 139, 255),
        (164, 117, 249),
        (49, 146, 170),
        (140, 149, 159),
    ],
)


def plan(console: Console) -> None:
    """Show a plan with a table to create, one to land in, and one that needs a human."""
    orders = tuple(
        StartRange("shop.orders", number, 0, stop, "kafka.start: earliest")
        for number, stop in enumerate((168_412, 168_364))
    )
    clicks = (StartRange("shop.clicks", 0, 90_000, 96_500, "the position of the table"),)
    gone = DecisionNeededError(
        "lake.bronze.items: shop.items[0] offsets 500 to 800 are gone from Kafka (retention):"
        " 300 offsets would be given up",
        code="P252",
        hint="to continue after the gap and record it:  penstock run --accept gap",
    )
    stray = RejectGroup(
        "P361",
        "referrer",
        12,
        "referrer: the table has no such column",
        "shop.clicks",
        0,
        90_310,
        b'{"id": 90310, "page": "/cart", "referrer": "mail"}',
    )
    columns = (("id", "long"), ("amount", "decimal(10, 2)"), ("created_at", "timestamptz"))
    found = Plan(
        "shop",
        (
            TablePlan(
                "delta.bronze.orders",
                create=True,
                columns=columns,
                ranges=orders,
                size_bytes=104_300_000,
            ),
            TablePlan(
                "lake.bronze.clicks",
                missing=(("referrer", "string"),),
                columns_policy="quarantine",
                ranges=clicks,
                size_bytes=1_900_000,
                sampled=Sampled(1000, 988, {}, {"P361": 12}, (stray,)),
            ),
            TablePlan("lake.bronze.items", destructive=(gone,)),
        ),
        creates_quarantine="lake.ops.quarantine",
        rows_per_second=212_000.0,
    )
    console.print("[bold]$[/] penstock plan")
    for line in plan_lines(found):
        console.print(line)


def status(console: Console) -> None:
    """Show a pipeline at work, with a table that is parked."""
    console.print("[bold]$[/] penstock status --watch")
    shown = _snapshot()
    console.print(StatusText(shown, NOW_MS, why=why(shown, NOW_MS, running=True)))


def _snapshot() -> Snapshot:
    def table(
        rows: int,
        *,
        lag: int = 0,
        parked: Parked | None = None,
        quarantined: dict[str, int] | None = None,
    ) -> TableStatus:
        last_ms = NOW_MS - (9_000 if parked is None else 840_000)
        last = LastCommit(last_ms, 41, "append", 48_000, 4, 3_100_000, "s", 0.048)
        return TableStatus(
            rows=rows,
            commits=41,
            files=164,
            size_bytes=rows * 64,
            last_commit=last,
            pending=(PendingEpoch(42, 48_000, NOW_MS - 400),) if parked is None else (),
            valid_through_ms=last_ms,
            lag_records=lag,
            parked=parked,
            quarantined=quarantined or {},
            recent=tuple((last_ms - 5_000 * n, 24_000) for n in reversed(range(6))),
        )

    aside = Parked("P430", "lake.bronze.items: the catalog gives no answer", NOW_MS - 830_000)
    return Snapshot(
        pipeline="shop",
        state=State.RUNNING,
        started_ms=NOW_MS - 3_720_000,
        updated_ms=NOW_MS,
        generation=7,
        owner="host-a:4711",
        epoch=42,
        lag={"shop.orders": 1_204, "shop.items": 61_300},
        tables={
            "delta.bronze.orders": table(1_968_000, lag=1_204, quarantined={"P361": 12}),
            "lake.bronze.clicks": table(412_600, lag=310),
            "lake.bronze.items": table(96_100, lag=61_300, parked=aside),
        },
    )


PICTURES: dict[str, tuple[Callable[[Console], None], int]] = {
    "plan": (plan, 84),
    "status": (status, 112),
}
THEMES = {"dark": DARK, "light": LIGHT}


def drawn() -> dict[str, str]:
    """Draw all pictures, by file name."""
    return {
        f"{name}-{theme}.svg": _drawn(draw, width, THEMES[theme], f"{name}-{theme}")
        for name, (draw, width) in PICTURES.items()
        for theme in THEMES
    }


def _drawn(draw: Callable[[Console], None], width: int, theme: TerminalTheme, name: str) -> str:
    console = Console(
        record=True,
        width=width,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    draw(console)
    return console.export_svg(title="penstock", theme=theme, unique_id=f"penstock-{name}")


if __name__ == "__main__":
    for file, text in drawn().items():
        (HERE / file).write_text(text)
