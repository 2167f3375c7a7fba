"""Pipelines to look at that never change: for the tests of the page, and for its pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.app.inspect.publications import PublicationView
from penstock.app.inspect.status import Status
from penstock.app.members import MemberStatus
from penstock.app.page.views import PipelineView
from penstock.core.maintenance import LastMaintenance, TableHealth
from penstock.observe.snapshot import (
    EpochStatus,
    LastCommit,
    Parked,
    PendingEpoch,
    Snapshot,
    State,
    TableStatus,
    stalled,
)
from penstock.observe.why import why
from penstock.ports.reports import Happening

NOW_MS = 1_795_000_012_000
INTERVAL_MS = 5_000


@dataclass
class Still:
    """A pipeline that is watched, and of which always the same is known."""

    found: PipelineView
    looks: int = 0

    @property
    def name(self) -> str:
        return self.found.name

    def view(self) -> PipelineView:
        self.looks += 1
        return self.found


def table(
    rows: int,
    *,
    lag: int | None = 0,
    ago_ms: int = 3_000,
    parked: Parked | None = None,
    quarantined: dict[str, int] | None = None,
    sick: bool = False,
) -> TableStatus:
    last_ms = NOW_MS - ago_ms
    files = 2_900 if sick else 164
    share = rows // 30
    return TableStatus(
        rows=rows,
        commits=41,
        files=164,
        size_bytes=rows * 64,
        last_commit=LastCommit(last_ms, 1442, "append", 12_048, 4, 771_000, "4871155630221", 0.048),
        pending=(PendingEpoch(1443, 12_110, NOW_MS - 400),) if parked is None else (),
        valid_through_ms=last_ms - 1_200,
        lag_records=lag,
        parked=parked,
        quarantined=quarantined or {},
        recent=tuple(
            (last_ms - 10_000 * n, share * (3 + (n * 7) % 5) // 5) for n in reversed(range(28))
        ),
        table_rows=rows * 9,
        table_files=files,
        offsets={f"shop.orders:{n}": rows * 3 + n * 811 for n in range(3)},
        health=TableHealth(
            files,
            220 if sick else 160,
            rows * 600,
            rows * 9,
            0,
            3_400_000,
            12 if sick else 0,
            maintained=LastMaintenance(NOW_MS - 26_000_000, "penstock"),
        ),
    )


def epochs() -> tuple[EpochStatus, ...]:
    found = []
    for n in range(14):
        begun = NOW_MS - 70_000 + 5_000 * n
        read, prepared = begun + 900 + (n * 371) % 700, begun + 1_150 + (n * 371) % 900
        done = prepared + 160 + (n * 113) % 400
        is_last = n == 13
        found.append(
            EpochStatus(
                1_430 + n,
                begun,
                50_112 + n * 97,
                4,
                2 if is_last else 4,
                read if not is_last else begun + 800,
                None if is_last else prepared,
                None if is_last else done,
                0 if is_last else 5,
                n % 4,
                (read - begun) / 1000 - 0.1,
                "" if is_last else "lake.bronze.clicks",
                0.0 if is_last else (done - prepared) / 1000,
            )
        )
    return tuple(found)


def snapshot(name: str, tables: dict[str, TableStatus], lag: int) -> Snapshot:
    return Snapshot(
        pipeline=name,
        state=State.RUNNING,
        started_ms=NOW_MS - 7_120_000,
        updated_ms=NOW_MS - 300,
        generation=41,
        owner="host-a:4711",
        epoch=1_443,
        lag={"shop.orders": lag},
        tables=tables,
        epochs=epochs(),
    )


def look_at(found: Snapshot, **more: object) -> PipelineView:
    stall = stalled(found, NOW_MS, INTERVAL_MS)
    status = Status(
        found,
        running=True,
        now_ms=NOW_MS,
        tells=True,
        stall=stall,
        why=why(found, NOW_MS, running=True, stall=stall),
    )
    return replace(PipelineView(found.pipeline, NOW_MS, "", status), **more)  # type: ignore[arg-type]


HAPPENED = (
    Happening(
        NOW_MS - 3_000,
        "TableCommitted",
        "info",
        "lake.bronze.clicks",
        "epoch 1442: 12,048 rows in 4 files, 771.0 kB, committed in 48 ms",
    ),
    Happening(
        NOW_MS - 4_100,
        "RecordsQuarantined",
        "warning",
        "delta.bronze.orders",
        "epoch 1442 quarantined records: 12 by P361",
    ),
    Happening(
        NOW_MS - 830_000,
        "TableParked",
        "error",
        "lake.bronze.items",
        "parked, P430: the catalog gives no answer",
    ),
    Happening(
        NOW_MS - 7_119_000, "PipelineStarted", "info", "shop", "started as generation 41, 5 tables"
    ),
    Happening(NOW_MS - 7_120_000, "LeadershipGained", "warning", "shop", "takes over: handed over"),
)


def shop() -> PipelineView:
    aside = Parked(
        "P430",
        "lake.bronze.items: the catalog gives no answer: 503 Service Unavailable",
        NOW_MS - 830_000,
        "see that the catalog answers, and wait: it is tried again",
    )
    tables = {
        "delta.bronze.orders": table(1_968_000, lag=1_204, quarantined={"P361": 12, "P320": 5}),
        "delta.bronze.payments": table(402_110, lag=88, ago_ms=4_000),
        "lake.bronze.clicks": table(9_412_600, lag=310, sick=True),
        "lake.bronze.items": table(96_100, lag=61_300, ago_ms=835_000, parked=aside),
        "lake.bronze.sessions": table(712_009, lag=40, ago_ms=2_000),
    }
    members = (
        MemberStatus("a", "host-a", 4711, "owner", "", "0.1.0", 0.4),
        MemberStatus("b", "host-b", 77, "ready", "", "0.1.0", 0.2),
        MemberStatus(
            "c", "host-c", 31, "not ready", "P430  catalog lake refuses the token", "0.1.0", 0.3
        ),
    )
    return look_at(snapshot("shop", tables, 62_942), happenings=HAPPENED, members=members)


def billing() -> PipelineView:
    tables = {
        "lake.gold.invoices": table(410_220, lag=12),
        "lake.gold.refunds": table(9_030, lag=0),
    }
    published = PublicationView(
        "invoices",
        "lake.gold.invoices",
        "billing.invoices",
        "penstock.billing.invoices",
        "penstock.offsets",
        client="exactly once: the own sender, transaction protocol 2",
        epoch=812,
        published=410_208,
        backlog=12,
    )
    return look_at(
        snapshot("billing", tables, 12), happenings=HAPPENED[:1], publications=(published,)
    )


def many(count: int) -> PipelineView:
    tables = {
        f"lake.bronze.events_of_tenant_{n:04}": table(10_000 + n, lag=n) for n in range(count)
    }
    return look_at(snapshot("tenants", tables, 40_000), happenings=HAPPENED)


HOSTILE = (
    "<script>document.title='hacked'</script>",
    "\"'><img src=x onerror=document.title='hacked'>",
    "../../etc/passwd",
    "{{ 7 * 7 }}",
    "\u202ereversed\u202c \x1b[31m\x00 tail",
    "a" * 300,
    "?name=x&page=9#top",
    "名前.テーブル",
)


def hostile() -> PipelineView:
    said = "</p><script>document.title='hacked'</script>"
    tables = {
        name: table(10, parked=Parked("P430", said, NOW_MS - 60_000, said)) for name in HOSTILE
    }
    happened = tuple(Happening(NOW_MS, name, "error", name, said) for name in HOSTILE)
    members = (MemberStatus(said, said, 1, "not ready", said, said, 0.1),)
    return look_at(
        snapshot("hostile", tables, 5), happenings=happened, members=members, spec="'; rm -rf / #"
    )
